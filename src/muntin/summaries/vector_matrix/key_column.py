"""A key column's distinct values, of one type for ever, and the numbers that stand for them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from muntin.arrow import read_only
from muntin.errors import BadArgument, IncompatibleSummary
from muntin.summaries.kernels.grouping import hash_integer_column, hash_text_column
from muntin.summaries.kernels.hash_table import NULL_HASH
from muntin.summaries.vector_matrix.indexes import NO_BITS, IntegerIndex, TextIndex
from muntin.summaries.vector_matrix.key_values import KeyKind, KeyValues


def check_kind(name: str, held: KeyKind | None, kind: KeyKind | None) -> None:
    """Refuse values of another type than the column has."""
    if kind is not None and held is not None and kind != held:
        raise BadArgument(
            f"key column {name!r} held {held} so far, now {kind}; "
            "cast the column to one type before it is summarised"
        )


class KeyColumn:
    """Value <-> number. The type is that of the first values that have one."""

    __slots__ = ("index", "kind", "name", "null_only")

    def __init__(self, name: str, kind: KeyKind | None = None) -> None:
        self.name = name
        self.kind: KeyKind | None = None
        self.index: TextIndex | IntegerIndex | None = None
        self.null_only = False
        """No type yet, and null has been seen: its number is 0."""
        if kind is not None:
            self.become(kind)

    def __len__(self) -> int:
        return len(self.index) if self.index is not None else int(self.null_only)

    @property
    def nbytes(self) -> int:
        return self.index.nbytes if self.index is not None else 0

    def copy(self) -> KeyColumn:
        new = KeyColumn(self.name)
        new.kind, new.null_only = self.kind, self.null_only
        new.index = self.index.copy() if self.index is not None else None
        return new

    def check(self, kind: KeyKind | None) -> None:
        """Refuse values of another type than the column has."""
        check_kind(self.name, self.kind, kind)

    def become(self, kind: KeyKind | None) -> None:
        """Take a type, for a column that has none yet."""
        if kind is None or self.kind is not None:
            return
        self.kind = kind
        self.index = TextIndex() if kind == "string" else IntegerIndex()
        if self.null_only:  # null keeps the number that it has
            self.index.state[:] = 1, 0
            if isinstance(self.index, TextIndex):
                self.index.starts[1] = 0
            else:
                self.index.known[0] = 0
            self.null_only = False

    def forget(self, null_only: bool) -> None:
        """Have no type, and no values but perhaps null, as before a batch that was refused."""
        self.kind, self.index, self.null_only = None, None, null_only

    def number(
        self,
        values: KeyValues,
        begin: int,
        end: int,
        insert: bool = True,
        out: np.ndarray | None = None,
    ) -> np.ndarray:
        """Numbers (int32) of values[begin:end]; unknown ones are appended, or get -1."""
        if out is None:
            out = np.empty(end - begin, np.int32)
        if values.codes is not None and values.values is not None:
            of_code = self.number(values.values, 0, values.values.length, insert)
            null = self._null(insert) if (values.codes < 0).any() else -1
            out[:] = np.append(of_code, np.int32(null))[values.codes[begin:end]]
            return out
        if values.kind is None:
            out[:] = self._null(insert) if end > begin else -1
            return out
        if self.kind is None:
            if not insert:
                return self._nulls_among(values, begin, end)
            self.become(values.kind)
        index, bits, bit_offset = self.index, values.bits, values.bit_offset
        if isinstance(index, TextIndex):
            before = len(index)
            index.number(values.data, values.offsets, begin, end, bits, bit_offset, insert, out)
            if len(index) > before:
                self._refuse_broken_text(index, before)
            return out
        if index is None:
            raise TypeError(f"key column {self.name!r} has a type and no index")
        return index.number(values.numbers, begin, end, bits, bit_offset, insert, out)

    def _null(self, insert: bool) -> int:
        if self.index is None:
            self.null_only = self.null_only or insert
            return 0 if self.null_only else -1
        if self.index.state[1] < 0 and insert:
            null = np.zeros(1, np.uint8)  # a bitmap that says: null
            if isinstance(self.index, TextIndex):
                self.index.number(NO_BITS, np.zeros(2, np.int32), 0, 1, null)
            else:
                self.index.number(np.zeros(1, np.int64), 0, 1, null)
        return int(self.index.state[1])

    def _nulls_among(self, values: KeyValues, begin: int, end: int) -> np.ndarray:
        out = np.full(end - begin, -1, np.int32)
        if self.null_only and len(values.bits):
            out[values.nulls()[begin:end]] = 0
        return out

    def _refuse_broken_text(self, index: TextIndex, before: int) -> None:
        """What goes in must come out of bytes again: Arrow strings are UTF-8."""
        after = len(index)
        first, last = int(index.starts[before]), int(index.starts[after])
        data = index.arena[first:last]
        if not (data & 0x80).any():
            return
        offsets = index.starts[before : after + 1] - first
        new = pa.Array.from_buffers(
            pa.large_string(), after - before, [None, pa.py_buffer(offsets), pa.py_buffer(data)]
        )
        try:
            new.validate(full=True)
        except pa.ArrowInvalid as problem:
            index.shrink(before)
            raise BadArgument(
                f"key column {self.name!r} holds a string that is not UTF-8 ({problem}); "
                "decode the column before it is summarised"
            ) from None

    def adopt(self, other: KeyColumn, insert: bool = True) -> np.ndarray:
        """The number here of each value of another column; unknown ones are appended, or -1."""
        if self.kind is not None and other.kind is not None and self.kind != other.kind:
            raise IncompatibleSummary(
                f"key column {self.name!r} is {self.kind} here and {other.kind} in the other"
            )
        return self.number(other.all_values(), 0, len(other), insert)

    def reserve(self, values: int) -> None:
        if self.index is not None:
            self.index.reserve(values)

    def all_values(self) -> KeyValues:
        """Every value in the order of its number, without copying (strings, integers)."""
        used, index = len(self), self.index
        if index is None:
            return KeyValues(None, used, NO_BITS)
        bits, null = NO_BITS, int(index.state[1])
        if null >= 0:
            flags = np.ones(used, bool)
            flags[null] = False
            bits = np.packbits(flags, bitorder="little")
        if isinstance(index, TextIndex):
            return KeyValues(
                "string", used, bits, data=index.arena, offsets=index.starts[: used + 1]
            )
        return KeyValues(self.kind, used, bits, numbers=index.known[:used])

    def hashes_of(self, numbers: np.ndarray) -> np.ndarray:
        if self.index is None:
            return np.full(len(numbers), NULL_HASH, np.uint64)
        return self.index.hashes_of(numbers)

    def taken(self, numbers: np.ndarray) -> KeyValues:
        """Values of the numbers, in their order, in fresh memory."""
        size, index = len(numbers), self.index
        if index is None:
            return KeyValues(None, size, NO_BITS)
        bits, null = NO_BITS, int(index.state[1])
        if null >= 0:
            flags = numbers != null
            if not flags.all():
                bits = np.packbits(flags, bitorder="little")
        if isinstance(index, TextIndex):
            data, offsets = index.text_of(numbers)
            return KeyValues("string", size, bits, data=data, offsets=offsets)
        return KeyValues(self.kind, size, bits, numbers=index.known[numbers])


def hashes_of_values(values: KeyValues) -> np.ndarray:
    """XXH64 of values that have no numbers, as `KeyColumn.hashes_of`; not for codes."""
    out = np.empty(values.length, np.uint64)
    if values.kind is None:
        out[:] = NULL_HASH
    elif values.kind == "string":
        data, offsets = read_only(values.data), read_only(values.offsets)
        hash_text_column(data, offsets, read_only(values.bits), values.bit_offset, out)
    else:
        numbers, bits = read_only(values.numbers), read_only(values.bits)
        hash_integer_column(numbers, bits, values.bit_offset, out)
    return out
