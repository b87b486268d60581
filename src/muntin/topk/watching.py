"""While pushing costs less than resolving: sites push the contenders' values at every slide.

The contenders (T and the next largest) are watched at all sites, so their totals are exact and
T may change among them without a word to the sites. Every other object is at or below each site's
line (in adjusted values, as in `resolution`) or its site has pushed it too; so its total is at
most its known parts plus the lines of the other sites. As soon as such a bound exceeds the least
member, the sites that have not reported the object's value are asked to watch it as well; once
the lines together exceed the least member, they are lowered.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from muntin.topk.hybrid import CostModel
from muntin.topk.messages import LINE_ALL, Object
from muntin.topk.resolution import Report, Shares, choose_top
from muntin.topk.site import Site


@dataclass(frozen=True, slots=True)
class Verdict:
    """T by the pushed values; what to watch in addition, by site; whether T is proven.

    `lower`: the lines must come down, and add up to `height` best.
    """

    top: tuple[Object, ...]
    ask: dict[str, set[Object]]
    lower: bool
    valid: bool
    height: int


class Watching:
    """The lines of all sites, and what follows from the values pushed."""

    def __init__(self, lines: Mapping[str, int], own_line: int, model: CostModel) -> None:
        self.lines = dict(lines)
        self.own_line = own_line
        self.model = model
        self.everything = False
        self._totals: dict[Object, int] | None = None

    def push_everything(self) -> None:
        """All sites push all values that are not 0: no bounds are needed."""
        self.everything = True
        self.lines = dict.fromkeys(self.lines, LINE_ALL)

    def judge(
        self,
        values: Mapping[str, Mapping[Object, int]],
        sites: Mapping[str, Site],
        own: Mapping[Object, int],
        k: int,
        top: tuple[Object, ...],
        epsilon: int,
    ) -> Verdict:
        """What the values, of one unit at all sites, prove."""
        if self.everything:
            totals = self._add_up(sites)
            for item in top:  # one whose total fell to 0 stays until another has more
                totals.setdefault(item, 0)
            return Verdict(choose_top(k, top, totals, 0, epsilon), {}, False, True, 0)
        seen = dict.fromkeys(item for known in values.values() for item in known)
        exact = {
            item: sum(known[item] for known in values.values())
            for item in seen
            if all(item in known for known in values.values())
        }
        top = choose_top(k, top, exact, 0, epsilon)
        enough = min(exact.get(item, 0) for item in top) + epsilon
        ask: dict[str, set[Object]] = {}
        bounds: dict[Object, tuple[int, list[str]]] = {}
        for item in (item for item in seen if item not in exact):
            bound = own.get(item, 0)
            lacking = []
            for name, known in values.items():
                if item in known:
                    bound += known[item] + sites[name].factors.get(item, 0)
                else:
                    bound += self.lines[name]
                    lacking.append(name)
            bounds[item] = bound, lacking
        lower = self.height > enough
        if any(bound > enough for bound, _ in bounds.values()):
            close = enough - int((enough - self.height) * self.model.eagerness)
            for item, (bound, lacking) in bounds.items():
                if bound > min(close, enough):
                    for name in lacking:
                        ask.setdefault(name, set()).add(item)
        runners_up = sorted(exact.values(), reverse=True)[: k + self.model.runners_up]
        height = self._between(min(runners_up, default=0), enough - 1)
        return Verdict(top, ask, lower, not ask and not lower, height)

    def _add_up(self, sites: Mapping[str, Site]) -> dict[Object, int]:
        """Totals of all objects: added up once, then kept in line with what moves."""
        first = self._totals is None
        totals = {} if self._totals is None else self._totals
        for site in sites.values():
            moved = site.what_moved()
            for item, by in (site.memory if first else moved).items():
                total = totals.get(item, 0) + by
                if total:
                    totals[item] = total
                else:
                    totals.pop(item, None)
        self._totals = totals
        return totals

    @property
    def height(self) -> int:
        """What an object that nobody has reported can have in total, at most."""
        return self.own_line + sum(self.lines.values())

    def raise_below(self, least: int) -> None:
        """Raise the lines towards the least member's total."""
        self.set_height(max(self.height, self._between(self.height, least)))

    def _between(self, low: int, high: int) -> int:
        return low + int((high - low) * self.model.closeness)

    def set_height(self, height: int) -> None:
        """Move the lines, to no less than 0 each, so that they add up to `height` or less."""
        names = list(self.lines)
        while names and (spare := self.height - max(0, height)):
            for name, part in zip(names, Shares([1] * len(names))(spare), strict=True):
                self.lines[name] = max(0, self.lines[name] - part)
            names = [name for name in names if self.lines[name] > 0] if spare > 0 else []

    def reports(
        self,
        values: Mapping[str, Mapping[Object, int]],
        sites: Mapping[str, Site],
        top: tuple[Object, ...],
    ) -> dict[str, Report]:
        """The values as reports of a resolution: the line is the border.

        Where everything was pushed, T and what exceeds its least member at the site.
        """
        if not self.everything:
            return {name: Report(dict(known), self.lines[name]) for name, known in values.items()}
        found = {}
        for name, known in values.items():
            factors = sites[name].factors
            all_values = {**dict.fromkeys((*top, *factors), 0), **known}
            adjusted = {item: v + factors.get(item, 0) for item, v in all_values.items()}
            least = min(adjusted[item] for item in top)
            listed = {i: v for i, v in all_values.items() if i in top or adjusted[i] > least}
            rest = [a for item, a in adjusted.items() if item not in listed]
            found[name] = Report(listed, max([0, *rest]))
        return found
