"""One resolution: from the reports at hand to new factors, or whom to ask for what."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from muntin.topk.bootstrap import Ask
from muntin.topk.expectation import by_expectation, expected_values, reserve_needed
from muntin.topk.membership import Membership
from muntin.topk.messages import NOTHING, Object, order
from muntin.topk.policy import Policy, share_weights
from muntin.topk.resolution import Allocation, Report, allocate, choose_top, common, slacks


def _gap(top: tuple[Object, ...], report: Report) -> int:
    """By how much the least member exceeds all others at a site without factors."""
    inside = set(top)
    others = [value for item, value in report.values.items() if item not in inside]
    return min(report.values[item] for item in top) - max([report.border, *others])


MORE_FIRST = 16  # objects a site adds when the certificate fails; doubled each time


@dataclass(frozen=True, slots=True)
class AskSites:
    """What to ask these sites."""

    sites: list[str]
    ask: Ask


@dataclass(frozen=True, slots=True)
class Resolved:
    """New factors for the coordinator and the sites named; `everyone`: all sites took part."""

    top: tuple[Object, ...]
    sites: list[str]
    allocation: Allocation
    everyone: bool


class Round:
    """Collects reports until they suffice.

    First among the sites that alerted (partial resolution); then, with a progressive policy, a
    few more, then twice as many ...; at last among all (global resolution), where T may change.
    The certificate is the resolution's own: if the least slack of a member is negative, or an
    outsider has more, objects are missing, and the sites are asked for their next largest.
    """

    def __init__(
        self,
        k: int,
        epsilon: int,
        policy: Policy,
        membership: Membership,
        reports: dict[str, Report],
    ) -> None:
        self.k, self.epsilon, self.policy, self.membership = k, epsilon, policy, membership
        self.reports = reports
        self.everyone = False  # ask all at once
        self._asked = 0
        self._more = 0
        self._wanted: set[Object] = set()  # when more were asked for

    def step(self) -> AskSites | Resolved | None:
        """What follows from the reports; None: objects are missing, and no message holds more."""
        sites, own, top = self.membership.members(), self.membership.own, self.membership.top
        names = [name for name in sites if name in self.reports]
        reports, factors = self._told(names)
        everyone = len(names) == len(sites)
        fresh = everyone and not own and not any(site.version for site in sites.values())
        keep = self.policy.partial
        if everyone:
            slack, nothing = self._slack(names)
            top = choose_top(self.k, top, slack, nothing, self.epsilon)
            if NOTHING in top:  # every site's value of it is known without asking
                reports = [
                    Report({**report.values, NOTHING: 0}, report.border) for report in reports
                ]
                slack[NOTHING] = nothing
            keep = self.policy.coordinator
            if keep is None:
                keep = self._reserve(top, slack, reports)
        spread = None
        if self.policy.anticipate:
            if everyone:
                for name, likely in zip(names, expected_values(reports), strict=True):
                    sites[name].expected = likely
            spread = by_expectation(reports, [sites[name].expected for name in names], keep)
        weights = share_weights(keep, len(names))
        allocation = allocate(top, reports, factors, own, weights, self.epsilon, spread)
        if allocation and fresh and (keep < 1 or not self.policy.anticipate):
            enough = int(self.policy.leave * allocation.gap) // len(names)
            if all(_gap(top, report) >= enough for report in reports):
                none: list[dict[Object, int]] = [{} for _ in names]
                allocation = replace(allocation, coordinator={}, sites=none)
        if allocation is not None and (everyone or not self.everyone):
            return Resolved(top, names, allocation, everyone)
        return self._ask(everyone)

    def _reserve(
        self, top: tuple[Object, ...], slack: Mapping[Object, int], reports: list[Report]
    ) -> float:
        member = min(top, key=lambda item: slack[item])
        outside = max((i for i in slack if i not in top), key=lambda i: slack[i], default=None)
        if outside is None:
            return 1.0
        return reserve_needed(
            slack[member] + self.epsilon - slack[outside],
            [report.values[member] for report in reports],
            [report.values[outside] for report in reports],
        )

    def _ask(self, everyone: bool) -> AskSites | None:
        sites = self.membership.members()
        wanted = {item for report in self.reports.values() for item in report.values}
        told = everyone and all(self._covers(name, wanted) for name in sites)
        if told and any(NOTHING in site.factors for site in sites.values()):
            wanted.add(NOTHING)  # a border may be its factor, from when it was in T
        ask = Ask(tuple(sorted(wanted, key=order)))
        if not everyone:
            if self.everyone:
                return AskSites([n for n in sites if not self._covers(n, wanted)], ask)
            if not self.policy.progressive:
                return AskSites(list(sites), ask)
            # The sites whose slack was drawn longest ago are likely to have most of it left.
            others = [name for name in sites if name not in self.reports]
            others.sort(key=lambda name: sites[name].resolved)
            self._asked = max(1, 2 * self._asked)
            if 2 * self._asked >= len(others):
                self._asked = len(others)
            return AskSites(others[: self._asked], ask)
        lacking = [name for name in sites if not self._covers(name, wanted)]
        if lacking and not self._more:
            return AskSites(lacking, ask)
        if wanted == self._wanted:  # the last question brought none
            return None
        self._wanted = wanted
        self._more = max(MORE_FIRST, 2 * self._more)
        return AskSites(list(sites), replace(ask, more=self._more))

    def _covers(self, name: str, wanted: set[Object]) -> bool:
        return name in self.reports and wanted <= self.reports[name].values.keys()

    def _told(self, names: list[str]) -> tuple[list[Report], list[dict[Object, int]]]:
        """Reports of these sites, and the factors that they hold."""
        sites = self.membership.sites
        return [self.reports[name] for name in names], [sites[name].factors for name in names]

    def _slack(self, names: list[str]) -> tuple[dict[Object, int], int]:
        """Slack of what all told, and of an object that nobody has: totals less a constant."""
        reports, factors = self._told(names)
        slack, borders = slacks(common(reports), reports, factors, self.membership.own)
        return slack, -sum(borders)

    def contenders(
        self, top: tuple[Object, ...], more: int
    ) -> tuple[tuple[Object, ...], Allocation] | None:
        """T and the next largest, with factors that put them above every site's line. None where
        the reports do not tell enough to draw such lines."""
        sites = self.membership.members()
        names = list(sites)
        reports, factors = self._told(names)
        slack, nothing = self._slack(names)
        if NOTHING in top or not all(item in slack for item in top):
            return None
        others = [i for i in slack if i not in top and i != NOTHING and slack[i] > max(nothing, 0)]
        others.sort(key=lambda item: (-slack[item], order(item)))
        least = min(slack[item] for item in top)  # epsilon may leave larger ones outside
        above = sum(slack[item] >= least for item in others)
        chosen = (*top, *others[: above + more])
        expected = [sites[name].expected for name in names]
        spread = by_expectation(reports, expected, 0)
        weights = share_weights(0, len(names))
        allocation = allocate(
            chosen, reports, factors, self.membership.own, weights, self.epsilon, spread
        )
        return None if allocation is None else (chosen, allocation)
