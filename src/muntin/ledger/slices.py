"""How many events a piece holds of which slices: three columns, without looking into its payload.

A ledger knows bytes only. What it checks of pieces (that nothing was lost when they were merged)
and what readers look up without opening them (which slices hold events) is in these columns.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from muntin.errors import BadArgument
from muntin.sets import Int64s, sums_of_set

SLICES_MAX = 1 << 24  # of one piece; 16 million panes of a second are half a year
_COLUMNS = 3


@dataclass(frozen=True, slots=True, eq=False)
class Slices:
    """The slices of one piece that hold events, in order of time.

    `starts` (int64[n]): microseconds since 1970 UTC, strictly ascending, multiples of the slices'
      length.
    `events`, `late` (int64[n]): events of each slice, and how many of them came after it was
      sealed.
    """

    starts: Int64s
    events: Int64s
    late: Int64s

    @staticmethod
    def of(starts: object, events: object, late: object = None) -> Slices:
        """From sequences of whole numbers; BadArgument where they are none."""
        columns = [_whole_numbers(starts, "starts"), _whole_numbers(events, "events")]
        columns.append(np.zeros_like(columns[0]) if late is None else _whole_numbers(late, "late"))
        if len({len(column) for column in columns}) != 1:
            raise BadArgument(
                f"starts, events and late of slices have {', '.join(str(len(c)) for c in columns)} "
                "rows; they must have the same number"
            )
        return Slices(*columns)

    def __len__(self) -> int:
        return len(self.starts)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Slices):
            return NotImplemented
        return all(
            np.array_equal(mine, theirs)
            for mine, theirs in zip(self._columns(), other._columns(), strict=True)
        )

    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def _columns(self) -> tuple[Int64s, Int64s, Int64s]:
        return self.starts, self.events, self.late

    @property
    def count(self) -> int:
        return int(self.events.sum())

    @property
    def late_count(self) -> int:
        return int(self.late.sum())

    def between(self, start: int, end: int) -> Slices:
        """The slices that start in [start, end)."""
        first, last = np.searchsorted(self.starts, (start, end))
        return Slices(self.starts[first:last], self.events[first:last], self.late[first:last])

    def counts(self, starts: Int64s, ends: Int64s) -> Int64s:
        """Events of the slices that start in each [start, end)."""
        sums = np.concatenate(([0], np.cumsum(self.events)))
        first, last = (np.searchsorted(self.starts, times) for times in (starts, ends))
        return sums[last] - sums[first]

    def at(self, starts: Int64s) -> Slices:
        """The slices that start then, which are all there."""
        rows = np.searchsorted(self.starts, starts)
        return Slices(self.starts[rows], self.events[rows], self.late[rows])

    def at_length(self, length: int) -> Slices:
        """The same events in slices of a multiple of the length."""
        return added_up([Slices(self.starts - self.starts % length, self.events, self.late)])

    def to_bytes(self) -> bytes:
        """Little-endian columns one after another; starts as differences, which compress well."""
        steps = np.diff(self.starts, prepend=np.int64(0))
        return b"".join(np.asarray(c, "<i8").tobytes() for c in (steps, self.events, self.late))

    @staticmethod
    def from_bytes(data: bytes) -> Slices:
        """What `to_bytes` wrote; the row's checksum was right, so that only its size can be odd."""
        rows, rest = divmod(len(data), 8 * _COLUMNS)
        if rest:
            raise BadArgument(f"the slices of a piece take {len(data)} bytes, no multiple of 24")
        steps, events, late = np.frombuffer(data, "<i8").reshape(_COLUMNS, rows).astype(np.int64)
        return Slices(np.cumsum(steps), events, late)


NOTHING = Slices(*(np.empty(0, np.int64) for _ in range(_COLUMNS)))


def added_up(parts: Iterable[Slices]) -> Slices:
    """The slices of several pieces of one length, each slice once."""
    filled = [part._columns() for part in parts if len(part)]
    if not filled:
        return NOTHING
    return Slices(*sums_of_set(*map(np.concatenate, zip(*filled, strict=True))))


def check_slices(what: str, slices: Slices, length: int) -> Slices:
    """Refuse slices that no piece of this length can have."""
    starts, events, late = slices.starts, slices.events, slices.late
    if not 0 < len(starts) <= SLICES_MAX:
        raise BadArgument(f"{what} has {len(starts):,} slices; it must have 1 to {SLICES_MAX:,}")
    if (starts[1:] <= starts[:-1]).any():
        raise BadArgument(f"the slices of {what} must stand in order of time, each once")
    odd = np.flatnonzero(starts % length)
    if len(odd):
        raise BadArgument(
            f"the slice {starts[odd[0]]} of {what} does not start on a multiple of {length} us"
        )
    if int(starts[-1]) > np.iinfo(np.int64).max - length:
        raise BadArgument(f"the slice {starts[-1]} of {what} ends beyond the last microsecond")
    wrong = np.flatnonzero((events < 0) | (late < 0) | (late > events))
    if len(wrong):
        at = wrong[0]
        raise BadArgument(
            f"the slice {starts[at]} of {what} holds {events[at]} events, {late[at]} of them late"
        )
    return slices


def _whole_numbers(values: object, what: str) -> Int64s:
    column = np.asarray(values)
    if column.ndim == 1 and not len(column):
        return np.empty(0, np.int64)
    if column.ndim != 1 or column.dtype.kind not in "iu":
        raise BadArgument(
            f"{what} of slices must be a row of whole numbers, not {ascii(values)[:80]}"
        )
    if column.dtype == np.uint64 and (column > np.iinfo(np.int64).max).any():
        raise BadArgument(f"{what} of slices must be whole numbers of 64 bits with a sign")
    return np.ascontiguousarray(column, np.int64)
