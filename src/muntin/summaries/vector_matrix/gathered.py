"""What matrices share: events gathered in hash tables, and segments of what was before."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
import pyarrow as pa

from muntin.errors import CorruptSummary, IncompatibleSummary, MuntinError
from muntin.segments.algebra import Algebra
from muntin.segments.building import WHOLE, merge
from muntin.segments.codec import decode, encode
from muntin.segments.keys import memory_of
from muntin.segments.sums import Sums, key_rows
from muntin.segments.table import Segment
from muntin.summaries.base import Merging
from muntin.summaries.envelope import seal, unseal
from muntin.summaries.indicators import SumType
from muntin.summaries.key_columns import TYPES, KeyKind
from muntin.summaries.vector_matrix.accumulator import Accumulator, nothing
from muntin.summaries.vector_matrix.batches import EventColumns, decided, pieces_of, read_batch
from muntin.summaries.vector_matrix.names import Key, as_indicators, as_keys, refuse_both

_SEGMENTS_MAX = 64  # segments that wait to be merged, so that a small merge costs little
_TEXT_BYTES_MAX = (1 << 31) - 1
Kind = TypeVar("Kind", bound=Algebra)


class GatheredSums(Merging):
    """Sums of indicators by key, as one slice of a segment; not to be used by itself."""

    kind: ClassVar[str]

    __slots__ = ("_indicators", "_keys", "_kinds", "_recent", "_segments", "_whole")

    def __init__(
        self,
        keys: Iterable[str | Sequence[str]],
        indicators: Iterable[str] | Mapping[str, SumType | None],
    ) -> None:
        self._keys = tuple(as_keys(keys))
        self._indicators: dict[str, SumType | None] = as_indicators(indicators)
        refuse_both(self._keys, self._indicators)
        self._kinds: dict[str, KeyKind | None] = {name: None for key in self._keys for name in key}
        self._segments: list[Segment] = []
        """What was merged in, or was gathered before keys or indicators changed."""
        self._recent: Accumulator | None = None
        """The events since."""
        self._changed()

    def _changed(self) -> None:
        self._whole: Segment | None = None

    @property
    @abstractmethod
    def _algebra(self) -> Algebra: ...

    @abstractmethod
    def _empty(self) -> Self:
        """Another of the same parameters, without events."""

    @abstractmethod
    def _built(self, pieces: list[pa.RecordBatch], sums: Sums) -> list[Segment]:
        """Batches whose sums may need more than 64 bits, as segments."""

    @property
    def keys(self) -> tuple[Key, ...]:
        """Each key as a tuple of its columns."""
        return self._keys

    @property
    def indicators(self) -> dict[str, SumType | None]:
        """Name -> type; None where no batch has decided it yet."""
        return dict(self._indicators)

    @property
    def count(self) -> int:
        """Events summarised."""
        recent = self._recent.count if self._recent else 0
        return recent + sum(segment.count for segment in self._segments)

    @property
    def nulls(self) -> dict[str, int]:
        """Indicator -> events that had no value for it: null, NaN or infinite."""
        found = dict.fromkeys(self._indicators, 0)
        if self._recent is not None:
            found |= zip(found, self._recent.nulls, strict=True)
        for segment in self._segments:
            for name in found:
                column = segment.tables[0].states.get(f"{name}.nulls")
                found[name] += int(column[0]) if isinstance(column, np.ndarray) else 0
        return found

    @property
    def nbytes(self) -> int:
        """Memory now, in bytes."""
        whole = [] if self._whole in (None, *self._segments) else [self._whole]
        segments = [*self._segments, *whole]
        keys = [keys for one in segments for table in one.tables for keys in table.dictionaries]
        held = sum(segment.nbytes for segment in segments) + memory_of(keys)
        return held + (self._recent.nbytes if self._recent else 0)

    def update(self, batch: pa.RecordBatch | pa.Table) -> None:
        """Count the events of a batch. An update that raises changes nothing.

        Parameters
        ----------
        batch : pyarrow.RecordBatch or pyarrow.Table
            Columns that are neither key nor indicator are ignored. A null indicator adds nothing.

        Raises
        ------
        BadArgument
            A column is missing, or of a type that does not fit.
        """
        pieces = self._pieces(batch)
        read = [read_batch(self._kinds, self._indicators, piece) for piece in pieces]
        indicators = decided(self._indicators, [[v.type for v in one.values] for one in read])
        kinds = decided(self._kinds, [[v.kind for v in one.keys.values()] for one in read])
        self._count(read, pieces, Sums(tuple(indicators.items())))
        self._indicators, self._kinds = indicators, kinds
        self._changed()

    def _pieces(self, batch: Any) -> list[pa.RecordBatch]:
        return pieces_of(batch)

    def _count(self, read: list[EventColumns], pieces: list[pa.RecordBatch], sums: Sums) -> None:
        recent = self._recent
        if recent is None or recent.algebra != sums or not recent.fits(read):
            self._settle()
            self._recent = recent = Accumulator(self._keys, sums)
        try:
            if recent.fits(read):
                recent.add(read)
            else:  # sums of this batch alone may need more than 64 bits
                for segment in self._built(pieces, sums):
                    self._add(segment)
        except MuntinError:
            self._settle()  # hash tables may have met values that no event has
            raise

    def _settle(self) -> None:
        if self._recent is not None and self._recent.count:
            self._add(self._made_of(self._recent.segment()))
        self._recent = None

    def _made_of(self, sums: Segment) -> Segment:
        """What is kept of exact sums."""
        return sums

    def _add(self, segment: Segment) -> None:
        """Have one more segment; where they are many, the small ones become one."""
        segments = self._segments
        segments.append(segment)
        if len(segments) > _SEGMENTS_MAX:
            small = sum(one.rows for one in segments[1:])
            first = 1 if segments[0].rows > small else 0
            segments[first:] = [merge(segments[first:], WHOLE)]

    def _segment(self) -> Segment:
        """All of it, as one segment with the keys and indicators as they are."""
        if self._whole is None:
            recent = []
            if self._recent and self._recent.count:
                recent = [self._made_of(self._recent.segment())]
            whole = merged_to(self._algebra, [*self._segments, *recent])
            found = [whole.table(key) for key in ((), *self._keys)]
            self._whole = replace(whole, tables=tuple(table for table in found if table))
            if not recent:
                self._segments = [self._whole] if self._segments else []
        return self._whole

    def _kinds_with(self, other: GatheredSums) -> dict[str, KeyKind | None]:
        kinds = dict(self._kinds)
        for name, kind in other._kinds.items():
            known = kinds.get(name)
            if kind is not None and known not in (None, kind):
                raise IncompatibleSummary(
                    f"key column {name!r} is {known} here and {kind} in the other"
                )
            kinds[name] = known or kind
        return kinds

    @classmethod
    def _check(cls, other: object, verb: str) -> None:
        if not isinstance(other, cls):
            raise IncompatibleSummary(
                f"cannot {verb} a {type(other).__name__} and a {cls.__name__}"
            )

    def copy(self) -> Self:
        """A matrix of its own with the same rows."""
        new = self._empty()
        new._kinds = dict(self._kinds)
        new._segments = [self._segment()] if self.count else []
        return new

    def _described(self) -> dict[str, Any]:
        return {"columns": self._kinds, "keys": [list(key) for key in self._keys]}

    def to_bytes(self) -> bytes:
        """Bytes that depend on the content alone, not on the order of events or merges.

        Float sums may differ in their low parts by the order of events.
        """
        return seal(self.kind, self._described(), encode(self._segment()))


def merged_to(algebra: Algebra, parts: list[Segment]) -> Segment:
    """One segment of one slice, of these parameters."""
    if len(parts) == 1 and parts[0].algebra == algebra:
        return parts[0]
    return merge([nothing(algebra), *parts], WHOLE)


def without_indicator(segment: Segment, name: str) -> Segment:
    assert isinstance(segment.algebra, Sums)  # noqa: S101
    kept = tuple(pair for pair in segment.algebra.indicators if pair[0] != name)
    algebra = Sums(kept)
    tables = [
        replace(table, states={part: table.states.get(part) for part in algebra.columns()})
        for table in segment.tables
    ]
    return replace(segment, algebra=algebra, tables=tuple(tables))


def rows_of(whole: Segment, key: Key, kinds: Mapping[str, str | None]) -> pa.Table:
    """The rows of a key; text with offsets of 32 bits, where these suffice."""
    table = whole.table(key)
    rows = no_rows(whole.algebra, key, kinds) if table is None else key_rows(whole.algebra, table)
    for at, field in enumerate(rows.schema):
        if field.type == pa.large_string() and rows.column(at).nbytes < _TEXT_BYTES_MAX:
            rows = rows.set_column(at, field.name, rows.column(at).cast(pa.string()))
    return rows.combine_chunks()


def no_rows(algebra: Any, key: Key, kinds: Mapping[str, str | None]) -> pa.Table:
    """The table of a key that has no rows."""
    columns = {name: pa.nulls(0, TYPES.get(kinds[name] or "", pa.null())) for name in key}
    for name, kind in (("count", "int64"), *algebra.indicators):
        columns[name] = pa.nulls(0, pa.int64() if kind in ("int64", None) else pa.float64())
    return pa.table(columns)


def read_whole(
    data: bytes, kind: str, algebra: type[Kind], *more: str
) -> tuple[dict[str, Any], Segment, Kind]:
    """Of a matrix's bytes: parameters (their values are not checked), segment and its algebra.
    Raises CorruptSummary: not what a matrix writes."""
    parameters, body = unseal(data, kind)
    if set(parameters) != {"columns", "keys", *more}:
        raise CorruptSummary(f"{kind}: parameters {sorted(parameters)!r:.500}")
    whole = decode(body)
    if not isinstance(whole.algebra, algebra) or whole.limit is not None:
        raise CorruptSummary(f"{kind}: the body is another kind of segment")
    return parameters, whole, whole.algebra


def check_whole(whole: Segment, keys: Sequence[Key], kinds: Any) -> dict[str, Any]:
    """The types of key columns, where they, and all else, fit the keys; CorruptSummary. The first
    key has a table wherever there are events."""
    kind = whole.algebra.kind
    if (
        not isinstance(kinds, dict)
        or set(kinds) != {name for key in keys for name in key}
        or not all(one is None or (isinstance(one, str) and one in TYPES) for one in kinds.values())
    ):
        raise CorruptSummary(f"{kind}: key columns of types {kinds!r:.200}")
    if whole.slices.any() or len(whole.slices) > 1:
        raise CorruptSummary(f"{kind}: the body has slices")
    names = [table.name(whole.algebra) for table in whole.tables]
    there = [key for key in keys if key in names]
    if names != there or (names[:1] != [*keys[:1]]) == bool(len(whole.slices)):
        raise CorruptSummary(f"{kind}: the body has tables of other keys")
    for table in whole.tables:
        if not table.by and int(table.events.sum()) != whole.count:
            raise CorruptSummary(f"{kind}: its total is not that of all events")
        named = table.dictionaries[-1]
        for name, one in zip(named.names, named.kinds, strict=True):
            if one not in (None, kinds[name]):
                raise CorruptSummary(f"{kind}: key column {name!r:.100} is {one}")
    return kinds
