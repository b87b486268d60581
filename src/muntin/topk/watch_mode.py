"""The coordinator while it watches: sites push values at every slide, T follows from them.

`watching` says what the values prove; here is who is asked to push what, and for how long.
"""

from __future__ import annotations

from dataclasses import dataclass

from muntin.topk.hybrid import CostModel
from muntin.topk.messages import LINE_ALL, Message, Object, Push
from muntin.topk.resolution import Allocation, Report
from muntin.topk.roster import Addressed, Roster
from muntin.topk.site import Site
from muntin.topk.watching import Watching


@dataclass(frozen=True, slots=True)
class Judged:
    """What the newest values made of it.

    `unit`: T was proven there, or None; `say`: messages; `reports`: those of a resolution, where
    it is time to try resolving again; `lost`: the values cannot prove any T, survey anew.
    """

    unit: int | None = None
    say: Addressed | None = None
    reports: dict[str, Report] | None = None
    lost: bool = False


class WatchMode:
    """From the moment that sites are asked to push until they get factors again."""

    def __init__(self, roster: Roster, model: CostModel) -> None:
        self.roster, self.model = roster, model
        self.watching = Watching(dict.fromkeys(roster.names(), 0), 0, model)
        self.sure = False  # the last verdict
        self._overdrawn = False  # looked closer although the budget was empty
        model.pushed()

    def contenders(
        self, objects: tuple[Object, ...], allocation: Allocation, epsilon: int, now: float
    ) -> Addressed:
        """Watch these objects, and all that exceed the lines of the allocation."""
        roster = self.roster
        roster.set_own(allocation.coordinator)
        names = roster.names()
        lines = dict(zip(names, allocation.lines[1:], strict=True))
        self.watching = Watching(lines, allocation.lines[0], self.model)
        least = min(sum(roster.sites[name].reported[a] for name in names) for a in roster.top)
        self.watching.raise_below(least + epsilon)
        out: Addressed = []
        for name, new in zip(names, allocation.sites, strict=True):
            site = roster.sites[name]
            out.append(self._order(site, set(objects), self.watching.lines[name], now, new))
        return out

    def everything(self, now: float) -> Addressed:
        """Watch every value that is not 0."""
        self.model.pushing_everything()
        self.watching.push_everything()
        self.sure = False
        out: Addressed = []
        for site in self.roster.members():
            out.append(self._order(site, set(), LINE_ALL, now))
        return out

    def _order(
        self,
        site: Site,
        objects: set[Object],
        line: int,
        now: float,
        factors: dict[Object, int] | None = None,
    ) -> tuple[str, Message]:
        site.watch(objects, line, factors)
        if self.roster.barrier:
            site.recall()
        return self.roster.send(site, now)

    def take(self, site: Site, push: Push, now: float) -> None:
        """Note what a site pushes."""
        if not site.watching or push.version != site.version:
            return
        site.acknowledge(push.version)
        if self.roster.barrier:
            site.learn(push.entries)
        else:
            site.pushes.take(push, now)

    def mend(self, now: float, patience: float) -> Addressed:
        """Let sites begin anew of which a push must have been lost."""
        return [
            self._order(site, set(), self.watching.lines[site.name], now)
            for site in self.roster.members()
            if site.watching and site.pushes.broken(now, patience)
        ]

    def judge(self, k: int, epsilon: int, as_of: int | None, now: float) -> Judged:
        """Judge the newest unit that all sites have pushed; T changes where it must."""
        roster, sites = self.roster, self.roster.taking_part()
        newest = self._newest(sites, as_of, now)
        if newest is None:
            return Judged()
        unit, values = newest
        verdict = self.watching.judge(values, sites, roster.own, k, roster.top, epsilon)
        self.sure = verdict.valid
        if not verdict.valid:
            # Once, even if the budget is empty: the sites then say what was saved, too.
            empty = not self.model.refused and self.model.budget.empty()
            if empty and self._overdrawn:
                return Judged(say=self.everything(now))
            self._overdrawn = empty
            say = self._look_closer(verdict.ask, verdict.height if verdict.lower else None, now)
            if say or self.model.refused:
                return Judged(say=say, lost=not say)
            # Lines at 0 prove nothing about objects that the coordinator's own factors favour.
            return Judged(say=self.everything(now))
        roster.set_top(verdict.top)
        for name, site in sites.items():
            site.reported = {a: values[name].get(a, 0) for a in verdict.top}
        if self.model.should_resolve():
            return Judged(unit, reports=self.watching.reports(values, sites, roster.top))
        if self.model.should_push_everything(len(sites)):
            self.model.push_everything()
            return Judged(unit, say=self.everything(now))
        return Judged(unit)

    def _newest(
        self, sites: dict[str, Site], as_of: int | None, now: float
    ) -> tuple[int, dict[str, dict[Object, int]]] | None:
        if self.roster.barrier:  # what was not pushed has not changed
            return int(now), {name: site.values for name, site in sites.items()}
        pushed = [site.pushes for site in sites.values()]
        since = [pushes.since for pushes in pushed if pushes.since is not None]
        unit = min((pushes.until for pushes in pushed if pushes.until is not None), default=0)
        known = self.sure and as_of is not None and unit <= as_of
        if len(since) < len(pushed) or unit < max(since, default=unit) or known:
            return None
        for site in sites.values():
            site.catch_up(unit)
        return unit, {name: site.values for name, site in sites.items()}

    def _look_closer(
        self, ask: dict[str, set[Object]], height: int | None, now: float
    ) -> Addressed:
        """Lower the lines, and let sites watch what they have not reported."""
        before = dict(self.watching.lines)
        if height is not None:
            self.watching.set_height(height)
        out: Addressed = []
        for name, site in self.roster.taking_part().items():
            more = ask.get(name, set())
            if more - site.watched or self.watching.lines[name] != before[name]:
                out.append(self._order(site, more, self.watching.lines[name], now))
        return out
