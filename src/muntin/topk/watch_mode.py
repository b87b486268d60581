"""While pushing costs less than resolving: sites push the contenders' values at every slide.

The contenders (T and the next largest) are watched at all sites, so their totals are exact and
T may change among them without a word to the sites. Every other object is at or below each site's
line (in adjusted values, as in `resolution`) or its site has pushed it too; so its total is at
most its known parts plus the lines of the other sites. As soon as such a bound exceeds the least
member, the sites that have not reported the object's value are asked to watch it as well; once
the lines together exceed the least member, they are lowered.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from muntin.topk.hybrid import CostModel
from muntin.topk.membership import Addressed, Membership
from muntin.topk.messages import LINE_ALL, Message, Object, Push
from muntin.topk.resolution import Allocation, Report, choose_top, shares
from muntin.topk.site import SiteState, put


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
    """From the moment that sites are asked to push until they get factors again.

    `everything`: they push all values that are not 0, and no bounds are needed.
    `sure`: the last values judged prove T.
    """

    def __init__(self, membership: Membership, model: CostModel) -> None:
        self.membership, self.model = membership, model
        self.everything = self.sure = False
        self._lines = dict.fromkeys(membership.members(), 0)
        self._own_line = 0
        self._totals: dict[Object, int] | None = None
        self._overdrawn = False  # looked closer although the budget was empty
        model.pushed()

    def contenders(
        self, objects: tuple[Object, ...], allocation: Allocation, epsilon: int, now: float
    ) -> Addressed:
        """Watch these objects, and all that exceed the lines of the allocation."""
        membership = self.membership
        put(membership.own, allocation.coordinator)
        sites = membership.members()
        self._own_line, *lines = allocation.lines
        self._lines = dict(zip(sites, lines, strict=True))
        least = min(sum(s.reported[item] for s in sites.values()) for item in membership.top)
        self._set_height(max(self._height, self._between(self._height, least + epsilon)))
        factors = zip(sites.values(), allocation.sites, strict=True)
        return [self._order(site, now, set(objects), new) for site, new in factors]

    def push_everything(self, now: float) -> Addressed:
        """Watch every value that is not 0."""
        self.model.all_pushed = self.everything = True
        self.sure = False
        self._lines = dict.fromkeys(self._lines, LINE_ALL)
        return [self._order(site, now) for site in self.membership.members().values()]

    def _order(
        self,
        site: SiteState,
        now: float,
        objects: AbstractSet[Object] = frozenset(),
        factors: dict[Object, int] | None = None,
    ) -> tuple[str, Message]:
        site.watch(objects, self._lines[site.name], factors)
        if self.membership.barrier:
            site.recall()
        return self.membership.send(site, now)

    def take(self, site: SiteState, push: Push, now: float) -> None:
        """Note what a site pushes."""
        if not site.watching or push.version != site.version:
            return
        site.acknowledge(push.version)
        if self.membership.barrier:
            site.learn(push.entries)
        else:
            site.pushes.take(push, now)

    def mend(self, now: float, patience: float) -> Addressed:
        """Let sites begin anew of which a push must have been lost."""
        return [
            self._order(site, now)
            for site in self.membership.members().values()
            if site.watching and site.pushes.broken(now, patience)
        ]

    def judge(self, k: int, epsilon: int, as_of: int | None, now: float) -> Judged:
        """Judge the newest unit that all sites have pushed; T changes where it must."""
        membership, sites = self.membership, self.membership.members()
        unit = self._newest(sites, as_of, now)
        if unit is None:
            return Judged()
        top, ask, height = self._proven(sites, k, epsilon)
        self.sure = not ask and height is None
        if not self.sure:
            # Once, even if the budget is empty: the sites then say what was saved, too.
            empty = not self.model.refused and self.model.budget.empty()
            if empty and self._overdrawn:
                return Judged(say=self.push_everything(now))
            self._overdrawn = empty
            say = self._look_closer(ask, height, now)
            if say or self.model.refused:
                return Judged(say=say, lost=not say)
            # Lines at 0 prove nothing about objects that the coordinator's own factors favour.
            return Judged(say=self.push_everything(now))
        membership.set_top(top)
        for site in sites.values():
            site.reported = {a: site.values.get(a, 0) for a in top}
        if self.model.should_resolve():
            return Judged(unit, reports={name: self._report(site) for name, site in sites.items()})
        if self.model.should_push_everything(len(sites)):
            self.model.push_everything()
            return Judged(unit, say=self.push_everything(now))
        return Judged(unit)

    def _newest(self, sites: Mapping[str, SiteState], as_of: int | None, now: float) -> int | None:
        """The newest unit of which the sites' values are known; None where it was judged."""
        if self.membership.barrier:  # what was not pushed has not changed
            return int(now)
        pushed = [site.pushes for site in sites.values()]
        since = [pushes.since for pushes in pushed if pushes.since is not None]
        unit = min((pushes.until for pushes in pushed if pushes.until is not None), default=0)
        if len(since) < len(pushed) or unit < max(since, default=unit):
            return None
        told = [site.catch_up(unit) for site in sites.values()]  # late events tell a unit again
        known = self.sure and as_of is not None and unit <= as_of and not any(told)
        return None if known else unit

    def _proven(
        self, sites: Mapping[str, SiteState], k: int, epsilon: int
    ) -> tuple[tuple[Object, ...], dict[str, set[Object]], int | None]:
        """T by the values pushed, and what it lacks to be proven. That is what sites must watch in
        addition, and the height to which the lines must come down."""
        top = self.membership.top
        if self.everything:
            totals = self._add_up(sites)
            for item in top:  # one whose total fell to 0 stays until another has more
                totals.setdefault(item, 0)
            return choose_top(k, top, totals, 0, epsilon), {}, None
        values = [site.values for site in sites.values()]
        seen = dict.fromkeys(item for known in values for item in known)
        exact = {
            item: sum(known[item] for known in values)
            for item in seen
            if all(item in known for known in values)
        }
        top = choose_top(k, top, exact, 0, epsilon)
        enough = min(exact.get(item, 0) for item in top) + epsilon
        ask: dict[str, set[Object]] = {}
        bounds: dict[Object, tuple[int, list[str]]] = {}
        for item in (item for item in seen if item not in exact):
            bound = self.membership.own.get(item, 0)
            lacking = []
            for name, site in sites.items():
                if item in site.values:
                    bound += site.values[item] + site.factors.get(item, 0)
                else:
                    bound += self._lines[name]
                    lacking.append(name)
            bounds[item] = bound, lacking
        if any(bound > enough for bound, _ in bounds.values()):
            close = enough - int((enough - self._height) * self.model.eagerness)
            for item, (bound, lacking) in bounds.items():
                if bound > min(close, enough):
                    for name in lacking:
                        ask.setdefault(name, set()).add(item)
        if self._height <= enough:
            return top, ask, None
        runners_up = sorted(exact.values(), reverse=True)[: k + self.model.runners_up]
        return top, ask, self._between(min(runners_up, default=0), enough - 1)

    def _add_up(self, sites: Mapping[str, SiteState]) -> dict[Object, int]:
        """Totals of all objects: added up once, then kept in line with what moves."""
        first = self._totals is None
        totals = {} if self._totals is None else self._totals
        for site in sites.values():
            moved, site.moved = site.moved, {}
            for item, by in (site.memory if first else moved).items():
                total = totals.get(item, 0) + by
                if total:
                    totals[item] = total
                else:
                    totals.pop(item, None)
        self._totals = totals
        return totals

    def _look_closer(
        self, ask: Mapping[str, set[Object]], height: int | None, now: float
    ) -> Addressed:
        """Lower the lines, and let sites watch what they have not reported."""
        before = dict(self._lines)
        if height is not None:
            self._set_height(height)
        sites = self.membership.members()
        if not all(sites[name].can_take(set(), objects) for name, objects in ask.items()):
            return []
        return [
            self._order(site, now, ask.get(name, set()))
            for name, site in sites.items()
            if ask.get(name, set()) - site.watched or self._lines[name] != before[name]
        ]

    @property
    def _height(self) -> int:
        """What an object that nobody has reported can have in total, at most."""
        return self._own_line + sum(self._lines.values())

    def _between(self, low: int, high: int) -> int:
        return low + int((high - low) * self.model.closeness)

    def _set_height(self, height: int) -> None:
        """Move the lines, to no less than 0 each, so that they add up to `height` or less."""
        names = list(self._lines)
        while names and (spare := self._height - max(0, height)):
            for name, part in zip(names, shares(spare, [1] * len(names)), strict=True):
                self._lines[name] = max(0, self._lines[name] - part)
            names = [name for name in names if self._lines[name] > 0] if spare > 0 else []

    def _report(self, site: SiteState) -> Report:
        """The site's values as the report of a resolution: the line is the border. Where everything
        was pushed, T and what exceeds its least member at the site."""
        if not self.everything:
            return Report(dict(site.values), self._lines[site.name])
        top, factors = self.membership.top, site.factors
        values = {**dict.fromkeys((*top, *factors), 0), **site.values}
        adjusted = {item: v + factors.get(item, 0) for item, v in values.items()}
        least = min(adjusted[item] for item in top)
        listed = {i: v for i, v in values.items() if i in top or adjusted[i] > least}
        return Report(listed, max([0, *(a for i, a in adjusted.items() if i not in listed)]))
