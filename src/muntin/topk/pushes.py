"""The pushes of one site in their order, until all sites have got as far (without a barrier).

Pushes are numbered from 1 on since the order to push; each continues the one before, but those
with a number below 0, which begin anew. What comes early waits, what comes again is dropped. A
gap that does not close in time is mended by another order.
"""

from muntin.topk.messages import Push

EARLY_MAX = 64  # that wait for one that is missing
WAITING_MAX, ENTRIES_WAITING_MAX = 4096, 1 << 20  # in order, that wait for the other sites


class Pushes:
    """What one site has pushed since the last order. `since`, `until`: the units that are reported
    without a gap."""

    def __init__(self) -> None:
        self.since: int | None = None
        self.until: int | None = None
        self._next = 1
        self._waiting: list[Push] = []
        self._entries = 0  # of those that wait in order
        self._early: dict[int, Push] = {}
        self._gap_since: float | None = None

    def take(self, push: Push, now: float) -> None:
        """A push came, in whatever order."""
        number = abs(push.number)
        if number < self._next:
            return
        if push.number < 0:  # all that is missing is in it, but for the units before
            if number > self._next or self.since is None:
                self.since, self._waiting, self._entries = push.unit, [], 0
            self._early = {n: early for n, early in self._early.items() if n > number}
        elif number > self._next or self.since is None:
            if len(self._early) < EARLY_MAX:
                self._early[number] = push
            self._gap_since = now if self._gap_since is None else self._gap_since
            return
        self._accept(push)
        while (early := self._early.pop(self._next, None)) is not None:
            self._accept(early)
        self._gap_since = now if self._early else None

    def _accept(self, push: Push) -> None:
        self._waiting.append(push)
        self._entries += len(push.entries)
        self._next = abs(push.number) + 1
        self.until = push.unit

    def up_to(self, unit: int) -> list[Push]:
        """Those that tell the units up to this one; they are not kept."""
        count = next((n for n, p in enumerate(self._waiting) if p.unit > unit), len(self._waiting))
        found, self._waiting = self._waiting[:count], self._waiting[count:]
        self._entries -= sum(len(push.entries) for push in found)
        return found

    def broken(self, now: float, patience: float) -> bool:
        """Whether one must have been lost, or too many wait."""
        late = self._gap_since is not None and now - self._gap_since > patience
        many = len(self._waiting) > WAITING_MAX or self._entries > ENTRIES_WAITING_MAX
        return late or many
