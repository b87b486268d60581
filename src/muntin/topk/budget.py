"""What resolving may cost so that the whole never costs much more than pushing every change.

What a site pushes are differences from what it reported last. So all its pushes together cost no
more than pushing every change at every slide ("naive", the values of its first window included):
each pushed difference stands for one or more changes since the last report. What is to be bounded
is the rest: surveys, alerts, requests, replies, factors, orders to watch.

The rest is paid from a budget. It starts with what the survey cost. Added are the changes
that were not pushed, at the price that sites put on them in their alerts, and a share of all that
naive would have cost. When it is empty everything is pushed, until it has again what it started
with.
Hence after every slide, with a barrier,

    cost <= (1 + share) naive + 2 surveys + what the slide that emptied the budget overdrew

where the last is at most one message of every site, and a request and reply (or an order to push)
for each. What is not reported (changes at sites that do not alert) is left out, so this errs on the
side of pushing.
"""

START = 1.0  # of what the survey cost


class Budget:
    """Counts in whatever the cost model counts, from the survey on."""

    def __init__(self, share: float) -> None:
        self.share = share
        self.left = 0.0
        self.saving = False  # it was empty, and does not hold yet what it started with
        self._start = 0.0
        self._before: float | None = 0.0  # what it was when the survey began, while that lasts
        self._naive: dict[str, float] = {}
        self._pushed: dict[str, float] = {}

    def pay(self, cost: float) -> None:
        """A message that is not a push."""
        self.left -= cost

    def push(self, site: str, cost: float) -> None:
        """A push: naive would have cost as much, at least."""
        self._pushed[site] = self._pushed.get(site, 0.0) + cost
        self._gain(self.share * cost)

    def naive(self, site: str, cost: float) -> None:
        """Pushing every change of this epoch would have cost so much at that site until now."""
        more = cost - self._naive.get(site, 0.0)
        saved = more - self._pushed.pop(site, 0.0)
        self._naive[site] = max(cost, self._naive.get(site, 0.0))
        if saved > 0:
            self._gain((1 + self.share) * saved)

    def _gain(self, amount: float) -> None:
        self.left += amount
        if self.left >= self._start:
            self.saving = False

    def empty(self, cost: float = 0.0) -> bool:
        """Whether everything must be pushed now, rather than to spend `cost`."""
        if self._before is None and self.left < cost:
            self.saving = True
        return self.saving

    def survey_begins(self) -> None:
        """What a survey costs is not paid from the budget."""
        self._before = self.left if self._before is None else self._before
        self.left = 0.0
        self._naive, self._pushed = {}, {}

    def survey_ends(self) -> None:
        """The budget has what it had, and the start."""
        assert self._before is not None  # noqa: S101
        self._start = START * -self.left
        self.left = self._before + self._start
        self._before = None
