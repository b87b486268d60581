"""CSV files read in the workers by Arrow: a third of the time of Spark's own reader.

Each worker has a range of bytes and reads the lines that begin in it. A line that Arrow and Spark
could understand differently, or that does not parse, is put aside; at the end Spark reads those
few, so that what is malformed, and why, is the same as in a stream. Where they are not few, Spark
reads the files.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import pyarrow as pa

from muntin.errors import SourceError
from muntin.spark.csv_lines import Lines, lines_of
from muntin.spark.csv_reading import Format, read_lines, readable
from muntin.spark.file_starts import form_of, has_headers, wrong_start
from muntin.spark.files import local_path
from muntin.spark.ingest import GatherRows, gather_from
from muntin.spark.partials import CORRUPT_COLUMN, Placed, Plan, fold_placed, merged
from muntin.spark.places import FILE_COLUMNS, without_replaced
from muntin.spark.rows import Row, collect_rows
from muntin.spark.runs import tasks_of
from muntin.spark.source import batch_source, needed, of_csv_lines
from muntin.spec import COMPRESSED, Pipeline, SourceSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

FIRST_CHUNK_BYTES = 1 << 20  # small, to see soon whether lines are plain
CHUNK_BYTES = 16 << 20
SHARE_BYTES = 1 << 30  # of one task
LINE_BYTES_MAX = 16 << 20
ASIDE_PART_MAX = 0.1  # of a task's lines; beyond, Spark reads all of them
ASIDE_LINES_FREE = 100
ASIDE_BYTES_MAX = 64 << 20  # of one task

ASIDE, GIVEN_UP = 5, 6  # what a row is, beside those of `partials`
_BYTE_ORDER_MARKS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")
_LOG = logging.getLogger("muntin.spark")


@dataclass(frozen=True, slots=True)
class Range:
    """Lines of a file that begin at these bytes."""

    path: str
    begin: int
    end: int


_BESIDE = (CORRUPT_COLUMN, *FILE_COLUMNS)  # what a source gives with the file's own columns


class GaveUpError(Exception):
    """Spark must read these files."""


def gather_csv(spark: SparkSession, source: SourceSpec, pipeline: Pipeline) -> GatherRows | None:
    """Partials of local CSV files; None where Spark must read them.

    Raises
    ------
    SourceError
        The files are not there, or lack a column, or have it in a type that cannot be used.
    """
    written = None if pipeline.fields else dialect(source)
    files = plain_files(source.path or "") if written else None
    if not written or not files:
        return None
    df = batch_source(spark, source)
    form = _format(df, pipeline, written)
    if form is None:
        return None
    by_spark = gather_from(df, pipeline)
    header = has_headers(source)
    begin = form_of(source, form.names)
    if header and any(wrong_start(file, begin) for file in files):
        return None
    try:
        whole = [whole_of(file, header=header) for file in files]
    except GaveUpError:
        return None
    shares = shares_of(whole, max(1, spark.sparkContext.defaultParallelism))

    def read(lines: list[str]) -> DataFrame:
        return of_csv_lines(spark, source, lines, _texts_but(df.schema, form.wanted.names))

    def gather(plan: Plan) -> Sequence[Row]:
        found = collect_rows(
            spark, len(shares), lambda number: read_share(plan, form, shares[number])
        )
        if any(row[0] == GIVEN_UP for row in found):
            _LOG.info("%s: read by Spark, as many lines are not plain CSV", source.path)
            return by_spark(plan)
        aside = [row for row in found if row[0] == ASIDE]
        rest = [row for row in found if row[0] != ASIDE]
        judged = _judged(plan, aside, read, form.wanted.names, begin)
        return merged(plan, [*rest, *judged], tasks_of(spark))

    return gather


def dialect(source: SourceSpec) -> tuple[str, str] | None:
    """Separator and escape of CSV files; None where an option says what only Spark knows."""
    options = source.options
    if source.format != "csv" or not options.keys() <= {"header", "sep", "escape"}:
        return None
    separator, escape = options.get("sep", ","), options.get("escape", '"')
    usual = (
        len(separator) == 1
        and separator.isascii()
        and separator not in '"\\\r\n\0'
        and escape in ('"', "\\")
        and options.get("header", "true") in ("true", "false")
    )
    return (separator, escape) if usual else None


def plain_files(path: str) -> list[str] | None:
    """Files of a local file or folder, in order; None where only Spark can read them."""
    here = local_path(path)
    if here is None or not here.exists():
        return None
    found = [here]
    if here.is_dir():
        found = sorted(f for f in here.iterdir() if not f.name.startswith(("_", ".")))
    for file in found:
        if not file.is_file() or file.suffix in COMPRESSED:
            return None
        with file.open("rb") as stream:
            if stream.read(3).startswith(_BYTE_ORDER_MARKS):
                return None
    return [str(file) for file in found]


def whole_of(path: str, *, header: bool) -> Range:
    """All lines of a file, but its header: the first that is not blank. Raises GaveUpError."""
    with open(path, "rb") as stream:
        while header and (line := _line(stream)) and not _one_line(line).strip():
            pass
        return Range(path, stream.tell(), Path(path).stat().st_size)


def shares_of(
    whole: Sequence[Range], parallelism: int, share_bytes: int = SHARE_BYTES
) -> list[list[Range]]:
    """All bytes in order, in one share a worker, or as many as keep below `share_bytes`."""
    total = sum(file.end - file.begin for file in whole)
    tasks = max(parallelism, -(-total // share_bytes))
    shares: list[list[Range]] = []
    for first, last in pairwise(total * number // tasks for number in range(tasks + 1)):
        share, at = [], 0
        for file in whole:
            begin, end = max(file.begin, first - at + file.begin), file.begin + last - at
            if begin < min(end, file.end):
                share.append(Range(file.path, begin, min(end, file.end)))
            at += file.end - file.begin
        if share:
            shares.append(share)
    return shares


def read_share(plan: Plan, form: Format, share: list[Range]) -> Iterator[Row]:
    """What a worker does: rows for the driver, also ASIDE, or GIVEN_UP at the end."""
    _lines_before.cache_clear()  # a worker may have read other contents of these files
    aside = _Aside()
    try:
        yield from fold_placed(plan, _placed(form, share, aside))
    except GaveUpError:
        yield GIVEN_UP, "", 0, 0, b""
        return
    for path, (numbers, texts) in aside.files.items():
        yield ASIDE, json.dumps([path, numbers]), 0, 0, b"\n".join(texts)


@dataclass(frozen=True, slots=True)
class _Chunk:
    """Lines of a file that were read together."""

    path: str
    data: np.ndarray
    lines: Lines
    begin: int
    """Where, in the file, its task began to read."""
    passed: int
    """Lines from there to this chunk."""

    def number(self, index: int) -> int:
        """The line's number in its file, from 1; reads all that is before it when first asked."""
        before = _lines_before(self.path, self.begin) + self.passed
        return before + int(self.lines.numbers[index]) + 1

    def text(self, index: int) -> bytes:
        begin, end = self.lines.begins[index], self.lines.ends[index]
        return self.data[begin:end].tobytes()


class _Aside:
    """Lines that are for Spark: by file, their numbers and texts."""

    def __init__(self) -> None:
        self.files: dict[str, tuple[list[int], list[bytes]]] = {}
        self._lines = self._bytes = self._seen = 0

    def add(self, chunk: _Chunk, indexes: list[int]) -> None:
        """Raises GaveUpError where they have become too many."""
        self._seen += len(chunk.lines.numbers)
        if not indexes:
            return
        numbers, texts = self.files.setdefault(chunk.path, ([], []))
        for index in sorted(indexes):
            numbers.append(chunk.number(index))
            texts.append(_one_line(chunk.text(index)))
            self._bytes += len(texts[-1])
        self._lines += len(indexes)
        most = ASIDE_LINES_FREE + ASIDE_PART_MAX * self._seen
        if self._lines > most or self._bytes > ASIDE_BYTES_MAX:
            raise GaveUpError


def _placed(form: Format, share: list[Range], aside: _Aside) -> Iterator[Placed]:
    for part in share:
        with open(part.path, "rb") as stream:
            begin, passed = _begin(stream, part), 0
            for data in _chunks(stream, part.end):
                lines = lines_of(data, len(form.names), form.separator, form.escape)
                chunk = _Chunk(part.path, data, lines, begin, passed)
                doubtful: list[int] = []
                for batch, which in read_lines(form, data, lines, doubtful):
                    yield batch, partial(_place, chunk, which)
                aside.add(chunk, doubtful)
                passed += lines.total


def _place(chunk: _Chunk, which: np.ndarray, row: int) -> str:
    return f"{chunk.path}, line {chunk.number(int(which[row]))}"


def _begin(stream: BinaryIO, part: Range) -> int:
    """Go to the first line that begins in a range."""
    if part.begin:
        stream.seek(part.begin - 1)
        _line(stream)
    return stream.tell()


def _chunks(stream: BinaryIO, end: int) -> Iterator[np.ndarray]:
    """The lines that begin before `end`, some megabytes at a time: uint8[m] each."""
    size = FIRST_CHUNK_BYTES
    while (left := end - stream.tell()) > 0:
        data = stream.read(min(size, left))
        if not data.endswith(b"\n"):
            data += _line(stream)
        if not data:
            return  # the file has become shorter
        yield np.frombuffer(data, np.uint8)
        size = CHUNK_BYTES


def _line(stream: BinaryIO) -> bytes:
    line = stream.readline(LINE_BYTES_MAX)
    if len(line) == LINE_BYTES_MAX:
        raise GaveUpError
    return line


def _one_line(text: bytes) -> bytes:
    """Without its end. Where a carriage return stands alone, Spark sees two lines."""
    text = text.rstrip(b"\r\n")
    if b"\r" in text:
        raise GaveUpError
    return text


@lru_cache(maxsize=64)
def _lines_before(path: str, offset: int) -> int:
    found = 0
    with open(path, "rb") as stream:
        while offset > 0 and (data := stream.read(min(CHUNK_BYTES, offset))):
            found += data.count(b"\n")
            offset -= len(data)
    return found


def _format(df: DataFrame, pipeline: Pipeline, written: tuple[str, str]) -> Format | None:
    """None where a type is not among those that Arrow reads as Spark does."""
    names = [name for name in df.columns if name not in _BESIDE]
    chosen, schema = needed(df, pipeline)
    schema = pa.schema([schema.field(name) for name in chosen.columns if name not in _BESIDE])
    if not readable(schema) or len(set(names)) < len(names):
        return None
    return Format(tuple(names), schema, *written)


def _texts_but(schema: StructType, names: list[str]) -> StructType:
    """What is not needed cannot be malformed: the same columns, others than these as texts."""
    from pyspark.sql.types import StructType

    found = StructType()
    for field in schema:
        if field.name not in _BESIDE:
            found.add(field.name, field.dataType if field.name in names else "string")
    return found


def _judged(
    plan: Plan,
    aside: list[Row],
    read: Callable[[list[str]], DataFrame],
    wanted: list[str],
    begin: Mapping[str, Any],
) -> Iterator[Row]:
    """Fold, on the driver, the lines that were put aside, as Spark reads them."""
    texts: list[str] = []
    places: list[str] = []
    paths: list[str] = []
    for _, name, _, _, payload in aside:
        path, numbers = json.loads(name)
        texts += [text.decode("utf-8", "replace") for text in payload.split(b"\n")]
        places += [f"{path}, line {number}" for number in numbers]
        paths += [path] * len(numbers)
    if not texts:
        return
    table = read(texts).select(*wanted, CORRUPT_COLUMN).toArrow()
    if table.num_rows != len(texts):
        raise SourceError(f"{places[0]}: Spark reads {table.num_rows} lines, not {len(texts)}")
    (batch,) = table.combine_chunks().to_batches()
    batch = without_replaced(batch, paths, begin, {})
    yield from fold_placed(plan, [(batch, places.__getitem__)])
