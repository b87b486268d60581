"""Bytes of a vector matrix as its indexes have it: values by number, rows in any order.

What a worker sends when a pane has hundreds of thousands of rows. A string is written once, not
in each row of each key; a row's values are their numbers; and every column takes the fewest bytes
that hold its largest number. That is about a fifth of the canonical bytes, made in a tenth of the
time, and a reader gets its indexes by looking up each value once. Equal summaries may differ here.

The body is a run of columns of signed integers, 1, 2, 4 or 8 bytes each (or of characters), each
begun at a multiple of 8 bytes: of each key column its values (strings: lengths, then characters),
of each beginning of a combination its two columns of numbers, of each key count and sums, unless
it is `derived` from another. All of it is compressed with zstd.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.errors import BadArgument, CorruptSummary, SummaryOverflow
from muntin.summaries.envelope import seal, unseal
from muntin.summaries.kernels.narrowing import extremes_of_cells, narrow_rows, widen_rows
from muntin.summaries.kernels.vector_sums import pairs_are_normal
from muntin.summaries.vector_matrix.decoding import described, raise_unless_covered
from muntin.summaries.vector_matrix.derived import derivable, derive
from muntin.summaries.vector_matrix.encoding import PARAMETERS, parameters_of
from muntin.summaries.vector_matrix.indexes import NO_BITS
from muntin.summaries.vector_matrix.indicators import Indicator
from muntin.summaries.vector_matrix.key_column import KeyColumn
from muntin.summaries.vector_matrix.key_table import KeyTable
from muntin.summaries.vector_matrix.key_values import KeyKind, KeyValues
from muntin.summaries.vector_matrix.names import Key
from muntin.summaries.vector_matrix.numbering import Numbering
from muntin.summaries.vector_matrix.state import State

KIND = "vector_matrix_numbered"
BODY_BYTES_MAX = 1 << 32  # inflated
_OWN_PARAMETERS = {"nulls", "pairs", "size", "text", "values", "widths"}
_WIDTHS = (1, 2, 4, 8)
_DTYPES = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}
_MINUS_ZERO = -(1 << 63)
_ZSTD = pa.Codec("zstd", compression_level=1)


def is_possible(state: State) -> bool:
    """Whether every number has its row, and every row all indicators."""
    return (
        state.held is None
        and not state.partly_seen()
        and all(
            table.valid is None and table.live == state.numbering.rows(key)
            for key, table in state.leading.items()
        )
    )


# Writing


def to_bytes(state: State) -> bytes:
    """Bytes of a state for which that is possible."""
    out = _Columns()
    numbering = state.numbering
    nulls = []
    for column in numbering.columns.values():
        nulls.append(_null_of(column))
        _write_values(out, column)
    for index in numbering.pairs.values():
        packed = index.known[: len(index)]
        out.add(packed >> 32)
        out.add(packed & 0xFFFFFFFF)
    leading = state.leading
    for key, table in leading.items():
        out.add_rows(table, numbering.rows(key))
    parameters = parameters_of(state) | {
        "derived": len(leading) < len(state.keys),
        "nulls": nulls,
        "pairs": [len(index) for index in numbering.pairs.values()],
        "size": sum(map(len, out.parts)),
        "text": out.text,
        "values": [len(column) for column in numbering.columns.values()],
        "widths": out.widths,
    }
    return seal(KIND, parameters, _ZSTD.compress(b"".join(out.parts), asbytes=True))


def _null_of(column: KeyColumn) -> int:
    """The number of null; -1 where it has none."""
    if column.index is None:
        return 0 if column.null_only else -1
    return int(column.index.state[1])


def _write_values(out: _Columns, column: KeyColumn) -> None:
    if column.kind is None:
        return
    values = column.all_values()
    if values.kind == "string":
        out.add(np.diff(values.offsets))
        out.add_text(values.data[: int(values.offsets[-1])])
    else:
        out.add(values.numbers)


class _Columns:
    """The body in the making."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.widths: list[int] = []
        self.text: list[int] = []

    def add(self, numbers: np.ndarray) -> None:
        low, high = (int(numbers.min()), int(numbers.max())) if len(numbers) else (0, 0)
        width = _width(low, high)
        self.widths.append(width)
        self._append(numbers.astype(_DTYPES[width]))

    def add_text(self, characters: np.ndarray) -> None:
        self.text.append(len(characters))
        self._append(characters)

    def add_rows(self, table: KeyTable, rows: int) -> None:
        layout = table.layout
        low, high = np.zeros((2, layout.integers), np.int64)
        if rows:
            extremes_of_cells(table.matrix, rows, layout.integers, low, high)
        widths = [*map(_width, low.tolist(), high.tolist())]
        widths += [8] * (layout.last - layout.integers)
        self.widths += widths
        starts, size = _places(widths, rows)
        body = np.zeros(size, np.uint8)
        narrow_rows(table.matrix, rows, np.array(widths, np.int64), starts, *_views(body))
        self.parts.append(body.tobytes())

    def _append(self, values: np.ndarray) -> None:
        self.parts.append(values.tobytes())
        self.parts.append(bytes(-values.nbytes % 8))


def _width(low: int, high: int) -> int:
    bits = max(low ^ (low >> 63), high ^ (high >> 63)).bit_length() + 1
    return next(width for width in _WIDTHS if bits <= 8 * width)


def _places(widths: list[int], rows: int) -> tuple[np.ndarray, int]:
    """Where columns of so many rows begin, and where the last ends."""
    sizes = [(width * rows + 7) & ~7 for width in widths]
    ends = np.cumsum([0, *sizes])
    return ends[:-1].astype(np.int64), int(ends[-1])


def _views(body: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    return body.view(np.int8), body.view(np.int16), body.view(np.int32), body.view(np.int64)


# Reading


def from_bytes(data: bytes) -> State:
    """Read what `to_bytes` wrote.

    Raises
    ------
    CorruptSummary
        Anything that no summary writes: numbers without a value, a value or row that stands
        twice, rows without events, columns that do not fill the body, strings that are not UTF-8.
    """
    parameters, body = unseal(data, KIND)
    if parameters.keys() - {"derived"} != PARAMETERS | _OWN_PARAMETERS:
        raise CorruptSummary("vector_matrix: parameters are missing, or unknown")
    if parameters["large"] != []:
        raise CorruptSummary("vector_matrix: large columns that it does not have")
    state, kinds = described(parameters)
    if state.partly_seen():
        raise CorruptSummary("vector_matrix: an indicator that only some events had")
    numbering = Numbering(state.keys)
    source = _Source(parameters, _inflated(body, parameters["size"]))
    nulls = source.numbers_of("nulls", len(numbering.columns), least=-1)
    values = source.numbers_of("values", len(numbering.columns))
    pairs = source.numbers_of("pairs", len(numbering.pairs))
    for column, size, null in zip(numbering.columns.values(), values, nulls, strict=True):
        _read_values(source, column, kinds[column.name], size, null)
    for (prefix, index), size in zip(numbering.pairs.items(), pairs, strict=True):
        left = source.column(size, numbering.rows(prefix[:-1])).astype(np.int32)
        right = source.column(size, len(numbering.columns[prefix[-1]])).astype(np.int32)
        index.reserve(size)
        _check_new(index.number_pairs(left, right, insert=True))
    lagging = derivable(state.keys) if parameters.get("derived") is True else ()
    tables = {key: KeyTable(key, state.layout) for key in state.keys}
    largest = [0.0 if i.type == "float64" else 0 for i in state.indicators]
    for key in tables:
        if key not in lagging:
            _read_table(source, tables[key], numbering, largest)
    source.finish()
    for indicator, most in zip(state.indicators, largest, strict=True):
        indicator.largest = most if indicator.type == "float64" else most + 1
    if lagging:
        _derive(lagging, tables, numbering, state.indicators, state.count)
    raise_unless_covered(parameters["covered"], [t.covered for t in tables.values()], state.count)
    state.become(numbering, tables)
    return state


def _inflated(body: memoryview, size: Any) -> np.ndarray:
    if type(size) is not int or not 0 <= size <= BODY_BYTES_MAX:
        raise CorruptSummary(f"vector_matrix: {size!r:.50} is not a number of bytes")
    try:
        found = _ZSTD.decompress(body, size) if size else pa.py_buffer(b"")
    except (pa.ArrowException, OSError) as problem:
        raise CorruptSummary(f"vector_matrix: its body cannot be inflated ({problem})") from None
    if len(found) != size:
        raise CorruptSummary(f"vector_matrix: its body has {len(found)} bytes, not {size}")
    return np.frombuffer(found, np.uint8)


def _read_values(
    source: _Source, column: KeyColumn, kind: KeyKind | None, size: int, null: int
) -> None:
    if null >= max(size, 1) or (kind is None and size != null + 1):
        raise CorruptSummary(f"vector_matrix: null has number {null} of {size} values")
    column.become(kind)
    if kind is None:
        column.null_only = null == 0
        return
    bits = NO_BITS
    if null >= 0:
        flags = np.ones(size, bool)
        flags[null] = False
        bits = np.packbits(flags, bitorder="little")
    if kind == "string":
        offsets = np.zeros(size + 1, np.int64)
        np.cumsum(source.column(size), out=offsets[1:])
        data = source.text(int(offsets[-1]))
        if null >= 0 and offsets[null + 1] != offsets[null]:
            raise CorruptSummary("vector_matrix: values are hidden under nulls")
        values = KeyValues(kind, size, bits, data=data, offsets=offsets)
    else:
        numbers = source.column(size, None)
        if (kind == "bool" and ((numbers >> 1) != 0).any()) or (null >= 0 and numbers[null]):
            raise CorruptSummary("vector_matrix: numbers that are no values")
        if kind == "date32" and (numbers != numbers.astype(np.int32)).any():
            raise CorruptSummary("vector_matrix: a date beyond its range")
        values = KeyValues(kind, size, bits, numbers=numbers)
    column.reserve(size)
    try:
        _check_new(column.number(values, 0, size))
    except BadArgument as problem:
        raise CorruptSummary(f"vector_matrix: {problem}") from None


def _check_new(numbers: np.ndarray) -> None:
    if (numbers != np.arange(len(numbers))).any():
        raise CorruptSummary("vector_matrix: a value stands twice")


def _derive(
    lagging: tuple[Key, ...],
    tables: dict[Key, KeyTable],
    numbering: Numbering,
    indicators: list[Indicator],
    events: int,
) -> None:
    """Add up the rows that were not written."""
    if any(table.covered != events for key, table in tables.items() if key not in lagging):
        raise CorruptSummary("vector_matrix: rows of other events than those of its sums")
    rows = max(map(numbering.rows, tables))
    bounds = [indicator.largest * rows for indicator in indicators]
    checked = any(b >= i.limit for b, i in zip(bounds, indicators, strict=True))
    try:
        derive(lagging, tables, numbering, checked=checked)
    except SummaryOverflow as problem:
        raise CorruptSummary(f"vector_matrix: {problem}") from None
    for key in lagging:
        if tables[key].live != numbering.rows(key):
            raise CorruptSummary("vector_matrix: a value without events")
        tables[key].covered = events
    for at, indicator in enumerate(indicators):
        if checked:
            sums = [tables[key].largest(at, numbering.rows(key)) for key in lagging]
            indicator.largest = max(indicator.largest, *sums)
        else:
            indicator.largest = bounds[at]


def _read_table(source: _Source, table: KeyTable, numbering: Numbering, largest: list[Any]) -> None:
    rows, layout = numbering.rows(table.key), table.layout
    table.reserve(rows)
    bits = np.zeros(layout.integers, np.int64)
    least, upper, lower = source.rows(table.matrix, rows, layout.integers, layout.last, bits)
    if rows and least < 1:
        raise CorruptSummary("vector_matrix: a row without events")
    for at, (kind, cell) in enumerate(zip(layout.types, layout.cells, strict=True)):
        if kind == "float64":
            largest[at] = max(largest[at], _check_floats(table, rows, cell))
        else:
            largest[at] |= int(bits[cell])
            if kind is None and bits[cell]:
                raise CorruptSummary("vector_matrix: an indicator of no type has sums")
    table.live, table.covered = rows, (upper << 32) + lower


def _check_floats(table: KeyTable, rows: int, cell: int) -> float:
    """Largest magnitude of a float sum."""
    pairs = np.ascontiguousarray(table.matrix[:rows, cell : cell + 2].T)
    high, low = pairs.view(np.float64)
    if (pairs == _MINUS_ZERO).any() or not pairs_are_normal(high, low):
        raise CorruptSummary("vector_matrix: float sums that are not normal")
    return float(np.abs(high).max(initial=0.0))


class _Source:
    """The body, column by column."""

    def __init__(self, parameters: dict[str, Any], body: np.ndarray) -> None:
        self._parameters = parameters
        self._body = body
        self._at = 0
        self._widths: Iterator[int] = iter(self.numbers_of("widths", None, least=1))
        self._texts: Iterator[int] = iter(self.numbers_of("text", None))

    def numbers_of(self, name: str, size: int | None, least: int = 0) -> list[int]:
        """A list of parameters, each bounded by what a body of this size can hold."""
        found = self._parameters[name]
        listed = isinstance(found, list) and (size is None or len(found) == size)
        if not listed or not all(
            type(number) is int and least <= number <= 8 + len(self._body) for number in found
        ):
            raise CorruptSummary(f"vector_matrix: {name} are not so many numbers")
        return found

    def column(self, size: int, limit: int | None = 1 << 62) -> np.ndarray:
        """The next column, int64[size], of numbers in [0, limit), or of any without a limit."""
        dtype = _DTYPES.get(width := self._width())
        if dtype is None:
            raise CorruptSummary(f"vector_matrix: a column of {width} bytes")
        numbers = self._take(size * width).view(dtype).astype(np.int64)
        if limit is not None and size and (numbers.min() < 0 or numbers.max() >= limit):
            raise CorruptSummary("vector_matrix: numbers of values that are not there")
        return numbers

    def text(self, size: int) -> np.ndarray:
        if next(self._texts, -1) != size:
            raise CorruptSummary("vector_matrix: strings of other lengths than their bytes")
        return self._take(size)

    def rows(
        self, matrix: np.ndarray, rows: int, integers: int, last: int, bits: np.ndarray
    ) -> tuple[int, int, int]:
        """The next rows of cells, into a matrix; as `widen_rows`."""
        widths = [self._width() for _ in range(last)]
        if not set(widths) <= _DTYPES.keys() or set(widths[integers:]) - {8}:
            raise CorruptSummary("vector_matrix: sums in columns of a wrong width")
        starts, size = _places(widths, rows)
        body = self._take(size)
        least, upper, lower = widen_rows(
            matrix, rows, integers, np.array(widths, np.int64), starts, *_views(body), bits
        )
        return int(least), int(upper), int(lower)

    def finish(self) -> None:
        unread = self._at != len(self._body)
        if unread or next(self._widths, None) is not None or next(self._texts, None) is not None:
            raise CorruptSummary("vector_matrix: more columns than it has")

    def _width(self) -> int:
        return next(self._widths, 0)

    def _take(self, size: int) -> np.ndarray:
        """The next bytes, in memory of their own that begins at a multiple of 8."""
        padded = (size + 7) & ~7
        if padded > len(self._body) - self._at:
            raise CorruptSummary("vector_matrix: columns reach beyond the body")
        taken = self._body[self._at : self._at + size].copy()
        self._at += padded
        return taken
