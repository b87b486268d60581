"""When the sites have to be surveyed: at the start, and when one comes, goes or begins anew."""

from math import inf

from muntin.topk.membership import Membership
from muntin.topk.messages import Hello
from muntin.topk.site import SiteState

HELLOS_BELIEVED = 4  # in a row: a late one or two are what is left of an earlier start


class SurveySchedule:
    """Sites that come are waited for, so that one survey takes in all of them.

    `first`: so long, from the start, the first survey waits for sites that are not there yet.
    `settle`: so long a later one waits for others, once a site has come.

    `due`: what is known is not, or will not be, about the sites that are there.
    """

    def __init__(self, membership: Membership, *, first: float, settle: float) -> None:
        self.membership, self.first, self.settle = membership, first, settle
        self.due = True
        self._begun = False
        self._started = inf
        self._came: float | None = None  # since when one that has come waits for others
        self._not_before = -inf

    def start(self, now: float) -> bool:
        """Time begins to pass; whether it did not before."""
        fresh = self._started == inf
        self._started = min(self._started, now)
        return fresh

    def call(self, not_before: float = -inf) -> None:
        """A survey at the next tick from then on."""
        self.due, self._came, self._not_before = True, None, not_before

    def came(self, now: float) -> None:
        """A site is there that takes no part yet; others may be on their way."""
        if not self.due:
            self.due, self._came = True, now

    def ready(self, now: float) -> bool:
        """Whether to begin: all are there, or have been waited for."""
        present = sum(site.present for site in self.membership.sites.values())
        if not present or now < self._not_before:
            return False
        if present == len(self.membership.sites):
            return True
        if not self._begun:
            return now - self._started >= self.first
        return self._came is None or now - self._came >= self.settle

    def begin(self) -> None:
        self.due, self._begun, self._came = False, True, None

    def greeted(self, site: SiteState, hello: Hello) -> bool:
        """Whether this is the first that is heard of a new life of the site."""
        newer = hello.life > site.life
        site.life = max(site.life, hello.life)
        return newer

    def believes(self, site: SiteState, hello: Hello, *, newer: bool) -> bool:
        """Whether a site that had factors has none any more; else the Hello was under way long."""
        site.hellos += 1
        return newer or hello.unit > site.unit or site.hellos >= HELLOS_BELIEVED
