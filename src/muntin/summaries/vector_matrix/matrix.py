"""`VectorMatrix`, the summary itself: what is here is said here, what is done stands beside it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, overload

import pyarrow as pa

from muntin.errors import BadArgument, IncompatibleSummary
from muntin.summaries.envelope import is_of
from muntin.summaries.vector_matrix import combining, numbered
from muntin.summaries.vector_matrix.decoding import from_bytes
from muntin.summaries.vector_matrix.encoding import to_bytes
from muntin.summaries.vector_matrix.names import (
    IndicatorType,
    Key,
    as_indicators,
    as_keys,
    find_key,
)
from muntin.summaries.vector_matrix.state import State
from muntin.summaries.vector_matrix.tables import as_table
from muntin.summaries.vector_matrix.updating import update

KeyName = str | Sequence[str]


class VectorMatrix:
    """Sums of indicators by key, over the events of a pane or window.

    Parameters
    ----------
    keys : list of str or of sequences of str
        Columns, or combinations of columns, whose values are the rows. A combination may use
        columns that are no keys by themselves. Strings, integers, booleans, dates and timestamps
        (kept in microseconds; naive ones are UTC) can be keys; null is a value of its own.
    indicators : list of str, or mapping of str to {"int64", "float64", None}
        Numeric columns to sum. None: the first batch that has the column decides; integers and
        booleans give int64, floats and decimals float64. `count` is always there.
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
    __slots__ = ("_shown", "_state")

    def __init__(
        self,
        keys: Iterable[KeyName],
        indicators: Iterable[str] | Mapping[str, IndicatorType | None] = (),
        capacity: int | None = None,
    ) -> None:
        self._hold(State(as_keys(keys), as_indicators(indicators), capacity))

    def _hold(self, state: State) -> None:
        self._state = state
        self._shown: dict[Key, pa.Table] = {}

    @classmethod
    def _of(cls, state: State) -> VectorMatrix:
        new = cls.__new__(cls)
        new._hold(state)
        return new

    def __repr__(self) -> str:
        return f"VectorMatrix(count={self.count}, rows={self.rows()}, indicators={self.indicators})"

    @property
    def keys(self) -> tuple[Key, ...]:
        """Each key as a tuple of its columns."""
        return self._state.keys

    @property
    def indicators(self) -> dict[str, str | None]:
        """Name -> type; None where no batch has decided it yet."""
        return {indicator.name: indicator.type for indicator in self._state.indicators}

    @property
    def capacity(self) -> int | None:
        """Rows per key that a floating window may hold; None: as many as come."""
        return self._state.capacity

    @property
    def count(self) -> int:
        """Events summarised."""
        return self._state.count

    @property
    def nulls(self) -> dict[str, int]:
        """Indicator -> events that had no value for it: null, NaN or infinite."""
        return {indicator.name: indicator.nulls for indicator in self._state.indicators}

    @property
    def nbytes(self) -> int:
        """Memory held now, in bytes; Arrow tables that `table` keeps are in it."""
        return self._state.nbytes + sum(table.nbytes for table in self._shown.values())

    @property
    def overflowed(self) -> bool:
        """Whether some key has more rows than `capacity`."""
        capacity = self._state.capacity
        return capacity is not None and any(live > capacity for live in self._state.live().values())

    def covered(self, key: KeyName | int) -> int:
        """Events that the key's rows hold: fewer than `count` where the key was added later."""
        return self._state.covered()[find_key(self.keys, key)]

    def uncounted(self) -> dict[str | Key, int]:
        """Events that a key's rows, or an indicator's sums, do not hold: it was added later."""
        state = self._state
        return {key: state.count - held for key, held in state.covered().items()} | {
            indicator.name: state.count - indicator.seen for indicator in state.indicators
        }

    @overload
    def rows(self, key: None = None) -> dict[Key, int]: ...
    @overload
    def rows(self, key: KeyName | int) -> int: ...
    def rows(self, key: KeyName | int | None = None) -> int | dict[Key, int]:
        """Distinct values of a key; without a key, a dict key -> distinct values."""
        if key is None:
            return self._state.live()
        return self._state.live()[find_key(self.keys, key)]

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
        """
        found = find_key(self.keys, key)
        if found not in self._shown:
            state = self._state
            self._shown[found] = as_table(
                found, state.rows_of(found), state.indicators, state.layout
            )
        return self._shown[found]

    def update(self, batch: pa.RecordBatch | pa.Table) -> None:
        """Count the events of a batch. An update that raises changes nothing.

        Parameters
        ----------
        batch : pyarrow.RecordBatch or pyarrow.Table
            Columns that are neither key nor indicator are ignored.

        Raises
        ------
        BadArgument
            A column is missing, or of a type that does not fit.
        SummaryOverflow
            A sum would leave its range; names key and indicator.
        """
        update(self._state, batch)
        self._shown.clear()

    def merge(self, other: VectorMatrix) -> None:
        """Add the events of another summary, which stays as it is.

        Keys and indicators of both are kept: this one's first, then those that only the other
        has. In rows that only events without an indicator touched, it is null. `capacity` becomes
        the larger one. int64 sums meet float64 sums of the same name as float64, exactly.

        Raises
        ------
        IncompatibleSummary
            A column is of another type there, or a key here and an indicator there.
        SummaryOverflow
            A sum would leave its range; nothing is merged.
        """
        _check(other, "merge")
        combining.merge(self._state, other._state if other is not self else self._state.copy())
        self._shown.clear()

    @classmethod
    def merged(cls, summaries: Iterable[VectorMatrix]) -> VectorMatrix:
        """A new summary of the events of all, as merging one after the other would give."""
        parts = list(summaries)
        if not parts:
            raise BadArgument("merged() of nothing: give at least one summary")
        for part in parts:
            _check(part, "merge")
        state = parts[0]._state.copy()
        for part in parts:
            state.reserve(part._state)
        for part in parts[1:]:
            combining.merge(state, part._state)
        return cls._of(state)

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
        _check(other, "subtract")
        combining.subtract(self._state, other._state if other is not self else self._state.copy())
        self._shown.clear()

    def rows_after(self, other: VectorMatrix) -> dict[Key, int]:
        """Rows per key that a merge with another would give, without merging."""
        _check(other, "merge")
        return combining.rows_after(self._state, other._state)

    def add_key(self, key: KeyName) -> None:
        """Keep rows for another key from now on; events so far are not in them (`covered`)."""
        self._state.add_key(key)
        self._shown.clear()

    def remove_key(self, key: KeyName) -> None:
        """Drop a key's rows; the last key stays."""
        self._state.remove_key(find_key(self.keys, key))
        self._shown.clear()

    def add_indicator(self, name: str, type: IndicatorType | None = None) -> None:  # noqa: A002
        """Sum another column from now on; null in rows that no event touches any more."""
        self._state.add_indicator(name, type)
        self._shown.clear()

    def remove_indicator(self, name: str) -> None:
        """Drop an indicator's sums."""
        self._state.remove_indicator(name)
        self._shown.clear()

    def copy(self) -> VectorMatrix:
        """A matrix of its own with the same rows."""
        return self._of(self._state.copy())

    def to_bytes(self) -> bytes:
        """Bytes that depend on what is held alone, not on the order of events or merges.

        Float sums may differ in their low parts by the order of events.
        """
        return to_bytes(self._state)

    def to_numbered_bytes(self) -> bytes | None:
        """Bytes in the order in which rows came: ten times faster to make, and a quarter as large.

        For a summary of many rows that is soon to be merged into others. None where only
        `to_bytes` can say what there is: rows that went, indicators that came, too few rows to
        have been numbered.
        """
        return numbered.to_bytes(self._state) if numbered.is_possible(self._state) else None

    @classmethod
    def from_bytes(cls, data: bytes) -> VectorMatrix:
        """Read what `to_bytes` or `to_numbered_bytes` wrote; `CorruptSummary` on anything else."""
        read = numbered.from_bytes if is_of(data, numbered.KIND) else from_bytes
        return cls._of(read(data))


def _check(other: object, verb: str) -> None:
    if not isinstance(other, VectorMatrix):
        raise IncompatibleSummary(f"cannot {verb} a {type(other).__name__} and a VectorMatrix")
