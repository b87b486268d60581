"""A site's half of the protocol: a state machine over its window's values. No clock, no socket.

The site is quiet while ``value[a] + factor[a] >= value[b] + factor[b]`` for every a in T and
every b outside; the coordinator keeps the factors of all sites summing to zero, so that all quiet
sites together make T the top k of the sums (see `resolution`).

Phase     Means
--------  ------------------------------------------------------------------------------------
joining   no factors of the coordinator's epoch: says Hello until it is asked and given some
calm      the constraint holds
alerted   it broke; waits for factors (and says so again at each retry)
watching  pushes the watched values at every slide instead of checking
"""

import numpy as np

from muntin.errors import BadArgument
from muntin.topk.codec import fits
from muntin.topk.messages import (
    LINE_ALL,
    NOTHING,
    Alert,
    Busy,
    Calm,
    Factors,
    Hello,
    Message,
    Object,
    Push,
    Reply,
    Request,
    Watch,
    order,
)
from muntin.topk.objects import Objects, check_object

PUSHED_MAX = 65_536  # objects; a site that would have to push more leaves the epoch
BUSY_EVERY = 16  # units between two accounts of how much changed, at least
HELLOS_DOUBLED = 16
ENTRIES_MAX = 16_384  # of one message; what does not fit is covered by the border

_LOWEST = -(1 << 63)  # stands in for objects that are left out of a maximum

JOINING, CALM, ALERTED, WATCHING = "joining", "calm", "alerted", "watching"

# The whole life of a monitor: (phase, what happens) -> phase.
NEXT: dict[tuple[str, str], str] = {
    **{(phase, "new epoch"): JOINING for phase in (JOINING, CALM, ALERTED, WATCHING)},
    **{(phase, "factors"): CALM for phase in (JOINING, CALM, ALERTED, WATCHING)},
    **{(phase, "watch"): WATCHING for phase in (JOINING, CALM, ALERTED, WATCHING)},
    (CALM, "broken"): ALERTED,
    (WATCHING, "too much"): JOINING,
}


class Monitor:
    """Watches one site's window and answers the coordinator.

    Parameters
    ----------
    barrier : bool
        True where every message of a slide arrives before the next slide (simulation, one
        process): silence then means that the constraint holds, and nothing is acknowledged.
    heartbeat : int
        Without barrier: a calm site says so after this many units of silence.
    retry : float
        Without barrier: units of time after which what got no answer is said again; a Hello, which
        may have to wait for other sites, less and less often, down to once a `heartbeat`.
    life : int
        Above that of any earlier monitor of the same site (the time in milliseconds, say), so
        that the coordinator takes this one in at once, and not after it has asked for it some
        times. 0: not known.
    """

    def __init__(
        self, *, barrier: bool = False, heartbeat: int = 6, retry: float = 2.0, life: int = 0
    ) -> None:
        if heartbeat < 1 or not retry > 0:
            raise BadArgument(f"heartbeat {heartbeat} and retry {retry} must be above 0")
        self.barrier = barrier
        self.heartbeat = heartbeat
        self.retry = retry
        self.life = life
        self.objects = Objects()
        self.phase = JOINING
        self.epoch = self.version = 0
        self.unit = 0
        self._begun = False  # there was a unit
        self.since = 0
        self._top = np.zeros(0, np.int64)
        self._watched: list[int] = []  # rows that the coordinator named
        self._line = 0
        self._number = 1  # of the next push since the order; negative where it tells all
        self._busy = self._slides = 0  # values that changed in this epoch, slides with such
        self._busy_unit = 0  # the unit at which that was said last
        self._said_unit = 0
        self._said_at: float | None = None
        self._waiting = False  # something was said: wait for an answer before it is said again
        self._hellos = 0  # by how often the pause between them was doubled

    @property
    def top(self) -> tuple[Object, ...]:
        """T, as far as this site knows."""
        return tuple(self.objects.names[row] for row in self._top.tolist())

    def rows(self, items: list[Object]) -> np.ndarray:
        """Row numbers to give to `slide`, valid until `compact` says otherwise."""
        rows = self.objects.rows(items)
        if len(rows) and not rows.min():
            check_object(NOTHING)
        return rows

    def slide(self, unit: int, rows: np.ndarray, changes: np.ndarray) -> list[Message]:
        """Move the window to `unit`, whose values differ by `changes`, and check.

        Parameters
        ----------
        unit : int
            Number of the newest unit in the window; never goes back. The same unit again
            corrects it (a late event).
        rows : int64[n]
            From `rows`; repeats are allowed.
        changes : int64[n]
            What came in less what left.

        Raises
        ------
        BadArgument
            `unit` went back; a row that does not exist; changes that are not integers; a value
            beyond +-2**50.
        """
        rows, changes = np.asarray(rows), np.asarray(changes)
        if self._begun and unit < self.unit:
            raise BadArgument(f"unit {unit} is before {self.unit}: units only go forward")
        if rows.shape != changes.shape or rows.ndim != 1:
            raise BadArgument(f"{rows.shape} rows and {changes.shape} changes: give one each")
        if len(rows) and (rows.dtype.kind not in "iu" or changes.dtype.kind not in "iu"):
            raise BadArgument(
                f"rows and changes must be integers, not {rows.dtype} and {changes.dtype}: "
                "scale a float sum to a whole unit (cents, microseconds)"
            )
        if len(rows):
            if rows.min() < 1 or rows.max() >= len(self.objects):
                raise BadArgument(
                    f"row {int(rows.max())}: rows go from 1 to {len(self.objects) - 1}"
                )
            self.objects.change(rows, changes)
        self._busy += len(rows)
        self._slides += len(rows) > 0
        self.unit, self._begun = unit, True
        if self.phase == CALM:
            return self._check(acknowledge=False)
        if self.phase == WATCHING:
            return self._push()
        return []

    def receive(self, message: Message) -> list[Message]:
        """Answer the coordinator. What is void (old, repeated, out of order) is ignored."""
        if isinstance(message, Request):
            return self._answer(message)
        if isinstance(message, Factors):
            return self._install(message)
        if isinstance(message, Watch):
            return self._watch(message)
        return []

    def tick(self, now: float) -> list[Message]:
        """Let time pass: `now` in window units, from any origin, never going back."""
        if self.barrier or self.phase in (CALM, WATCHING):
            self._said_at = None
            return []
        pause = self.retry
        if self.phase == JOINING:  # the coordinator may be waiting for other sites
            pause = max(pause, min(self.heartbeat, pause * (1 << self._hellos)))
        if self._said_at is not None and now - self._said_at < pause:
            return []
        first = self._said_at is None and self._waiting
        again = self._said_at is not None
        self._said_at, self._waiting = now, True
        if first:
            return []
        self._hellos = min(self._hellos + again, HELLOS_DOUBLED)
        return [self._state()]

    def alive(self) -> list[Message]:
        """What may be said at any time, and says at least that the site is there.

        For a new connection, where what was under way is lost, and for a stream that stands still.
        """
        self._wait()
        return [self._state()]

    def _state(self) -> Message:
        match self.phase:
            case "joining":
                return Hello(self.epoch, self.unit, self.life)
            case "alerted":
                return self._alert()
            case "calm":
                return Calm(self.epoch, self.version, self.since, self.unit)
            case _:  # watching; of version 0 it says nothing of any factors
                return Calm(self.epoch, 0, self.unit, self.unit)

    def _wait(self) -> None:
        self._said_at, self._waiting, self._hellos = None, True, 0

    def compact(self) -> np.ndarray | None:
        """Forget objects that have gone. Returns the new row of each old one, or None."""
        moved = self.objects.compact([*self._top.tolist(), *self._watched])
        if moved is not None:
            self._top = moved[self._top]
            self._watched = moved[self._watched].tolist()
        return moved

    # -- the constraint

    def _check(self, *, acknowledge: bool) -> list[Message]:
        least, most = self.extremes()
        if most > least:
            self._move("broken")
            self._wait()
            return [self._alert()]
        due = self.unit - self._said_unit >= self.heartbeat
        if self.barrier or not (acknowledge or due):
            return []
        self._said_unit = self.unit
        return [Calm(self.epoch, self.version, self.since, self.unit)]

    def extremes(self) -> tuple[int, int]:
        """Least adjusted value in T, which must not be empty, and the largest outside."""
        return int(self.objects.adjusted[self._top].min()), self._border_without(self._top)

    def _alert(self) -> Alert:
        adjusted = self.objects.adjusted
        least = adjusted[self._top].min()
        above = adjusted > least
        above[self._top] = False
        listed = self._largest(np.flatnonzero(above), ENTRIES_MAX - len(self._top))
        listed = np.concatenate((self._top, listed))
        self._said_unit = self._busy_unit = self.unit
        return Alert(
            self.epoch,
            self.version,
            self.unit,
            self._border_without(listed),
            self._busy,
            self._slides,
            self._entries(listed),
        )

    def _largest(self, rows: np.ndarray, most: int) -> np.ndarray:
        """At most `most` of the rows, those of the largest adjusted values."""
        if len(rows) <= most:
            return rows
        by = self.objects.adjusted[rows]
        return rows[np.argpartition(-by, most - 1)[:most]] if most > 0 else rows[:0]

    def _border_without(self, listed: np.ndarray) -> int:
        """The largest adjusted value of the others, 0 for the objects that are not here."""
        adjusted = self.objects.adjusted
        kept = adjusted[listed]
        adjusted[listed] = _LOWEST
        most = int(adjusted.max())
        adjusted[listed] = kept
        return max(0, most)

    def _entries(self, rows: np.ndarray) -> tuple[tuple[Object, int], ...]:
        """Values reported: with a barrier the coordinator is sure to get them."""
        values = self.objects.values[rows]
        if self.barrier:
            self.objects.reported[rows] = values
        return self._named(rows, values)

    def _named(self, rows: np.ndarray, values: np.ndarray) -> tuple[tuple[Object, int], ...]:
        names = self.objects.names
        pairs = zip([names[row] for row in rows.tolist()], values.tolist(), strict=True)
        return tuple(sorted(pairs, key=lambda pair: order(pair[0])))

    # -- what the coordinator says

    def _answer(self, request: Request) -> list[Message]:
        if request.epoch > self.epoch and request.version == 0:
            self._move("new epoch")
            self.epoch, self.version = request.epoch, 0
            self.objects.begin_epoch()
            self._busy = self._slides = 0
            self._busy_unit = self.unit
            self._top = self._top[:0]
        if request.epoch != self.epoch or request.version != self.version:
            return []
        self._wait()
        objects = self.objects
        rows = listed = objects.rows(request.objects)
        if request.more or request.at_least is not None:
            free = np.ones(len(objects), bool)
            free[listed] = free[0] = False
            others = np.flatnonzero(free)
            adjusted = objects.adjusted[others]
            asked = self._largest(others, request.more)
            if request.at_least is not None:
                asked = np.union1d(asked, others[adjusted >= request.at_least])
            listed = np.concatenate((listed, self._largest(asked, ENTRIES_MAX - len(rows))))
        entries = self._entries(listed)
        least = min(0, int(objects.values.min()))
        border = self._border_without(listed)
        number, unit = request.round, self.unit
        return [Reply(self.epoch, self.version, number, unit, border, least, entries)]

    def _install(self, factors: Factors) -> list[Message]:
        if factors.epoch != self.epoch or not factors.base <= self.version:
            return []
        if factors.version <= self.version:  # repeated: our acknowledgement was lost
            return self._check(acknowledge=True) if self.phase == CALM else []
        if not (len(self._top) if factors.top is None else factors.top):
            return []
        for item, factor in factors.entries:
            self.objects.set_factor(item, factor)
        if factors.top is not None:
            self._top = self.objects.rows(factors.top)
        self.version, self.since = factors.version, self.unit
        self._move("factors")
        return self._check(acknowledge=True)

    def _watch(self, watch: Watch) -> list[Message]:
        if watch.epoch != self.epoch or watch.base > self.version:
            return []
        if watch.version <= self.version:  # repeated: our push was lost
            return self._push_anew() if self.phase == WATCHING and not self.barrier else []
        if self.phase != WATCHING or watch.line > self._line or watch.entries:
            self._watched = []
        self._move("watch")
        for item, factor in watch.entries:
            self.objects.set_factor(item, factor)
        self.version, self._line = watch.version, watch.line
        rows = self.objects.rows(watch.objects).tolist()
        self._watched = [*dict.fromkeys((*self._watched, *rows))]
        self._number = 1
        return [*self._say_busy(), *self._push_anew()]

    def _say_busy(self) -> list[Message]:
        if self.unit - self._busy_unit < BUSY_EVERY:
            return []
        self._busy_unit = self.unit
        return [Busy(self.epoch, self.version, self.unit, self._busy, self._slides)]

    def _push(self) -> list[Message]:
        """What differs from what was reported, where it was or is watched or above the line."""
        values, reported = self.objects.values, self.objects.reported
        differs = values != reported
        if self._line != LINE_ALL:
            adjusted = self.objects.adjusted
            wanted = (adjusted > self._line) | (adjusted - values + reported > self._line)
            wanted[self._watched] = True
            differs &= wanted
        rows = np.flatnonzero(differs)
        anew, due = self._number < 0, self.unit - self._said_unit >= self.heartbeat
        if not len(rows) and (self.barrier or not (anew or due)):
            return []
        names = self.objects.names
        if not self.barrier and (
            len(rows) > PUSHED_MAX or not fits([names[row] for row in rows.tolist()])
        ):
            self._move("too much")
            return self.alive()
        self._said_unit = self.unit
        changes = values[rows] - reported[rows]
        reported[rows] = values[rows]
        if not self.barrier:
            number, self._number = self._number, abs(self._number) + 1
            entries = self._named(rows, changes)
            return [Push(self.epoch, self.version, self.unit, entries, number)]
        return [
            Push(self.epoch, self.version, self.unit, self._named(rows[n:end], changes[n:end]))
            for n, end in ((n, n + ENTRIES_MAX) for n in range(0, len(rows), ENTRIES_MAX))
        ]

    def _push_anew(self) -> list[Message]:
        """As if nothing had been reported, which with a barrier is never needed."""
        if not self.barrier:
            self._number = -abs(self._number)
            self.objects.reported[:] = 0
        return self._push()

    def _move(self, cause: str) -> None:
        self.phase = NEXT[self.phase, cause]
