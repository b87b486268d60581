"""Texts that several key columns of a segment have, written once.

A driver is in the keys (driver), (driver, area) and (driver, car): its name, which hardly
compresses, would be written for each of them, and for each area. Columns of one name share a
list of their different texts, and each has numbers into it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from muntin.errors import CorruptSummary
from muntin.segments.columns import frozen
from muntin.segments.kernels.lists import in_order_of_coming
from muntin.segments.keys import TEXT, Keys, numbered, shared
from muntin.summaries.items import hash_items, text_buffers
from muntin.summaries.key_columns import NULL_HASH, value_type

TEXTS_MIN = 256  # of fewer in a segment, a list takes longer than it saves


@dataclass(frozen=True, slots=True, eq=False)
class Coded:
    """What is written of the columns of one name.

    Attributes
    ----------
    values : large_string[n]
        Their different texts, in the order in which they come.
    codes : one int64[keys] for each column
        The number of each text in `values`; 0 where it is null.
    nbytes : int
        Of all texts of all columns.
    """

    values: pa.Array
    codes: Iterator[np.ndarray]
    nbytes: int


def coded(dictionaries: Sequence[Keys]) -> dict[str, Coded]:
    """The columns of text that are worth it, in the order of their first key."""
    columns: dict[str, list[pa.Array]] = {}
    for keys in dictionaries:
        for name, column in zip(keys.names, keys.columns, strict=True):
            if value_type(column.type) == TEXT:
                columns.setdefault(name, []).append(column)
    alone = {keys.names[0] for keys in dictionaries if len(keys.names) == 1}
    found = {}
    for name, each in columns.items():
        size = sum(map(len, each))
        if size < TEXTS_MIN or (len(each) == 1 and name in alone):
            continue  # few, or all different
        columns_of_one = shared(each)
        values = columns_of_one[0].dictionary
        coded = (column.indices.fill_null(len(values)) for column in columns_of_one)
        numbers = [column.to_numpy().astype(np.int64) for column in coded]
        codes, used = np.empty(size, np.int64), np.empty(len(values), np.int64)
        count = in_order_of_coming(frozen(np.concatenate(numbers)), len(values), codes, used)
        if 0 < 2 * count <= size:
            ends = np.cumsum([len(column) for column in each])[:-1]
            values = values.take(pa.array(used[:count]))
            nbytes = int(np.diff(text_buffers(values)[1])[codes].sum())
            found[name] = Coded(values, iter(np.split(codes, ends)), nbytes)
    return found


class Texts:
    """Shared texts as they were read.

    Parameters
    ----------
    values : large_string[n]

    Raises
    ------
    CorruptSummary
        A text is there twice: keys are compared by the numbers of their texts.
    """

    def __init__(self, values: pa.Array) -> None:
        hashes = hash_items(values)
        ordered = np.sort(hashes)
        if (ordered[1:] == ordered[:-1]).any() and len(values.unique()) < len(values):
            raise CorruptSummary("segment: a text is there twice")
        self._values = values
        self._sizes = np.diff(text_buffers(values)[1])
        self._hashes = frozen(np.append(hashes, NULL_HASH))

    def column(
        self, codes: np.ndarray, nulls: np.ndarray | None, left: int
    ) -> tuple[pa.Array, np.ndarray]:
        """The texts of these numbers, and their hashes: uint64[n]. Raises CorruptSummary: a number
        that no text has, or more than `left` bytes."""
        size = len(self._values)
        if len(codes) and not 0 <= int(codes.min()) <= int(codes.max()) < size:
            raise CorruptSummary(f"segment: a key is none of its {size} texts")
        if int(self._sizes[codes].sum()) > left:
            raise CorruptSummary("segment: its keys are more than are read at once")
        if nulls is None:
            return numbered(self._values, codes, None), self._hashes[codes]
        hashes = self._hashes[np.where(nulls, size, codes)]
        return numbered(self._values, codes, nulls), hashes
