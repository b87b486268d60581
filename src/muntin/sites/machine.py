"""A site without sockets: its window, its monitor, what there is to send. No I/O, no clock."""

from typing import Any

from muntin.sites.counts import NaiveCost
from muntin.sites.follower import News
from muntin.sites.units import NO_CELLS, Cells, Units
from muntin.spec_sites import SiteSpec
from muntin.topk import Message, Monitor, decode, encode
from muntin.topk.monitor import JOINING


class SiteMachine:
    """Used by one thread. What it returns are bytes to send, in order; losing them does no harm.

    `life`: above what any earlier machine of the site was given, by as many as it had monitors at
      least: the time in milliseconds.

    `unit`: the newest unit of the window; None before the first.
    """

    def __init__(self, spec: SiteSpec, life: int = 0) -> None:
        self._spec = spec
        self._life = life
        self._units = Units(spec.units)
        self.monitor = self._new_monitor()
        self.naive = NaiveCost()
        self.slides = 0
        self._said_at = 0.0

    @property
    def unit(self) -> int | None:
        return self._units.newest

    def move(self, news: News, now: float) -> list[bytes]:
        """Take what was sealed or corrected; `now` in window units.

        A monitor that takes part checks every unit, because what it says holds for every unit
        since its factors came. One that was away for too long takes part anew.
        """
        newest = self._units.newest
        # What is read anew is the window that ends now, and says nothing of those before.
        if newest is None or (news.anew and news.to != newest):
            self._units = Units(self._spec.units)
            self.monitor = self._new_monitor()
            self.naive.renumber()
            newest = None
        cells = {
            unit: (self.monitor.rows(names), values) for unit, (names, values) in news.units.items()
        }
        if news.anew and newest is not None:
            first = newest - self._spec.units + 1
            cells = dict.fromkeys(range(first, newest + 1), NO_CELLS) | cells
        if newest is None or self.monitor.phase == JOINING:
            said = self._slide(news.to, cells, counted=False)
        else:
            said = []
            corrected = {unit: new for unit, new in cells.items() if unit <= newest}
            if corrected:
                said += self._slide(newest, corrected)
            for unit in range(newest + 1, news.to + 1):
                said += self._slide(unit, {unit: cells[unit]} if unit in cells else {})
        self._compact()
        return self._encoded(said, now)

    def _slide(self, unit: int, cells: dict[int, Cells], *, counted: bool = True) -> list[Message]:
        rows, changes = self._units.advance(unit, cells)
        self.slides += 1
        if counted:
            self.naive.slide(self.monitor.objects, rows, changes)
        return self.monitor.slide(unit, rows, changes)

    def receive(self, data: bytes, now: float) -> list[bytes]:
        """A message of the coordinator; raises CorruptMessage."""
        return self._encoded(self.monitor.receive(decode(data)), now)

    def tick(self, now: float) -> list[bytes]:
        """Called several times a unit: says again what got no answer, or that it is still here."""
        said = self.monitor.tick(now)
        if not said and now - self._said_at >= self._spec.heartbeat:
            said = self.monitor.alive()
        return self._encoded(said, now)

    def greet(self, now: float) -> list[bytes]:
        """A new connection: whatever was on its way is lost."""
        return self._encoded(self.monitor.alive(), now)

    def slack(self) -> int | None:
        """How far the local constraint is from breaking; None where there is none."""
        if self.monitor.phase == JOINING or not self.monitor.top:
            return None
        least, most = self.monitor.extremes()
        return least - most

    def report(self) -> dict[str, Any]:
        window = self.naive.of_window(self.monitor.objects)
        return {
            "phase": self.monitor.phase,
            "unit": self.unit,
            "slack": self.slack(),
            "objects": len(self.monitor.objects) - 1,
            "slides": self.slides,
            "naive_messages": self.naive.messages,
            "naive_entries": self.naive.entries,
            "naive_bytes": self.naive.bytes,
            "window_entries": window[0],
            "window_bytes": window[1],
        }

    def _new_monitor(self) -> Monitor:
        life, self._life = self._life, self._life + 1
        return Monitor(heartbeat=self._spec.heartbeat, life=life)

    def _compact(self) -> None:
        """Forget objects that have gone, but not those that some unit still names."""
        names = self.monitor.objects.names
        moved = self.monitor.compact()
        if moved is None:
            return
        referred = self._units.referred()
        gone = referred[moved[referred] < 0]
        moved[gone] = self.monitor.rows([names[row] for row in gone.tolist()])
        self._units.renumber(moved)
        self.naive.renumber()

    def _encoded(self, messages: list[Message], now: float) -> list[bytes]:
        if messages:
            self._said_at = now
        return [encode(message) for message in messages]
