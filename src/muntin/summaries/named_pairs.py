"""What CalmSpaceSaving and HyperCalm are made of alike: tables of pairs, and the items' type.

Both take items in chunks of hashes, name the k highest pairs, cannot be merged, and have the same
frame around their bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any, ClassVar, Generic, NoReturn, Self, TypeVar

import numpy as np
import pyarrow as pa

from muntin.errors import BadArgument, CorruptSummary, IncompatibleSummary
from muntin.summaries.aligned import aligned_copy
from muntin.summaries.base import Copied
from muntin.summaries.calm_tables import (
    item_bytes_of,
    items_of,
    kind_of_items,
    named_slots,
)
from muntin.summaries.checks import INT64_MAX
from muntin.summaries.envelope import seal
from muntin.summaries.items import ITEM_TYPES, as_items, hash_items
from muntin.summaries.kernels.calm_space_saving import UNNAMED, CalmTables
from muntin.summaries.reading import Body, Fields, opened

MEMORY_BYTES_MAX = 1 << 35  # 32 GiB: the place of a pair in the buckets is kept in 32 bits
LOW = 0xFFFFFFFF  # of an int64 that holds two numbers of 32 bits
_CHUNK = 1 << 16  # hashes at once: 512 KiB, which the second-level cache holds

Chunk = tuple[slice, np.ndarray, np.ndarray, np.ndarray]


P = TypeVar("P", bound=Any)
"""What such a summary is made from, checked: a frozen dataclass with `k`, `seed` and `shape`."""


class NamedPairs(Copied, Generic[P]):
    """Base of the summaries that count pairs and name the k highest."""

    kind: ClassVar[str]
    instead_of_merging: ClassVar[str]
    """Why a merge is refused, and what to do."""

    def __init__(self, parameters: P) -> None:
        self._parameters = parameters
        self._tables = parameters.shape.make()
        self._items: str | None = None
        self._count = 0

    @property
    def k(self) -> int:
        """How many pairs are kept with their items."""
        return self._parameters.k

    @property
    def parameters(self) -> P:
        """What it was made from, guessed or given."""
        return self._parameters

    @property
    def count(self) -> int:
        """Events taken."""
        return self._count

    @property
    def item_type(self) -> str | None:
        """What the items are: "string", "binary", "int64" or "uint64"; None before the first."""
        return self._items

    @property
    def unnamed(self) -> int:
        """How often a pair was high enough to be named, but its item did not fit."""
        return int(self._tables.marks[UNNAMED])

    def merge(self, other: Self) -> NoReturn:
        """Always refused: `IncompatibleSummary`."""
        raise IncompatibleSummary(
            f"a {type(self).__name__} follows one stream in its order and cannot take in a "
            f"{type(other).__name__}: {self.instead_of_merging}"
        )

    def copy(self) -> Self:
        """An independent equal."""
        twin = self._shallow()
        twin._tables = CalmTables(*map(aligned_copy, self._tables))
        return twin

    def _checked(self, items: Any) -> tuple[pa.Array, str | None]:
        """Items as an array, and their type; `BadArgument` for another one than before."""
        array = as_items(items)
        return array, kind_of_items(array, self._items)

    def _chunks(self, array: pa.Array) -> Iterator[Chunk]:
        """Parts of an item array: where, their hashes, their bytes and offsets into these."""
        for begin in range(0, len(array), _CHUNK):
            part = array[begin : begin + _CHUNK]
            data, offsets = item_bytes_of(part)
            where = slice(begin, begin + len(part))
            yield where, hash_items(part, self._parameters.seed), data, offsets

    def _named(self) -> tuple[np.ndarray, pa.Array]:
        """The store's rows that hold a pair, and their items."""
        slots = named_slots(self._tables)
        return self._tables.slots[slots], items_of(self._tables, slots, self._items)

    def _sealed(self, more: Mapping[str, Any], body: bytes) -> bytes:
        about: dict[str, Any] = asdict(self._parameters)  # pyright: ignore[reportArgumentType]
        about |= {"count": self._count, "items": self._items, **more}
        return seal(self.kind, about, body)

    @classmethod
    def _unsealed(cls, data: bytes, form: type[P]) -> tuple[Self, Fields, Body]:
        """An instance without its tables, the fields left, and the body; CorruptSummary."""
        fields, body = opened(data, cls.kind)
        made = cls.__new__(cls)
        try:
            made._parameters = form(**{name: fields.value(name) for name in form.__slots__})
        except BadArgument as problem:
            raise CorruptSummary(f"{cls.kind}: {problem}") from None
        made._count = fields.integer("count", 0, INT64_MAX)
        made._items = fields.choice("items", [*ITEM_TYPES] if made._count else [None])
        return made, fields, body
