"""`VectorMatrix`: one slice of a segment of sums, and the hash tables that gather its events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Self, overload

import pyarrow as pa

from muntin.errors import BadArgument, CorruptSummary, IncompatibleSummary, UnknownName
from muntin.segments.building import subtract
from muntin.segments.checks import EVENTS_MAX
from muntin.segments.sums import Sums, counted_events
from muntin.segments.table import Segment
from muntin.summaries.checks import INT64_MAX, integer_in
from muntin.summaries.indicators import SumType
from muntin.summaries.vector_matrix.batches import built
from muntin.summaries.vector_matrix.gathered import (
    GatheredSums,
    check_whole,
    merged_to,
    read_whole,
    rows_of,
    without_indicator,
)
from muntin.summaries.vector_matrix.names import (
    INDICATORS_MAX,
    KEYS_MAX,
    Key,
    KeyName,
    as_indicator,
    as_key,
    as_type,
    find_key,
    refuse_both,
    shown,
)
from muntin.summaries.weights import added


class VectorMatrix(GatheredSums):
    """Sums of indicators by key, over the events of a pane or window.

    Parameters
    ----------
    keys : list of str or of sequences of str
        Columns, or combinations of columns, whose values are the rows. A combination may use
        columns that are no keys by themselves. Strings, integers, booleans, dates and timestamps
        (kept in microseconds; naive ones are UTC) can be keys; null is a value of its own.
    indicators : list of str, or mapping of str to {"int64", "float64", "decimal(2)", None}
        Numeric columns to sum. None: the first batch that has the column decides: integers and
        booleans give int64, floats and decimals of more than 18 digits float64, other decimals
        their own, such as decimal(2): sums are exact, and shown as the nearest float. `count` is
        always there.
    capacity : int, optional
        Rows that a window may hold per key. Nothing is dropped: `overflowed` says if it is more.

    Raises
    ------
    BadArgument
        A name is given twice, or is a key and an indicator, or there are too many.

    Notes
    -----
    A null value adds nothing, and `nulls` counts it; so do NaN and infinities. Not thread-safe.

    Examples
    --------
    >>> orders = VectorMatrix(keys=["driver", ("driver", "area")], indicators=["served"])
    >>> orders.update(pa.table({"driver": ["a"], "area": ["north"], "served": [1]}))
    >>> orders.table("driver").to_pylist()
    [{'driver': 'a', 'count': 1, 'served': 1}]
    """

    kind: ClassVar[str] = "vector_matrix"
    __slots__ = ("_capacity", "_shown")

    def __init__(
        self,
        keys: Iterable[KeyName],
        indicators: Iterable[str] | Mapping[str, SumType | None] = (),
        capacity: int | None = None,
    ) -> None:
        super().__init__(keys, indicators)
        self._capacity = (
            None if capacity is None else integer_in("capacity", capacity, 1, INT64_MAX)
        )

    def _changed(self) -> None:
        super()._changed()
        self._shown: dict[Key, pa.Table] = {}

    @property
    def _algebra(self) -> Sums:
        return Sums(tuple(self._indicators.items()))

    def __repr__(self) -> str:
        return f"VectorMatrix(count={self.count}, rows={self.rows()}, indicators={self.indicators})"

    def _empty(self) -> Self:
        return type(self)(self._keys, self._indicators, self._capacity)

    def _built(self, pieces: list[pa.RecordBatch], sums: Sums) -> list[Segment]:
        return [built(sums, self._keys, piece) for piece in pieces]

    @property
    def capacity(self) -> int | None:
        """Rows per key that a floating window may hold; None: as many as come."""
        return self._capacity

    @property
    def nbytes(self) -> int:
        """Memory now, in bytes; Arrow tables that `table` keeps are in it."""
        return super().nbytes + sum(table.nbytes for table in self._shown.values())

    @property
    def overflowed(self) -> bool:
        """Whether some key has more rows than `capacity`."""
        capacity = self._capacity
        return capacity is not None and any(rows > capacity for rows in self.rows().values())

    def covered(self, key: KeyName | int) -> int:
        """Events that the key's rows hold: fewer than `count` where the key was added later."""
        found = find_key(self._keys, key)
        tables = (segment.table(found) for segment in self._segments)
        recent = self._recent.count if self._recent else 0
        return recent + sum(int(table.events.sum()) for table in tables if table is not None)

    def uncounted(self) -> dict[str | Key, int]:
        """Events that a key's rows, or an indicator's sums, do not hold: it was added later."""
        whole, count = self._segment(), self.count
        total = whole.table()
        return {key: count - self.covered(key) for key in self._keys} | {
            name: count - int(counted_events(whole, total, name).sum()) for name in self._indicators
        }

    @overload
    def rows(self, key: None = None) -> dict[Key, int]: ...
    @overload
    def rows(self, key: KeyName | int) -> int: ...
    def rows(self, key: KeyName | int | None = None) -> int | dict[Key, int]:
        """Distinct values of a key; without a key, a dict key -> distinct values."""
        if key is not None:
            return self.rows()[find_key(self._keys, key)]
        if self._recent and not self._segments:
            return {key: table.live for key, table in self._recent.tables().items()}
        whole = self._segment()
        return {key: len(whole.table(key) or ()) for key in self._keys}

    def table(self, key: KeyName | int) -> pa.Table:
        """The rows of a key, ordered by the hash of its values.

        Parameters
        ----------
        key : str, sequence of str, or int
            A key, or its position from 1.

        Returns
        -------
        pyarrow.Table
            The key's columns, `count` (int64), then the indicators: null where no event of the
            row could have had one, because the indicator was added later. Kept until the summary
            changes, so that asking again costs nothing.

        Raises
        ------
        UnknownName
            There is no such key; the message lists those that there are.
        SummaryOverflow
            A sum is beyond its type; names indicator and key.
        """
        found = find_key(self._keys, key)
        if found not in self._shown:
            self._shown[found] = rows_of(self._segment(), found, self._kinds)
        return self._shown[found]

    def merge(self, other: Self) -> None:
        """Add the events of another summary, which stays as it is.

        Keys and indicators of both are kept: this one's first, then those that only the other
        has. In rows that only events without an indicator touched, it is null. `capacity` becomes
        the larger one. Sums of two types become float64: int64 exactly, decimals the nearest.

        Raises
        ------
        IncompatibleSummary
            A column is of another type there, or a key here and an indicator there.
        """
        self._check(other, "merge")
        keys = tuple(dict.fromkeys((*self._keys, *other._keys)))
        algebra = self._algebra.united(other._algebra)
        indicators = dict(algebra.indicators)
        try:
            refuse_both(keys, indicators)
        except BadArgument as problem:
            raise IncompatibleSummary(
                f"a key in one summary is an indicator in the other: {problem}"
            ) from None
        if len(keys) > KEYS_MAX or len(indicators) > INDICATORS_MAX:
            raise IncompatibleSummary(
                f"{len(keys)} keys and {len(indicators)} indicators of both: "
                f"{KEYS_MAX} and {INDICATORS_MAX} are the limits"
            )
        kinds = self._kinds_with(other)
        added(self.count, other.count, self.kind, "events", EVENTS_MAX)
        whole = other._segment()
        if (keys, indicators) != (self._keys, self._indicators):
            self._settle()
        if other.count:
            self._add(whole)
        self._keys, self._indicators, self._kinds = keys, indicators, kinds
        both = (self._capacity, other._capacity)
        self._capacity = None if None in both else max(c for c in both if c)
        self._changed()

    def subtract(self, other: VectorMatrix) -> None:
        """Take the events of another summary away, which must be a part of this one.

        Rows whose count falls to 0 disappear. Integer sums are exact; float sums keep what
        rounding left, of the order of 1e-32 of the largest sum there was.

        Raises
        ------
        IncompatibleSummary
            The other holds what this one does not, has other keys or indicators, or an indicator
            was added on the way. Nothing is subtracted.
        """
        self._check(other, "subtract")
        for what, mine, theirs in (
            ("keys", map(shown, self._keys), map(shown, other._keys)),
            ("indicators", self._indicators, other._indicators),
        ):
            here, there = sorted(mine), sorted(theirs)
            if here != there:
                raise IncompatibleSummary(
                    f"cannot subtract: {what} are {', '.join(here) or 'none'} here "
                    f"and {', '.join(there) or 'none'} in the other"
                )
        for matrix in (self, other):
            lacking = [n for n, events in matrix.uncounted().items() if events and type(n) is str]
            if lacking:
                raise IncompatibleSummary(
                    f"cannot subtract: indicator {lacking[0]!r} was added on the way, so that "
                    "what remains could not tell null from zero; merge the panes that stay"
                )
        kinds = self._kinds_with(other)
        algebra = self._algebra.united(other._algebra)
        whole, part = (merged_to(algebra, [m._segment()]) for m in (self, other))
        left = subtract(whole, part)
        self._recent, self._segments = None, [left] if left.count else []
        self._kinds, self._indicators = kinds, dict(algebra.indicators)
        self._changed()

    def add_key(self, key: KeyName) -> None:
        """Keep rows for another key from now on; events so far are not in them (`covered`)."""
        named = as_key(key)
        if named in self._keys:
            raise BadArgument(f"key {shown(named)} is there already")
        if len(self._keys) == KEYS_MAX:
            raise BadArgument(f"key {shown(named)}: there are {KEYS_MAX} already, the limit")
        refuse_both([named], self._indicators)
        self._settle()
        self._keys = (*self._keys, named)
        self._kinds = dict.fromkeys(named) | self._kinds
        self._changed()

    def remove_key(self, key: KeyName) -> None:
        """Drop a key's rows; the last key stays."""
        found = find_key(self._keys, key)
        if len(self._keys) == 1:
            raise BadArgument(f"key {shown(found)} is the only one: a summary needs a key")
        self._settle()
        self._keys = tuple(key for key in self._keys if key != found)
        used = {name for key in self._keys for name in key}
        self._kinds = {name: kind for name, kind in self._kinds.items() if name in used}
        self._segments = [
            replace(segment, tables=tuple(table for table in segment.tables if table.by != found))
            for segment in self._segments
        ]
        self._changed()

    def add_indicator(self, name: str, type: SumType | None = None) -> None:  # noqa: A002
        """Sum another column from now on; null in rows that no event touches any more."""
        name = as_indicator(name)
        if name in self._indicators:
            raise BadArgument(f"indicator {name!r} is there already")
        if len(self._indicators) == INDICATORS_MAX:
            raise BadArgument(f"indicator {name!r}: there are {INDICATORS_MAX} already, the limit")
        refuse_both(self._keys, [name])
        self._settle()
        self._indicators = {**self._indicators, name: as_type(name, type)}
        self._changed()

    def remove_indicator(self, name: str) -> None:
        """Drop an indicator's sums."""
        if not isinstance(name, str) or name not in self._indicators:
            names = ", ".join(self._indicators) or "none"
            raise UnknownName(f"unknown indicator {name!r:.200}; there are: {names}")
        self._settle()
        self._indicators = {n: kind for n, kind in self._indicators.items() if n != name}
        self._segments = [without_indicator(segment, name) for segment in self._segments]
        self._changed()

    def _described(self) -> dict[str, Any]:
        return {"capacity": self._capacity, **super()._described()}

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read what `to_bytes` wrote; `CorruptSummary` on anything else."""
        parameters, whole, sums = read_whole(data, cls.kind, Sums, "capacity")
        try:
            new = cls(parameters["keys"], dict(sums.indicators), parameters["capacity"])
        except BadArgument as problem:
            raise CorruptSummary(f"vector_matrix: {problem}") from None
        new._kinds = check_whole(whole, ((), *new._keys), parameters["columns"])
        new._segments = [whole] if whole.count else []
        return new
