"""The first top k, from sites that know only their own values: TPUT, in three round trips.

1. Each site sends its k largest. The k-th largest of the sums so far, t, is a floor of the k-th
   largest total.
2. Each site sends all from t / m up: whatever was not sent by any has a total below t. With what
   is known now the floor rises to t2, and objects that cannot reach t2 are out.
3. Each site sends its values of the objects that are left: their totals are exact.

Values may be negative: every site also says its least value (at most 0), and thresholds are
measured from there. A site may send less than was asked for, where a message would grow beyond
its limit; its border then says what it kept back, and the second step is asked again, lower.

Source: Cao & Wang, PODC 2004 (three-phase uniform threshold).
"""

from collections.abc import Mapping
from dataclasses import dataclass

from muntin.topk.messages import Object, Reply, order

RUNNERS_UP = 8  # objects beyond the first k whose totals are asked for as well


@dataclass(frozen=True, slots=True)
class Ask:
    """What to request: these objects, the `more` largest others, and all from `at_least` up."""

    objects: tuple[Object, ...]
    more: int = 0
    at_least: Mapping[str, int] | None = None  # by site


class Survey:
    """Asks and is answered, until the candidates' totals are known exactly. `hopeless`: they never
    will be, since more objects tie than a message holds."""

    def __init__(self, k: int) -> None:
        self.k = k
        self.step = 1
        self.hopeless = False
        self._at_least: dict[str, int] = {}
        self._floor = 0

    def receive(self, replies: Mapping[str, Reply]) -> Ask | None:
        """The next question to all sites; None when the last replies say all."""
        if self.step == 3:
            return None
        values = {site: dict(reply.entries) for site, reply in replies.items()}
        seen = {item for known in values.values() for item in known}
        base = sum(reply.least for reply in replies.values())
        lower = {
            item: sum(values[s].get(item, reply.least) for s, reply in replies.items())
            for item in seen
        }
        totals = sorted(lower.values(), reverse=True)
        kth = totals[self.k - 1] if len(totals) >= self.k else 0  # 0: of objects that nobody has
        floor = self._floor = max(self._floor, kth)
        if self.step == 1:
            self.step = 2
            share = -(-(floor - base) // len(replies))
            self._at_least = {s: max(1, r.least + share) for s, r in replies.items()}
            return Ask((), self.k + RUNNERS_UP, self._at_least)
        if sum(reply.border for reply in replies.values()) > floor:
            before = self._at_least
            self._at_least = {s: max(1, t // 4) for s, t in before.items()}
            if any(r.border >= self._at_least[s] for s, r in replies.items()):
                self.hopeless = self._at_least == before
                return Ask((), 0, self._at_least)
        upper = {
            item: sum(values[s].get(item, reply.border) for s, reply in replies.items())
            for item in seen
        }
        # The runners-up tell how much slack there is, and will be asked for soon anyway.
        best = sorted(seen, key=lambda item: (-lower[item], order(item)))[: self.k + RUNNERS_UP]
        left = {item for item in seen if upper[item] >= floor}.union(best)
        self.step = 3
        return Ask(tuple(sorted(left, key=order)), 0, self._at_least)
