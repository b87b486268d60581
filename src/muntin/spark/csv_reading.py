"""Lines of CSV to Arrow, exactly as Spark's reader would; what is doubtful is reported."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv

from muntin.arrow import pc
from muntin.spark.csv_lines import Lines

FEW_LINES = 8  # not divided further, when one of them does not parse
SNIFFED_BYTES = 16 << 10
_READABLE = {
    *(pa.string(), pa.bool_(), pa.date32(), pa.timestamp("us", "UTC")),
    *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64()),
}
_NAIVE = pa.timestamp("us")
_ZONED = r"\d[T ]\d.*(Z|[+-]\d\d(:?\d\d)?)$"
# not minutes with a zone, and no zone of 18 hours or more: those Spark refuses
_ZONED_FOR_BOTH = r":\d\d:\d\d(\.\d+)?(Z|[+-](0\d|1[0-7])(:?[0-5]\d)?)$"


@dataclass(frozen=True, slots=True)
class Format:
    """How lines are read.

    Attributes
    ----------
    names : tuple of str
        All columns, in the order of their fields.
    wanted : pa.Schema
        Those that are read, of types for which `readable`.
    """

    names: tuple[str, ...]
    wanted: pa.Schema
    separator: str = ","
    escape: str = "\\"
    """Stands before a quote within quotes."""


def readable(schema: pa.Schema) -> bool:
    """Whether all types are those of which Arrow and Spark read the same texts alike."""
    return all(kind in _READABLE for kind in schema.types)


def read_lines(
    form: Format, data: np.ndarray, lines: Lines, doubtful: list[int]
) -> Iterator[tuple[pa.RecordBatch, np.ndarray]]:
    """Read a chunk: uint8[m].

    Yields batches, each with the indexes of its lines. While it is iterated, indexes of lines
    that Spark must judge are added to `doubtful`.
    """
    doubtful.extend(np.flatnonzero(~lines.plain).tolist())
    yield from _halving(form, data, lines, np.flatnonzero(lines.plain), doubtful)


def _halving(
    form: Format, data: np.ndarray, lines: Lines, chosen: np.ndarray, doubtful: list[int]
) -> Iterator[tuple[pa.RecordBatch, np.ndarray]]:
    """All of the lines, or each half of them where there is one that does not parse."""
    if not len(chosen):
        return
    batch = _parsed(form, _text(data, lines, chosen))
    if batch is not None and batch.num_rows == len(chosen):
        yield batch, chosen
    elif len(chosen) <= FEW_LINES:
        doubtful.extend(chosen.tolist())
    else:
        middle = len(chosen) // 2
        yield from _halving(form, data, lines, chosen[:middle], doubtful)
        yield from _halving(form, data, lines, chosen[middle:], doubtful)


def _text(data: np.ndarray, lines: Lines, chosen: np.ndarray) -> np.ndarray:
    """The lines, one after the other; without a copy where nothing lies between them."""
    begins, ends = lines.begins[chosen], lines.ends[chosen]
    breaks = np.flatnonzero(begins[1:] != ends[:-1]) + 1
    firsts, lasts = [0, *breaks.tolist()], [*breaks.tolist(), len(chosen)]
    runs = [data[begins[f] : ends[e - 1]] for f, e in zip(firsts, lasts, strict=True)]
    return runs[0] if len(runs) == 1 else np.concatenate(runs)


def _parsed(form: Format, text: np.ndarray) -> pa.RecordBatch | None:
    """None where a text is not of its column's type, or is a number that Java writes otherwise."""
    zoned = _zoned(form, text)
    types = {field.name: field.type for field in form.wanted}
    for name, kind in types.items():
        if pa.types.is_timestamp(kind):
            types[name] = pa.string() if name in zoned else _NAIVE
    try:
        table = _read(form, text, types)
        if not all(_all(pc.match_substring_regex(table[c], _ZONED_FOR_BOTH)) for c in zoned):
            return None
        batches = table.cast(form.wanted).combine_chunks().to_batches()
    except pa.ArrowInvalid:
        return None
    for column in table.columns:
        if pa.types.is_floating(column.type) and not _all(pc.is_finite(column)):
            return None  # "nan" and "inf" have other names in Java
    return batches[0] if len(batches) == 1 else None


def _read(form: Format, text: np.ndarray, types: dict[str, pa.DataType]) -> pa.Table:
    return pacsv.read_csv(
        pa.BufferReader(pa.py_buffer(text)),
        read_options=pacsv.ReadOptions(
            column_names=form.names, use_threads=False, block_size=len(text) + 1
        ),
        parse_options=pacsv.ParseOptions(
            delimiter=form.separator, double_quote=form.escape == '"', ignore_empty_lines=False
        ),
        convert_options=pacsv.ConvertOptions(
            include_columns=list(types),
            column_types=types,
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            true_values=["true", "True", "TRUE"],
            false_values=["false", "False", "FALSE"],
        ),
    )


def _zoned(form: Format, text: np.ndarray) -> set[str]:
    """Columns of timestamps whose first values have a zone."""
    columns = [field.name for field in form.wanted if pa.types.is_timestamp(field.type)]
    if not columns:
        return set()
    head = text[:SNIFFED_BYTES]
    last = np.flatnonzero(head == ord("\n"))
    head = head[: last[-1] + 1] if len(last) and len(head) < len(text) else head
    try:
        table = _read(form, head, dict.fromkeys(columns, pa.string()))
    except pa.ArrowInvalid:
        return set()
    found = (pc.any(pc.match_substring_regex(table[c], _ZONED)).as_py() for c in columns)
    return {column for column, has in zip(columns, found, strict=True) if has}


def _all(holds: pa.ChunkedArray) -> bool:
    """Whether it holds of each value that is not null."""
    return pc.all(holds).as_py() is not False
