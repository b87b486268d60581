"""Texts that several key columns of a segment have, written once.

A driver is in the keys (driver), (driver, area) and (driver, car): its name, which hardly
compresses, would be written for each of them, and for each area. Columns of one name share a
list of their different texts, and each has numbers into it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.errors import CorruptSummary
from muntin.segments.columns import frozen
from muntin.segments.keys import Keys
from muntin.summaries.items import hash_items, text_buffers
from muntin.summaries.key_columns import NULL_HASH

TEXTS_MIN = 256  # of fewer in a segment, a list takes longer than it saves
TEXT = pa.large_string()


@dataclass(frozen=True, slots=True, eq=False)
class Coded:
    """What is written of the columns of one name.

    Attributes
    ----------
    values : large_string[n]
        Their different texts, in the order in which they come.
    codes : one int64[keys] for each column
        The number of each text in `values`; 0 where it is null.
    """

    values: pa.Array
    codes: Iterator[np.ndarray]


def coded(dictionaries: Sequence[Keys]) -> dict[str, Coded]:
    """The columns of text that are worth it, in the order of their first key."""
    columns: dict[str, list[pa.Array]] = {}
    for keys in dictionaries:
        for name, column in zip(keys.names, keys.columns, strict=True):
            if column.type == TEXT:
                columns.setdefault(name, []).append(column)
    alone = {keys.names[0] for keys in dictionaries if len(keys.names) == 1}
    found = {}
    for name, each in columns.items():
        size = sum(map(len, each))
        if size < TEXTS_MIN or (len(each) == 1 and name in alone):
            continue  # few, or all different
        encoded: Any = pa.concat_arrays(each).dictionary_encode()
        if 2 * len(encoded.dictionary) <= size:
            numbers = encoded.indices.fill_null(0).to_numpy().astype(np.int64)
            ends = np.cumsum([len(column) for column in each])[:-1]
            found[name] = Coded(encoded.dictionary, iter(np.split(numbers, ends)))
    return found


class Texts:
    """Shared texts as they were read.

    Parameters
    ----------
    values : large_string[n]
    """

    def __init__(self, values: pa.Array) -> None:
        self._values = values
        self._sizes = np.diff(text_buffers(values)[1])
        self._hashes = frozen(np.append(hash_items(values), NULL_HASH))

    def column(
        self, codes: np.ndarray, nulls: np.ndarray | None, left: int
    ) -> tuple[pa.Array, np.ndarray]:
        """The texts of these numbers, and their hashes: uint64[n].

        Raises
        ------
        CorruptSummary
            A number that no text has, or more than `left` bytes.
        """
        size = len(self._values)
        if len(codes) and not 0 <= int(codes.min()) <= int(codes.max()) < size:
            raise CorruptSummary(f"segment: a key is none of its {size} texts")
        if int(self._sizes[codes].sum()) > left:
            raise CorruptSummary("segment: its keys are more than are read at once")
        if nulls is None:
            return self._values.take(pa.array(codes)), self._hashes[codes]
        column = self._values.take(pa.array(codes, mask=nulls))
        return column, self._hashes[np.where(nulls, size, codes)]
