"""When resolving costs more than pushing: the cost model of the hybrid protocol.

Cost is counted in messages, or in bytes on the wire: the encoded message and `overhead` for its
frame. Resolving is charged as it happens, and averaged over some slides. What pushing would cost
is what it did cost when last tried; before, the lesser of a guess for the contenders' values
and of what pushing everything would cost, which sites tell by how many values change.

Where even that costs more than pushing everything would (much changes near the top, or little
changes at all), everything is pushed, and the model remembers.

Hysteresis: pushing lasts at least `stay` slides; then resolving is tried again. If that has to
be given up within as many slides, the next trial waits twice as long; a trial is given up as soon
as it has cost `patience` slides of pushing more than pushing would have.
"""

from __future__ import annotations

from collections.abc import Mapping

from muntin.errors import BadArgument
from muntin.topk.codec import encode
from muntin.topk.messages import Message

# What is watched beyond T; how close below the least member the lines are drawn (0: at the last
# contender); and how far below the least member an object's bound may come until its sites are
# asked along with others. Bytes grow with what is watched, messages with what has to be asked.
OBJECTIVES = {"bytes": (8, 0.75, 0.0), "messages": (24, 0.0, 0.3)}
ENTRY_BYTES = 3  # a guess, used until pushing was tried: an object and its value
HEADER_BYTES = 7
STAY_MAX = 1280


class CostModel:
    """Says when to push and when to resolve.

    Parameters
    ----------
    objective : "bytes" or "messages"
    overhead : int
        Bytes a message costs beyond its own: 8 is a masked WebSocket header; add 40 to 52 for
        TCP/IP headers where messages travel alone.
    stay : int
        Slides that pushing lasts at first.
    patience : float
        How many slides' cost of pushing a period of resolving may cost in vain.
    """

    def __init__(
        self,
        objective: str = "bytes",
        *,
        overhead: int = 8,
        stay: int = 40,
        patience: float = 2.0,
    ) -> None:
        if objective not in OBJECTIVES:
            raise BadArgument(f"objective {objective!r}: 'bytes' or 'messages'")
        self.objective, self.overhead, self.patience = objective, overhead, patience
        self.runners_up, self.closeness, self.eagerness = OBJECTIVES[objective]
        self.stay_min = self._stay = stay
        self._pushing = False
        self._slides = 0
        self._spent = 0.0
        self._lost = 0.0
        self._push_cost: float | None = None
        self._busy: dict[str, float] = {}
        self.everything = False  # pushing means every change, not the contenders' only

    def charge(self, message: Message) -> None:
        """A message went either way."""
        if self.objective == "messages":
            self._spent += 1
        else:
            self._spent += len(encode(message)) + self.overhead

    def told(self, site: str, busy: int) -> None:
        """A site says how many values changed there in 16 slides."""
        self._busy[site] = busy / 16

    def slide(self, sites: int, k: int) -> None:
        """A slide is over."""
        self._slides += 1
        spent, self._spent = self._spent, 0.0
        if self._pushing:
            if self._slides > 1:  # the first slide pays for the change of mode
                old = self._push_cost
                self._push_cost = spent if old is None else old + (spent - old) / 8
                self._lost = max(0.0, self._lost + spent - self._naive_cost(sites))
            return
        self._lost = max(0.0, self._lost + spent - self._pushing_would_cost(sites, k))

    def _pushing_would_cost(self, sites: int, k: int) -> float:
        if self._push_cost is not None:
            return self._push_cost
        mean = self._changes()
        sending = min(1.0, mean)
        if self.objective == "messages":
            return max(0.25, sites * sending)
        entries = min(mean, k + self.runners_up)
        return sites * sending * (self.overhead + HEADER_BYTES + ENTRY_BYTES * entries)

    def _naive_cost(self, sites: int) -> float:
        """What pushing every change costs in a slide."""
        mean = self._changes()
        if self.objective == "messages":
            return max(0.25, sites * min(1.0, mean))
        return sites * (min(1.0, mean) * (self.overhead + HEADER_BYTES) + ENTRY_BYTES * mean)

    def _changes(self) -> float:
        """Values that change at a site in a slide."""
        return sum(self._busy.values()) / len(self._busy) if self._busy else float("inf")

    def should_push(self, sites: int, k: int) -> bool:
        """Whether resolving has become too dear."""
        worth = self.patience * self._pushing_would_cost(sites, k)
        return not self._pushing and self._lost + self._spent > worth

    def should_push_everything(self, sites: int) -> bool:
        """Whether pushing the contenders has become dearer than pushing everything."""
        worth = 4 * self.patience * self._naive_cost(sites)
        return self._pushing and not self.everything and self._lost > worth

    def push_everything(self) -> None:
        """From now on pushing means everything."""
        self.everything = True
        self._push_cost = None
        self._slides = 0
        self._lost = 0.0

    def cannot_push(self) -> None:
        """No lines could be drawn: go on resolving for a while."""
        self._lost = 0.0

    def should_resolve(self) -> bool:
        """Whether it is time to try resolving again."""
        return self._pushing and self._slides >= self._stay

    def pushed(self) -> None:
        """Pushing has begun."""
        self._stay = min(STAY_MAX, 2 * self._stay) if self._tried else self.stay_min
        self._begin(pushing=True)

    def resolved(self) -> None:
        """Resolving has begun (again)."""
        self._begin(pushing=False)

    @property
    def _tried(self) -> bool:
        """The period of resolving that ends was a trial that did not last."""
        return self._push_cost is not None and self._slides < self._stay

    def _begin(self, *, pushing: bool) -> None:
        self._pushing = pushing
        self._slides = 0
        self._lost = 0.0

    def state(self) -> Mapping[str, float | str | None]:
        """For dashboards."""
        return {
            "mode": "pushing" if self._pushing else "resolving",
            "objective": self.objective,
            "slides": self._slides,
            "push_cost": self._push_cost,
            "lost": self._lost,
        }
