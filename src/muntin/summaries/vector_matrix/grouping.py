"""A small first batch to rows, without indexes: sorted by hash, as bytes want them.

Most panes of most pipelines are one such batch, which is then written and forgotten.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from muntin.arrow import read_only
from muntin.summaries.kernels.grouping import (
    group_bitmap,
    group_events,
    group_integers,
    group_text,
)
from muntin.summaries.vector_matrix.event_vectors import vectors_of_events
from muntin.summaries.vector_matrix.held import Held
from muntin.summaries.vector_matrix.indexes import NO_BITS
from muntin.summaries.vector_matrix.indicators import (
    FLOAT_SAFE_MAX,
    INT64_MAX,
    IndicatorValues,
    Layout,
    layout_of,
)
from muntin.summaries.vector_matrix.key_column import hashes_of_values
from muntin.summaries.vector_matrix.key_values import KeyKind, KeyValues
from muntin.summaries.vector_matrix.names import IndicatorType, Key
from muntin.summaries.vector_matrix.numbering import folded
from muntin.summaries.vector_matrix.rows import KeyRows
from muntin.summaries.vector_matrix.state import State
from muntin.summaries.vector_matrix.stream_rows import text_array

EVENTS_MAX = 1024  # sorting more takes longer than looking up
_TEXT_MAX = (1 << 31) - 1
_NOT_ASCII = 0x80


def group(state: State, keys: dict[str, KeyValues], values: list[IndicatorValues], n: int) -> bool:
    """Take the events of a first batch as rows; False, and nothing done, where it cannot.

    It cannot where there are too many events, sums might leave their range, or two values have one
    hash: indexes know what to do then.
    """
    if state.held is None or state.count or not 0 < n <= EVENTS_MAX:
        return False
    if any(column.codes is not None or len(column.data) > _TEXT_MAX for column in keys.values()):
        return False
    types: list[IndicatorType | None] = [
        i.type or column.type for i, column in zip(state.indicators, values, strict=True)
    ]
    largest = [column.largest * n for column in values]
    for kind, bound in zip(types, largest, strict=True):
        if bound >= (FLOAT_SAFE_MAX if kind == "float64" else INT64_MAX):
            return False
    layout = layout_of(tuple([i.name for i in state.indicators]), tuple(types))
    groups = _Groups(state.keys, keys, vectors_of_events(layout, values, n), layout)
    found = []
    for at, key in enumerate(state.keys):
        parts = []
        for name in key:
            part = groups.part(at, keys[name])
            if part is None:
                return False
            parts.append(part)
        found.append(KeyRows(parts, groups.cells(at), None))
    kinds: dict[str, KeyKind | None] = {
        name: kind or keys[name].kind for name, kind in state.kinds.items()
    }
    for i, kind, bound in zip(state.indicators, types, largest, strict=True):
        i.type, i.largest = kind, bound
    state.layout = layout
    sizes = groups.sizes.tolist()
    state.hold(Held(sizes, [n] * len(sizes), groups.nbytes, found.__getitem__), kinds)
    return True


class _Groups:
    """Events of each key, sorted by their hashes."""

    def __init__(
        self,
        keys: tuple[Key, ...],
        values: dict[str, KeyValues],
        vectors: np.ndarray,
        layout: Layout,
    ) -> None:
        n, self._last = len(vectors), layout.last
        of_column = {name: hashes_of_values(column) for name, column in values.items()}
        hashes = np.empty((len(keys), n), np.uint64)
        for at, key in enumerate(keys):
            hashes[at] = of_column[key[0]]
            folded([hashes[at], *[of_column[name] for name in key[1:]]])
        self._order = np.argsort(hashes, axis=1, kind="stable")  # events of a group stay in order
        self._starts = np.empty((len(keys), n + 1), np.int64)
        self._cells = np.empty((len(keys), layout.last * n), np.int64)
        self.sizes = group_events(
            hashes, self._order, vectors, vectors.view(np.float64), layout.integers, layout.last,
            self._starts, self._cells, self._cells.view(np.float64),
        )  # fmt: skip
        self.nbytes = self._cells.nbytes

    def cells(self, at: int) -> np.ndarray:
        """Sums of key `at`: int64[cells, groups]."""
        size = int(self.sizes[at])
        return self._cells[at, : self._last * size].reshape(self._last, size)

    def part(self, at: int, values: KeyValues) -> KeyValues | None:
        """A column of key `at`, one value a group; None where a group has two, or broken text."""
        order, starts, size = self._order[at], self._starts[at], int(self.sizes[at])
        bits, bit_offset = read_only(values.bits), values.bit_offset
        if values.kind is None:
            return KeyValues(None, size, NO_BITS)
        found = KeyValues(values.kind, size, NO_BITS)
        if values.kind == "string":
            offsets = values.offsets
            found.offsets = np.empty(size + 1, np.int32)
            found.data = np.empty(int(offsets[-1]) - int(offsets[0]), np.uint8)
            nulls, seen = group_text(
                read_only(values.data), read_only(offsets), bits, bit_offset, order, starts, size,
                found.offsets, found.data,
            )  # fmt: skip
            found.data = found.data[: found.offsets[-1]]
            if seen & _NOT_ASCII and not _is_utf8(found):
                return None
        else:
            found.numbers = np.empty(size, np.int64)
            nulls = group_integers(
                read_only(values.numbers), bits, bit_offset, order, starts, size, found.numbers
            )
        if nulls < 0:
            return None
        if nulls:
            found.bits = np.zeros((size + 7) // 8, np.uint8)
            group_bitmap(bits, bit_offset, order, starts, size, found.bits)
        self.nbytes += found.data.nbytes + found.offsets.nbytes + found.numbers.nbytes
        return found


def _is_utf8(text: KeyValues) -> bool:
    try:
        text_array(text).validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True
