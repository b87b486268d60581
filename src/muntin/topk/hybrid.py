"""When resolving costs more than pushing: the cost model of the hybrid protocol.

Cost is counted in messages, or in bytes on the wire: the encoded message and `overhead` for its
frame. Two rules decide, a quick one and a strict one.

**The quick rule** looks at the last slides. Resolving is charged as it happens. What pushing
would cost is what it did cost when last tried; before, the lesser of a guess for the contenders'
values and of what pushing everything would cost, which sites tell by how many values change.
Where even pushing the contenders costs more than pushing everything would, everything is pushed,
and the model remembers it until a period of resolving has lasted. Hysteresis: pushing lasts at
least `stay` slides; then resolving is tried again. If that has to be given up within as many
slides, the next trial waits twice as long; a trial is given up as soon as it has cost `patience`
slides of pushing more than pushing would have.

**The budget** looks at all that was ever said (see `budget`): while it is empty everything is
pushed, whatever the quick rule says.
"""

from collections.abc import Mapping

from muntin.errors import BadArgument
from muntin.topk.budget import Budget
from muntin.topk.codec import encode
from muntin.topk.membership import Membership
from muntin.topk.messages import NOTHING, Alert, Busy, Calm, Hello, Message, Push, Reply

SLIDES_MAX = 1000  # that may have passed between two ticks
# What is watched beyond T; how close below the least member the lines are drawn (0: at the last
# contender); and how far below the least member an object's bound may come until its sites are
# asked along with others. Bytes grow with what is watched, messages with what has to be asked.
# At last, by what part of naive's cost its own may be exceeded: pushing everything would be the
# fewest messages on many streams, and many times the bytes.
OBJECTIVES = {"bytes": (8, 0.75, 0.0, 0.05), "messages": (24, 0.0, 0.3, 0.2)}
ENTRY_BYTES = 2  # of an object and by how much it changed: the least there is
HEADER_BYTES = 7
STAY_MAX = 1280
CREDIT = 10.0  # slides' cost of pushing, at most, that a quiet time gives to a dear resolution


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
    share : float, optional
        By what part of the cost of pushing every change its own cost may be exceeded, in the
        long run and with a barrier; 0.05 of the bytes or 0.2 of the messages.
    """

    def __init__(
        self,
        objective: str = "bytes",
        *,
        overhead: int = 8,
        stay: int = 40,
        patience: float = 2.0,
        share: float | None = None,
    ) -> None:
        if objective not in OBJECTIVES:
            raise BadArgument(f"objective {objective!r}: 'bytes' or 'messages'")
        self.objective, self.overhead, self.patience = objective, overhead, patience
        self.runners_up, self.closeness, self.eagerness, usual = OBJECTIVES[objective]
        share = usual if share is None else share
        if overhead < 0:
            raise BadArgument(f"overhead {overhead}: give 0 bytes or more")
        if not share > 0:
            raise BadArgument(f"share {share}: give a part above 0, such as 0.05")
        self.stay_min = self._stay = stay
        self.budget = Budget(share)
        self._pushing = False
        self._slides = 0
        self._spent = 0.0
        self._lost = 0.0
        self._push_cost: float | None = None
        self._recorded: dict[str, tuple[int, int]] = {}
        self._rates: dict[str, float] = {}
        self._entry_bytes = float("inf")
        self.all_pushed = False  # learned to be cheaper or not
        self._tried = False  # pushing, ever
        self._surveyed = False  # what this slide cost is the survey's
        self.refused = 0  # slides for which everything is not pushed: a site had too much
        self.everything = False  # pushing means every change, not the contenders' only

    # -- what happens

    def _price(self, size: int) -> int:
        return 1 if self.objective == "messages" else size + self.overhead

    def charge(self, site: str, message: Message) -> None:
        """A message went to or came from a site."""
        size = len(encode(message))
        cost = self._price(size)
        self._spent += cost
        if isinstance(message, Push) and message.number >= 0:
            self.budget.push(site, cost if message.entries else 0)
        elif not isinstance(
            message, Calm | Hello
        ):  # who pushes changes must say that he lives, too
            self.budget.pay(cost)
        if isinstance(message, Alert | Reply) and message.entries:
            each = (size - HEADER_BYTES) / len(message.entries) - 1  # changes are shorter
            self._entry_bytes = min(self._entry_bytes, each)

    def record(self, site: str, alert: Alert | Busy) -> None:
        """A site says how many values have changed there, which prices pushing them."""
        busy, unit = self._recorded.get(site, (0, alert.unit - alert.slides))
        if alert.busy < busy:
            return
        self._rates[site] = (alert.busy - busy) / max(1, alert.unit - unit)
        self._recorded[site] = alert.busy, alert.unit
        if self.objective == "messages":
            self.budget.naive(site, alert.slides)
        else:
            entry = max(ENTRY_BYTES, min(self._entry_bytes, 256))
            header = self.overhead + HEADER_BYTES
            self.budget.naive(site, alert.slides * header + alert.busy * entry)

    def survey_begins(self) -> None:
        """A new epoch: sites count their changes anew."""
        if self._pushing:
            self.begin(pushing=False)
        self._recorded = {}
        self.budget.survey_begins()

    def survey_ends(self) -> None:
        """The first factors are about to be sent."""
        self._spent = 0.0
        self._surveyed = True
        self.budget.survey_ends()

    def slide(self, sites: int, k: int) -> None:
        """A slide is over."""
        self._slides += 1
        self.refused = max(0, self.refused - 1)
        spent, self._spent = 0.0 if self._surveyed else self._spent, 0.0
        self._surveyed = False
        if self._pushing:
            # The first slide pays for the change of mode.
            if self._slides > 1 and self.all_pushed == self.everything:
                old = self._push_cost
                self._push_cost = spent if old is None else old + (spent - old) / 8
                self._lost = max(0.0, self._lost + spent - self._naive_cost(sites))
            return
        would = self._pushing_would_cost(sites, k)
        self._lost = max(-CREDIT * would, self._lost + spent - would)

    def pushed(self) -> None:
        """Pushing has begun."""
        in_vain = self._tried and self._slides < self._stay  # the last trial did not last
        self._stay = min(STAY_MAX, 2 * self._stay) if in_vain else self.stay_min
        self._tried = True
        self.begin(pushing=True)

    def push_everything(self) -> None:
        """From now on pushing means everything."""
        self.everything = True
        self._push_cost = None
        self._slides = 0
        self._lost = 0.0

    def refuse_everything(self) -> None:
        """A site cannot push all it has: not again for a long time."""
        self.refused, self.everything = STAY_MAX, False

    def cannot_push(self) -> None:
        """No lines could be drawn: go on resolving for a while."""
        self._lost = 0.0

    def begin(self, *, pushing: bool) -> None:
        """Pushing has begun, or resolving has (again)."""
        self._pushing, self.all_pushed = pushing, False
        self._slides = 0
        self._lost = 0.0

    # -- what follows

    def affords(self, requests: list[tuple[str, Message]]) -> bool:
        """Whether the budget holds what these and their answers may cost; if not, everything is to
        be pushed."""
        prices = (self._price(len(encode(message))) for _, message in requests)
        return self.refused > 0 or not self.budget.empty(2 * sum(prices))

    def should_push(self, membership: Membership, k: int) -> bool:
        """Whether resolving has cost more than pushing would have."""
        worth = self.patience * self._pushing_would_cost(len(membership.members()), k)
        if self._pushing or self._lost + self._spent <= worth:
            return False
        if NOTHING in membership.top and not self.everything:
            if self.refused:
                return False
            self.push_everything()  # no lines can be drawn below nothing
        return True

    def should_push_everything(self, sites: int) -> bool:
        """Whether pushing the contenders has become dearer than pushing everything."""
        worth = 4 * self.patience * self._naive_cost(sites)
        dear = self._pushing and not self.everything and self._lost > worth
        return dear and not self.refused

    def should_resolve(self) -> bool:
        """Whether it is time to try resolving again."""
        return self._pushing and self._slides >= self._stay and not self.budget.saving

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
        return sum(self._rates.values()) / len(self._rates) if self._rates else float("inf")

    def state(self) -> Mapping[str, float | str | None]:
        """For dashboards."""
        return {
            "mode": "pushing" if self._pushing else "resolving",
            "objective": self.objective,
            "slides": self._slides,
            "push_cost": self._push_cost,
            "lost": self._lost,
            "budget": self.budget.left,
        }
