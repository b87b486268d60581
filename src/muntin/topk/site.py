"""What the coordinator knows of one site."""

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from muntin.topk.codec import fits
from muntin.topk.messages import LINE_ALL, Entries, Factors, Object, Watch, order
from muntin.topk.pushes import Pushes
from muntin.topk.resolution import Report

UNIT_MIN = -(1 << 62)  # nothing was heard of its units


@dataclass(slots=True)
class SiteState:
    """One site as the coordinator sees it.

    `present`: heard of lately; `member`: takes part in this epoch, which the answer is about.

    `memory` is what the site reported last of each object (those of value 0 are left out): with a
    barrier in this epoch, else in the pushes since the last order. `moved` is by how much that
    changed since it was last looked at. `values`, while it is watched,
    are those of them that are sure to be so still.

    `life` is the newest that its Hellos reported, `hellos` how many came since it said else.

    `version` is what was last sent, `acked` what the site is known to hold. What was sent since
    `acked` is kept and sent again as one message, so that neither loss nor order matters.
    """

    name: str
    present: bool = False
    member: bool = False
    heard: float = 0.0
    version: int = 0
    acked: int = 0
    factors: dict[Object, int] = field(default_factory=dict)
    expected: dict[Object, int] = field(default_factory=dict)
    changed: set[Object] = field(default_factory=set)
    top: tuple[Object, ...] | None = None
    watched: set[Object] = field(default_factory=set)
    added: set[Object] = field(default_factory=set)
    line: int = 0
    watching: bool = False
    since: int | None = None
    until: int | None = None
    unit: int = UNIT_MIN
    hellos: int = 0
    life: int = 0
    alert: Report | None = None
    reported: dict[Object, int] = field(default_factory=dict)
    memory: dict[Object, int] = field(default_factory=dict)
    moved: dict[Object, int] = field(default_factory=dict)
    values: dict[Object, int] = field(default_factory=dict)
    pushes: Pushes = field(default_factory=Pushes)
    sent_at: float = 0.0
    resolved: int = 0

    def reset(self) -> None:
        """Begin an epoch: no factors, nothing sent, nothing known."""
        self.unit = UNIT_MIN  # it may begin again with older units
        self.version = self.acked = 0
        self.factors, self.expected = {}, {}
        self.changed, self.added, self.watched = set(), set(), set()
        self.top = self.alert = self.since = self.until = None
        self.watching = False
        self.values, self.memory, self.moved = {}, {}, {}

    def install(self, new: dict[Object, int], top: tuple[Object, ...] | None) -> None:
        """Give the site these factors (and T, where it changed), as a new version."""
        self._change(new)
        self.top = self.top if top is None else top
        self._renew()
        self.watching = False

    def watch(
        self, items: AbstractSet[Object], line: int, new: dict[Object, int] | None = None
    ) -> None:
        """Let the site watch these objects and the line, as a new version."""
        self._change(new or {})
        fresh = not self.watching or line > self.line or bool(new)  # the site begins anew then, too
        if fresh:
            self.watched, self.added = set(), set()
        self.added |= items - self.watched
        self.watched |= items
        self.line = line
        self._renew()
        self.watching = True

    def can_take(self, new: AbstractSet[Object], objects: Iterable[Object] = ()) -> bool:
        """Whether one message holds factors of `new` and objects, and what is not acknowledged."""
        return fits([*(self.changed | new), *self.added, *objects])

    def remember(self, entries: Iterable[tuple[Object, int]]) -> None:
        """The site reported these values."""
        for item, value in entries:
            self.moved[item] = self.moved.get(item, 0) + value - self.memory.get(item, 0)
            if value:
                self.memory[item] = value
            else:
                self.memory.pop(item, None)

    def learn(self, changes: Entries) -> None:
        """The site reported how much values have changed."""
        self.remember([(item, self.memory.get(item, 0) + by) for item, by in changes])
        for item, _ in changes:
            if self.knows(item):
                self.values[item] = self.memory.get(item, 0)
            else:
                self.values.pop(item, None)

    def catch_up(self, unit: int) -> bool:
        """Learn what was pushed up to this unit; whether there was any."""
        pushed = self.pushes.up_to(unit)
        for push in pushed:
            if push.number < 0:
                self.remember([*((item, 0) for item in self.memory), *push.entries])
                self.recall()
            else:
                self.learn(push.entries)
        return bool(pushed)

    def knows(self, item: Object) -> bool:
        """Whether a change of the object would have been pushed."""
        if self.line == LINE_ALL or item in self.watched:
            return True
        return self.memory.get(item, 0) + self.factors.get(item, 0) > self.line

    def recall(self) -> None:
        """Take from memory what the site will push from now on only if it changes."""
        known = dict.fromkeys((*sorted(self.watched, key=order), *self.memory, *self.factors))
        self.values = {item: self.memory.get(item, 0) for item in known if self.knows(item)}

    def _change(self, new: dict[Object, int]) -> None:
        put(self.factors, new)
        self.changed.update(new)

    def _renew(self) -> None:
        self.version += 1
        self.alert = self.since = self.until = None
        self.pushes, self.values = Pushes(), {}

    def outstanding(self, epoch: int) -> Factors | Watch:
        """The message that brings the site from `acked` to `version`."""
        entries: Entries = tuple(
            (item, self.factors.get(item, 0)) for item in sorted(self.changed, key=order)
        )
        if self.watching:
            added = tuple(sorted(self.added, key=order))
            return Watch(epoch, self.acked, self.version, self.line, added, entries)
        top = None if self.top is None else tuple(sorted(self.top, key=order))
        return Factors(epoch, self.acked, self.version, top, entries)

    def acknowledge(self, version: int) -> None:
        """The site is known to hold `version`; one that is not the last one sent says nothing."""
        if version == self.version:
            self.acked = version
            self.changed, self.added = set(), set()
            if not self.watching:
                self.top = None


def put(values: dict[Object, int], new: Mapping[Object, int]) -> None:
    """Take the new values in place of those of the same objects; those of 0 are left out."""
    values.update(new)
    for item, value in new.items():
        if not value:
            del values[item]
