"""Where rows stand in the files that Spark reads: the file, and the row's number in it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import numpy as np
import pyarrow as pa

from muntin.arrow import pc, plain_value
from muntin.spark.file_starts import is_replaced, wrong_start
from muntin.spark.json_lines import passed_over
from muntin.spark.misfits import misfit
from muntin.spark.partials import CORRUPT_COLUMN, REJECTED_KEPT_MAX, WHY_COLUMN, Placed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FILE, BLOCK, LENGTH, ROW = "_muntin_file", "_muntin_block", "_muntin_length", "_muntin_row"
FILE_COLUMNS = (FILE, BLOCK, LENGTH, ROW)
START = "start"
_NOT_UTF8 = (
    "bytes of its text are not UTF-8: write the files so, for example by  iconv -t UTF-8; or, of "
    "CSV, name what they are, for example  encoding: ISO-8859-1  under source"
)
_SEVERAL = (
    "the {} has several JSON values, of which Spark reads the first: write each in a line of its "
    "own, for example by  jq -c .{}"
)
_HALF = (
    "a text, or one that reads the same, has half a character (such as \\ud83d alone), which Spark "
    "takes for a question mark: write such texts whole"
)
_METADATA = {
    FILE: "file_path",
    BLOCK: "file_block_start",
    LENGTH: "file_block_length",
    ROW: "row_index",
}


def with_files(
    df: DataFrame, file_format: str, start: Mapping[str, Any] | None = None
) -> DataFrame:
    """A frame of files, with where its rows stand, and how these begin.

    Spark numbers the rows of Parquet files alone. Of other formats it reads a file in blocks: rows
    are counted from where the block begins.
    """
    chosen = (FILE, ROW) if file_format == "parquet" else (FILE, BLOCK, LENGTH)
    told = df.metadataColumn("_metadata")  # files may have a column of that name
    df = df.select("*", *[told.getField(_METADATA[name]).alias(name) for name in chosen])
    return df.withMetadata(FILE, {START: json.dumps(start)}) if start else df


def reader_of_files(
    df: DataFrame, fields: Iterable[str]
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[Placed]]:
    """What reads the batches of a frame `with_files`, or of some of its columns. `fields`: those
    that are not the files' own."""
    said = df.schema[FILE].metadata.get(START)
    start = json.loads(said) if said else {}
    kinds = start.get("kinds", {})
    kinds |= dict.fromkeys(kinds.keys() & {*fields}, "string")  # a null there tells nothing
    return partial(in_files, start=start)


def in_files(
    batches: Iterable[pa.RecordBatch], start: Mapping[str, Any] = MappingProxyType({})
) -> Iterator[Placed]:
    """Batches without the columns that tell their rows' places, and these: path, row 12.

    Rows of files that do not begin as `start` says are marked as malformed. What Spark passes over
    in lines of JSON comes as rows that are.
    """
    block, counted, wrong, explained = None, 0, "", 0
    replaced: dict[str, bool] = {}
    broken = pa.array([], pa.string())
    for batch in batches:
        columns = [n for n in batch.schema.names if n not in FILE_COLUMNS]
        if ROW in batch.schema.names:
            yield batch.select(columns), partial(_numbered, batch.column(FILE), batch.column(ROW))
            continue
        for part in _by_block(batch):
            begins = part.column(FILE)[0].as_py(), part.column(BLOCK)[0].as_py()
            counted = counted if begins == block else 0
            if start and begins != block:
                wrong = wrong_start(_shown(begins[0]), start)
                if "lines" in start:
                    texts: set[str] = set()
                    yield from _passed_over(part.slice(0, 1), columns, texts, start["whole"])
                    broken = pa.array(texts, pa.string())
            block = begins
            read = part.select(columns)
            if wrong:
                read = _malformed(read, np.ones(part.num_rows, bool), wrong)
            elif start:
                read = _without_replaced(read, begins[0], start, replaced, broken)
                whys = _misfits(read, start, REJECTED_KEPT_MAX - explained)
                explained += len(whys)
                read = _explained(read, whys) if whys else read
            yield read, partial(_counted, *begins, counted)
            counted += part.num_rows


def _passed_over(
    first: pa.RecordBatch, columns: Sequence[str], broken: set[str], whole: bool
) -> Iterator[Placed]:
    """Of the block with this row: each value that Spark passed over as a row of its own."""
    path, begins, length = (first.column(name)[0].as_py() for name in (FILE, BLOCK, LENGTH))
    for line, values, text in passed_over(_shown(path), begins, length, broken, whole=whole):
        shown = text.decode("utf-8", "replace")
        why = _SEVERAL.format(*(("file", ", without multiLine") if whole else ("line", "")))
        nulls = {name: pa.nulls(values, first.schema.field(name).type) for name in columns}
        rows = pa.RecordBatch.from_pydict(nulls)
        rows = _malformed(rows, np.ones(values, bool), why, shown)
        place = _place(path, begins, "line", line)
        yield rows, lambda _, place=place: place


def _without_replaced(
    batch: pa.RecordBatch,
    path: str,
    start: Mapping[str, Any],
    known: dict[str, bool],
    broken: pa.Array,
) -> pa.RecordBatch:
    """Rows are marked whose text is not what stands in their file, where that is not UTF-8, or, of
    JSON, holds half a character: keys that differ would be one. `known`: what was found of files
    before. `broken`: texts of JSON."""
    found = np.zeros(batch.num_rows, bool)
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if pa.types.is_string(column.type) and name not in (CORRUPT_COLUMN, WHY_COLUMN):
            has = pc.is_in(column, broken) if broken else pc.match_substring(column, "\ufffd")
            found |= has.fill_null(False).to_numpy(zero_copy_only=False)
    if broken or not found.any():
        return _malformed(batch, found, _HALF) if found.any() else batch
    if path not in known:
        known[path] = is_replaced(_shown(path), start)
    return _malformed(batch, found, _NOT_UTF8) if known[path] else batch


def _misfits(batch: pa.RecordBatch, start: Mapping[str, Any], most: int) -> dict[int, str | None]:
    """Row -> why Spark did not take it, of the first ones."""
    names = batch.schema.names
    if most <= 0 or "kinds" not in start or CORRUPT_COLUMN not in names:
        return {}
    texts = batch.column(CORRUPT_COLUMN)
    if WHY_COLUMN in names:
        texts = pc.if_else(batch.column(WHY_COLUMN).is_null(), texts, None)
    found = {}
    for row in np.flatnonzero(texts.is_valid().to_numpy(zero_copy_only=False))[:most].tolist():
        nulls = {name for name in names if not batch.column(name)[row].is_valid}
        text = plain_value(texts.slice(row, 1))  # which may not be UTF-8
        found[row] = misfit(text, start, nulls & start["kinds"].keys())
    return found


def _explained(batch: pa.RecordBatch, whys: Mapping[int, str | None]) -> pa.RecordBatch:
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    said = pa.array([whys.get(row) for row in range(batch.num_rows)], pa.string())
    columns[WHY_COLUMN] = pc.coalesce(columns.get(WHY_COLUMN, said), said)
    return pa.RecordBatch.from_pydict(columns)


def _malformed(
    batch: pa.RecordBatch, rows: np.ndarray, why: str, text: str | None = None
) -> pa.RecordBatch:
    """These rows marked, with the reason, and their text where it is known."""
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    none = pa.nulls(batch.num_rows, pa.string())
    for name, said in ((CORRUPT_COLUMN, text), (WHY_COLUMN, why)):
        if said is None:
            continue
        columns[name] = pc.if_else(pa.array(rows), pa.scalar(said), columns.get(name, none))
    return pa.RecordBatch.from_pydict(columns)


def _by_block(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The parts of a batch that lie in one block of one file."""
    if not batch.num_rows:
        return
    changes = np.zeros(batch.num_rows - 1, bool)
    for name in (FILE, BLOCK):
        column = batch.column(name)
        changes |= pc.not_equal(column[1:], column[:-1]).to_numpy(zero_copy_only=False)
    at = [0, *(np.flatnonzero(changes) + 1).tolist(), batch.num_rows]
    for first, last in pairwise(at):
        yield batch.slice(first, last - first)


def _counted(path: str, begins: int, before: int, row: int) -> str:
    return _place(path, begins, "row", before + row + 1)


def _place(path: str, begins: int, what: str, number: int) -> str:
    place = f"{_shown(path)}, {what} {number}"
    return f"{place} from byte {begins:,}" if begins else place


def _numbered(paths: pa.Array, rows: pa.Array, row: int) -> str:
    return f"{_shown(paths[row].as_py())}, row {rows[row].as_py() + 1}"


def _shown(path: str) -> str:
    return unquote(urlsplit(path).path) if path.startswith("file:") else path
