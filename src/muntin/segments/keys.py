"""The different keys of a table, in the order of their hashes, and the numbers that stand for them.

A key is a tuple of values: text, integer, boolean, date or timestamp; null is a value of its own.
Its hash is XXH64 of the value (of several, folded). Numbers count from 0 in the order of (hash,
value): a sort by number is one by hash, a union a merge of sorted runs, a shard a range of numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from muntin.arrow import NO_BITS, pc
from muntin.errors import BadArgument, IncompatibleSummary
from muntin.segments.columns import frozen
from muntin.segments.kernels.lists import has_ties
from muntin.summaries import key_columns
from muntin.summaries.indexes import IntegerIndex
from muntin.summaries.kernels.sorting import sort_pairs
from muntin.summaries.key_columns import KeyColumn, key_values

TEXT = pa.large_string()
TYPES = {**key_columns.TYPES, "binary": pa.large_binary(), "uint64": pa.uint64()}
"""Of keys, and (binary, uint64) of items."""
KEY_TYPES: dict[pa.DataType, str] = {kind: name for name, kind in TYPES.items()}
DIRECT_CELLS_MAX = 1 << 26  # a table of that many int64 finds the combinations that occur
TEXTS_KEPT = 16  # texts in memory for each key that is left of them
RADIX_MIN = 1 << 12  # of fewer hashes, NumPy's sort is as fast


@dataclass(frozen=True, slots=True, eq=False)
class Keys:
    """Different keys in the order of (hash, value).

    Attributes
    ----------
    columns : Arrow arrays [n], one a name
        In the types of `key_columns.TYPES`, or null where no value is known. Texts may be numbers
        into a dictionary without null, whose texts others may share. Without columns there is one
        key, the empty one.
    hashes : uint64[n], ascending
    """

    names: tuple[str, ...]
    columns: tuple[pa.Array, ...]
    hashes: np.ndarray

    def __len__(self) -> int:
        return len(self.hashes)

    @property
    def kinds(self) -> tuple[str | None, ...]:
        """Type of each column; None as long as there were only nulls."""
        return tuple(KEY_TYPES.get(key_columns.value_type(c.type)) for c in self.columns)

    @property
    def values(self) -> tuple[pa.Array, ...]:
        """The columns, texts as such."""
        return tuple(map(key_columns.decoded, self.columns))

    def take(self, rows: np.ndarray) -> Keys:
        """The keys of ascending numbers."""
        if len(rows) == len(self):
            return self
        at = pa.array(rows)
        columns = tuple(_without_many(column.take(at)) for column in self.columns)
        return Keys(self.names, columns, frozen(self.hashes[rows]))

    def equals(self, other: Keys) -> bool:
        return (
            self.names == other.names
            and np.array_equal(self.hashes, other.hashes)
            and all(map(_equal, self.columns, other.columns))
        )


NO_KEY = Keys((), (), frozen(np.zeros(1, np.uint64)))  # the empty key: that of all events


def memory_of(dictionaries: Sequence[Keys]) -> int:
    """Bytes of memory of keys; what they share counts once."""
    buffers = {}
    for keys in dictionaries:
        for column in keys.columns:
            coded = pa.types.is_dictionary(column.type)
            for array in (column.indices, column.dictionary) if coded else (column,):
                buffers |= {b.address: b.size for b in array.buffers() if b is not None}
    return sum(buffers.values()) + sum(keys.hashes.nbytes for keys in dictionaries)


def no_keys(names: tuple[str, ...]) -> Keys:
    """No key at all, of these columns."""
    return Keys(names, (pa.nulls(0),) * len(names), frozen(np.zeros(0, np.uint64)))


NO_ITEMS = no_keys(("item",))


class Encoded:
    """Key columns of a batch as codes, each column once, for all keys that are made of them."""

    def __init__(self, columns: Mapping[str, pa.Array]) -> None:
        self._columns = columns
        self._codes: dict[str, tuple[np.ndarray, pa.Array]] = {}

    def keys(self, names: tuple[str, ...], rows: int) -> tuple[Keys, np.ndarray]:
        """The different keys of some columns, and the number of each row's: int64[rows]. Raises
        BadArgument: a column is missing, or of a type that cannot be a key."""
        if not names:
            return NO_KEY, np.zeros(rows, np.int64)
        parts = [self._column(name) for name in names]
        codes, size = parts[0][0], len(parts[0][1])
        firsts: np.ndarray | None = None
        for more, values in parts[1:]:
            codes, firsts = _dense(codes * len(values) + more, size * len(values))
            size = len(firsts)
        whole = np.arange(size)
        at = [whole if firsts is None else codes[firsts] for codes, _ in parts]
        hashed = [key_columns.hashes_of(values) for _, values in parts]
        keys, order = ordered(names, [values for _, values in parts], at, hashed)
        new = np.empty(size, np.int64)
        new[order] = whole
        return keys, new[codes]

    def _column(self, name: str) -> tuple[np.ndarray, pa.Array]:
        if name not in self._codes:
            if name not in self._columns:
                raise BadArgument(
                    f"key column {name!r} is missing; columns are {', '.join(self._columns)!r:.500}"
                )
            self._codes[name] = _coded(name, key_columns.column_of(name, self._columns[name]))
        return self._codes[name]


def _coded(name: str, array: pa.Array) -> tuple[np.ndarray, pa.Array]:
    """Number of each row's value, and the different values, in their kind's type."""
    values = key_values(name, array)
    numbers = values.numbers
    if values.kind == "int64" and values.codes is None and not len(values.bits) and len(numbers):
        low, high = int(numbers.min()), int(numbers.max())
        if _few_cells(high - low + 1, len(numbers)):
            codes, firsts = _dense(numbers - low, high - low + 1)
            return codes, pa.array(numbers[firsts])
    column = KeyColumn(name)
    codes = column.number(values, np.empty(values.length, np.int32))
    return codes.astype(np.int64), column.values()


def _few_cells(size: int, rows: int) -> bool:
    """Whether a table of all cells is the fastest way to number those that occur."""
    return size <= max(4 * rows, 1 << 10) and size <= DIRECT_CELLS_MAX


def _dense(codes: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Codes below `size` as consecutive numbers, and a row that has each number."""
    if _few_cells(size, len(codes)):
        rows = np.full(size, -1, np.int64)
        rows[codes] = np.arange(len(codes))
        used = np.flatnonzero(rows >= 0)
        firsts = rows[used]
        rows[used] = np.arange(len(used))
        return rows[codes], firsts
    index = IntegerIndex()
    numbers = index.number(codes, NO_BITS, 0, np.empty(len(codes), np.int32)).astype(np.int64)
    firsts = np.empty(len(index), np.int64)
    firsts[numbers] = np.arange(len(codes))
    return numbers, firsts


def ordered(
    names: tuple[str, ...],
    values: Sequence[pa.Array],
    at: Sequence[np.ndarray],
    hashed: Sequence[np.ndarray],
) -> tuple[Keys, np.ndarray]:
    """Different keys, in any order, as `Keys`, and their order.

    Parameters
    ----------
    values, hashed : arrays, one a name
        Different values, and their hashes.
    at : int64[keys], one a name
        Which value each key has.
    """
    hashes = key_columns.fold([one[rows] for one, rows in zip(hashed, at, strict=True)])
    order = _order_of(hashes)
    ordered = hashes[order]
    if (ordered[1:] == ordered[:-1]).any():
        order = _by_value([picked(one, rows) for one, rows in zip(values, at, strict=True)], hashes)
    columns = tuple(picked(one, rows[order]) for one, rows in zip(values, at, strict=True))
    return Keys(names, columns, frozen(ordered)), order


def picked(values: pa.Array, at: np.ndarray) -> pa.Array:
    """The values at these places; of texts their numbers alone."""
    if values.type != TEXT:
        return values.take(pa.array(at))
    nulls = None
    if values.null_count:
        nulls = values.is_null().to_numpy(zero_copy_only=False)[at]
        buffers = [None, *values.buffers()[1:]]  # of a null, a text that no number names
        values = pa.Array.from_buffers(TEXT, len(values), buffers, 0, values.offset)
    return numbered(values, at, nulls)


def numbered(texts: pa.Array, numbers: np.ndarray, nulls: np.ndarray | None) -> pa.Array:
    """Texts (large_string, no null) by their numbers, null where `nulls`: bool[n] says so."""
    return pa.DictionaryArray.from_arrays(
        pa.array(numbers.astype(np.int32), mask=nulls), texts, safe=False
    )


def _without_many(column: pa.Array) -> pa.Array:
    """Few keys do not keep many texts in memory that none of them has."""
    if pa.types.is_dictionary(column.type) and len(column.dictionary) > TEXTS_KEPT * len(column):
        return key_columns.decoded(column)
    return column


def shared(columns: Sequence[pa.Array]) -> list[pa.Array]:
    """Columns of text as numbers into one dictionary."""
    coded = [c if pa.types.is_dictionary(c.type) else c.dictionary_encode() for c in columns]
    coded = [c.cast(pa.dictionary(pa.int32(), TEXT)) for c in coded]
    if all(_same_texts(coded[0], other) for other in coded[1:]):
        return coded
    return pa.chunked_array(coded).unify_dictionaries().chunks


def _same_texts(one: pa.Array, other: pa.Array) -> bool:
    """Whether two columns have the same dictionary in memory; else it may be equal still."""
    mine, its = one.dictionary, other.dictionary
    return (
        len(mine) == len(its)
        and mine.offset == its.offset
        and all(
            a is b or (a is not None and b is not None and a.address == b.address)
            for a, b in zip(mine.buffers(), its.buffers(), strict=True)
        )
    )


def _equal(one: pa.Array, other: pa.Array) -> bool:
    dictionaries = pa.types.is_dictionary(one.type) and one.type == other.type
    if dictionaries and _same_texts(one, other):
        return one.indices.equals(other.indices)
    return key_columns.decoded(one).equals(key_columns.decoded(other))


def _order_of(hashes: np.ndarray) -> np.ndarray:
    if len(hashes) < RADIX_MIN:
        return np.argsort(hashes, kind="stable")
    signed, order = (hashes ^ np.uint64(1 << 63)).view(np.int64), np.arange(len(hashes))
    sort_pairs(signed, order)
    return order


def _by_value(columns: Sequence[pa.Array], hashes: np.ndarray) -> np.ndarray:
    """The order of (hash, value), where two values share a hash; null comes first."""
    named = {"hash": pa.array(hashes)}
    for i, column in enumerate(map(key_columns.decoded, columns)):
        if column.type != pa.null():
            named |= {f"there{i}": column.is_valid(), f"c{i}": column}
    keys = [(name, "ascending") for name in named]
    return pc.sort_indices(pa.table(named), sort_keys=keys).to_numpy()


def union(parts: Sequence[Keys]) -> tuple[Keys, list[np.ndarray]]:
    """The keys of all parts, which have the same names, and the new numbers of each part's. Raises
    IncompatibleSummary: a column has another type in another part."""
    first = parts[0]
    if all(part is first for part in parts) or (
        all(len(part) == len(first) for part in parts) and all(first.equals(p) for p in parts)
    ):
        return first, [np.arange(len(first))] * len(parts)
    names = first.names
    columns = [_joined(name, [part.columns[i] for part in parts]) for i, name in enumerate(names)]
    hashes = np.concatenate([part.hashes for part in parts])
    order = np.argsort(hashes, kind="stable")  # a merge of runs that are sorted
    ordered = hashes[order]
    new = np.ones(len(order), bool)
    new[1:] = ordered[1:] != ordered[:-1]
    at = pa.array(order)
    sorted_columns = [column.take(at) for column in columns]
    if not all((new[1:] | _equal_to_next(c)).all() for c in sorted_columns):  # of one hash, two
        order = _by_value(columns, hashes)
        at = pa.array(order)
        sorted_columns = [column.take(at) for column in columns]
        new[1:] = False
        for column in sorted_columns:
            new[1:] |= ~_equal_to_next(column)
    to = np.empty(len(order), np.int64)
    to[order] = np.cumsum(new) - 1
    kept = pa.array(np.flatnonzero(new))
    keys = Keys(names, tuple(c.take(kept) for c in sorted_columns), frozen(hashes[order][new]))
    ends = np.cumsum([len(part) for part in parts])[:-1]
    return keys, np.split(to, ends)


def _joined(name: str, columns: list[pa.Array]) -> pa.Array:
    kinds = {key_columns.value_type(column.type) for column in columns} - {pa.null()}
    if len(kinds) > 1:
        shown = " and ".join(sorted(str(KEY_TYPES[kind]) for kind in kinds))
        raise IncompatibleSummary(
            f"key column {name!r} is {shown}: cast the column to one type before it is summarised"
        )
    if kinds:
        (kind,) = kinds
        columns = [pa.nulls(len(c), kind) if c.type == pa.null() else c for c in columns]
    if any(pa.types.is_dictionary(column.type) for column in columns):
        columns = shared(columns)
    return pa.concat_arrays(columns)


def _equal_to_next(column: pa.Array) -> np.ndarray:
    """bool[n - 1]; null equals null."""
    if column.type == pa.null():
        return np.ones(max(len(column) - 1, 0), bool)
    if pa.types.is_dictionary(column.type):  # as `shared` made it: a text has one number
        column = column.indices
    one, other = column[:-1], column[1:]
    equal = pc.fill_null(pc.equal(one, other), False)
    if column.null_count:
        equal = pc.or_(equal, pc.and_(one.is_null(), other.is_null()))
    return equal.to_numpy(zero_copy_only=False)


def in_order(keys: Keys) -> bool:
    """Whether keys are different, and in the order of (hash, value)."""
    ties = has_ties(keys.hashes)
    if not ties:
        return ties is not None
    if np.any(np.all([_equal_to_next(column) for column in keys.columns], axis=0)):
        return False
    return bool((_by_value(keys.columns, keys.hashes) == np.arange(len(keys))).all())
