"""The rows of one key, as columns, in the order that depends on nothing but their keys."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from muntin.summaries.vector_matrix.key_column import KeyColumn
from muntin.summaries.vector_matrix.key_table import KeyTable
from muntin.summaries.vector_matrix.key_values import KeyValues
from muntin.summaries.vector_matrix.numbering import Numbering, hashes_of


@dataclass(frozen=True, slots=True)
class KeyRows:
    """Rows ordered by the hash of their key; equal hashes by value, null first."""

    parts: list[KeyValues]
    """One per column of the key."""
    cells: np.ndarray
    """int64[cells, rows], the cells of a `Layout`."""
    valid: np.ndarray | None
    """bool[rows, indicators], or None where every row has every indicator."""

    def __len__(self) -> int:
        return self.cells.shape[1]


def key_rows(table: KeyTable, numbering: Numbering) -> KeyRows:
    rows = table.live_rows()
    parts = numbering.parts(table.key, rows)
    hashes = hashes_of(parts)
    order = np.argsort(hashes)
    if len(order) > 1:
        ordered = hashes[order]
        if (ordered[1:] == ordered[:-1]).any():
            order = _untie(order, ordered, parts)
    rows = rows[order]
    return KeyRows(
        [column.taken(numbers[order]) for column, numbers in parts],
        table.gather(rows),
        table.valid[rows] if table.valid is not None else None,
    )


def load_rows(table: KeyTable, numbering: Numbering, rows: KeyRows) -> None:
    """Put rows into an empty table; other tables of the numbering must still be reserved."""
    size = len(rows)
    numbers = numbering.number_rows(table.key, rows.parts)
    table.reserve(numbering.rows(table.key))
    table.matrix[numbers, : len(rows.cells)] = rows.cells.T
    table.live = size
    counts = rows.cells[0]
    table.covered = (int((counts >> 32).sum()) << 32) + int((counts & 0xFFFFFFFF).sum())
    if rows.valid is not None:
        table.valid = np.zeros((len(table.matrix), rows.valid.shape[1]), bool)
        table.valid[numbers] = rows.valid


def _untie(
    order: np.ndarray, ordered: np.ndarray, parts: list[tuple[KeyColumn, np.ndarray]]
) -> np.ndarray:
    """Order the runs of equal hashes by value: rare, but an attacker can make them."""
    order = order.copy()
    edges = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    for start, end in zip(edges, np.append(edges[1:], len(order)), strict=True):
        if end - start > 1:
            run = order[start:end]
            values = [column.taken(numbers[run]) for column, numbers in parts]
            by_value = sorted(
                range(len(run)), key=lambda i: tuple(part.sort_key(i) for part in values)
            )
            order[start:end] = run[by_value]
    return order
