"""Rows that stand in a stream, as columns: views of its buffers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from muntin.errors import CorruptSummary
from muntin.summaries.vector_matrix.indexes import NO_BITS
from muntin.summaries.vector_matrix.indicators import Layout
from muntin.summaries.vector_matrix.key_column import hashes_of_values
from muntin.summaries.vector_matrix.key_values import KeyKind, KeyValues
from muntin.summaries.vector_matrix.numbering import folded
from muntin.summaries.vector_matrix.rows import KeyRows
from muntin.summaries.vector_matrix.stream_plan import Plan


@dataclass(frozen=True, slots=True, eq=False)
class StreamRows:
    """A stream's nodes and buffers, which `check_frame` found in order."""

    plan: Plan
    layout: Layout
    kinds: list[list[KeyKind | None]]
    """Types of each key's columns."""
    nodes: np.ndarray
    places: list[list[int]]
    """(offset, size) of each buffer."""
    data: np.ndarray
    sizes: list[int]
    """Rows of each key."""

    def rows(self, at: int) -> KeyRows:
        """The rows of key `at`."""
        parts, buffer = self._parts(at)
        size, layout = self.sizes[at], self.layout
        data = self.data
        leaf = self.plan.firsts[at] + 2 + len(parts)
        node = int(self.plan.leaves[leaf - 1, 2]) + 1
        nulls = self.nodes[node : node + len(layout.cells), 1]
        begin = self.places[buffer + 1][0]
        if layout.last == layout.integers and not nulls.any():
            end = begin + 8 * size * layout.last
            return KeyRows(parts, data[begin:end].view(np.int64).reshape(layout.last, size), None)
        cells = np.empty((layout.last, size), np.int64)
        cells[0] = data[begin : begin + 8 * size].view(np.int64)
        valid = np.ones((size, len(layout.cells)), bool)
        for k, cell in enumerate(layout.cells):
            buffer += 2
            cells[cell] = self._buffer(buffer + 1).view(np.int64)
            if nulls[k]:
                bits = self._buffer(buffer)
                valid[:, k] = np.unpackbits(bits, count=size, bitorder="little")
            if self.plan.lows[at, k] >= 0:
                low = self.plan.buffers[self.plan.lows[at, k]] + 1
                cells[cell + 1] = self._buffer(low).view(np.int64)
        return KeyRows(parts, cells, valid if nulls.any() else None)

    def _buffer(self, at: int) -> np.ndarray:
        start, size = self.places[at]
        return self.data[start : start + size]

    def _parts(self, at: int) -> tuple[list[KeyValues], int]:
        """The key's columns, and the buffer behind them."""
        size, parts = self.sizes[at], []
        leaf = self.plan.firsts[at] + 1
        buffer = self.plan.buffers[leaf]
        for kind in self.kinds[at]:
            if kind is None:
                parts.append(KeyValues(None, size, NO_BITS))
                continue
            bits, values = self._buffer(buffer), self._buffer(buffer + 1)
            buffer += 2
            if kind == "string":
                wide = len(values) == 8 * (size + 1)
                offsets = values.view(np.int64 if wide else np.int32)
                parts.append(
                    KeyValues(kind, size, bits, data=self._buffer(buffer), offsets=offsets)
                )
                buffer += 1
                continue
            if kind == "bool":
                numbers = np.unpackbits(values, count=size, bitorder="little").astype(np.int64)
            elif kind == "date32":
                numbers = values.view(np.int32).astype(np.int64)
            else:
                numbers = values.view(np.int64)
            parts.append(KeyValues(kind, size, bits, numbers=numbers))
        return parts, buffer

    def ties_are_ordered(self) -> bool:
        """Whether rows of equal hashes stand in the order of their values, each once."""
        for at in range(len(self.sizes)):
            parts, _ = self._parts(at)
            hashes = folded([hashes_of_values(part) for part in parts])
            for i in np.flatnonzero(hashes[1:] == hashes[:-1]).tolist():
                one, next_one = ([part.sort_key(row) for part in parts] for row in (i, i + 1))
                if one >= next_one:
                    return False
        return True

    def check_utf8(self) -> None:
        """Arrow strings are UTF-8."""
        for at in range(len(self.sizes)):
            for part in self._parts(at)[0]:
                if part.kind == "string":
                    try:
                        text_array(part).validate(full=True)
                    except pa.ArrowInvalid as problem:
                        raise CorruptSummary(
                            f"vector_matrix: strings are not UTF-8 ({problem})"
                        ) from None


def text_array(part: KeyValues) -> pa.Array:
    """Strings, null or not, as an Arrow array of the same memory."""
    kind = pa.large_string() if part.offsets.dtype == np.int64 else pa.string()
    buffers = [None, pa.py_buffer(part.offsets), pa.py_buffer(part.data)]
    return pa.Array.from_buffers(kind, part.length, buffers)
