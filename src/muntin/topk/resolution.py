"""The mathematics of a resolution: who gets how much of the slack. Exact, in integers.

Every site j keeps for T (the answer) and all others the local constraint
``C[a,j] + d[a,j] >= C[b,j] + d[b,j]``; the coordinator (no counts) keeps ``d[a,0] + epsilon >=
d[b,0]``; and the factors d of one object sum to zero. Added up, these make T valid.

A resolution takes the reports of some sites and gives new factors to them and the coordinator.
With border P[j] = the largest adjusted value that site j did not report, the slack of object i is
``S[i] = sum (C[i,j] + d[i,j] - P[j])`` over the participants that reported it, plus epsilon for a
member. Each participant draws a line ``P[j] + y[j]`` with sum y = the least slack of a member;
members go on or above the line and all others on or below it.

Source: Babcock & Olston, SIGMOD 2003, section 3; Chen, Lv, Yu & Liu, Data Science and Engineering
2 (2017), section 4. Its resolution set (T and each local top-k) is not enough: T and *all* that
exceed a member locally must be reported, or the least slack is negative, which is checked here.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from muntin.topk.messages import NOTHING, Object, order


@dataclass(frozen=True, slots=True)
class Report:
    """What one site said: values by object, and the border that nothing unlisted exceeds."""

    values: Mapping[Object, int]
    border: int


@dataclass(frozen=True, slots=True)
class Allocation:
    """New factors: for the coordinator, and for each site in the order of the reports.

    `gap` is the distance between the least member and the largest object outside, over all
    participants. `lines` is the adjusted value that divides members from all others at each
    participant, the coordinator first.
    """

    coordinator: dict[Object, int]
    sites: list[dict[Object, int]]
    gap: int
    lines: list[int]


Spread = Callable[[Object, list[int], int, int], list[int]]


def shares(whole: int, weights: Sequence[int]) -> list[int]:
    """An integer split by integer weights (where all are 0, evenly): exact, each share monotone.

    Share l of p is ``(S + l) // p`` (Hermite's identity); a participant of weight w owns w
    consecutive l. Because each share is monotone in S, S[a] >= S[b] gives a at least as much as b
    at every participant, which a split by floor and remainder does not.
    """
    if not weights or min(weights) < 0:
        raise ValueError(f"weights must be some, and >= 0, got {list(weights)}")
    weights = weights if any(weights) else [1] * len(weights)
    ends = list(accumulate(weights))
    quotient, rest = divmod(whole, ends[-1])
    first = ends[-1] - rest  # shares from here on hold one more
    return [
        quotient * weight + max(0, end - max(end - weight, first))
        for weight, end in zip(weights, ends, strict=True)
    ]


def common(reports: Sequence[Report]) -> list[Object]:
    """Objects that all reports tell, in the order of the first: never that of a hash."""
    first, *others = reports
    return [item for item in first.values if all(item in report.values for report in others)]


def slacks(
    objects: Iterable[Object],
    reports: Sequence[Report],
    factors: Sequence[Mapping[Object, int]],
    own: Mapping[Object, int],
) -> tuple[dict[Object, int], list[int]]:
    """S[i] over the coordinator and the sites that reported i (without epsilon), and the borders.

    The coordinator's, the first, is its largest factor outside the reported objects; those unheard
    of have 0.
    """
    told = {item for report in reports for item in report.values}
    borders = [max(0, *(d for item, d in own.items() if item not in told), 0)]
    borders += [report.border for report in reports]
    found: dict[Object, int] = {}
    for item in objects:
        slack = own.get(item, 0) - borders[0]
        for report, factor in zip(reports, factors, strict=True):
            value = report.values.get(item)
            if value is not None:
                slack += value + factor.get(item, 0) - report.border
        found[item] = slack
    return found, borders


def choose_top(
    k: int, old: Sequence[Object], slack: Mapping[Object, int], nothing: int, epsilon: int
) -> tuple[Object, ...]:
    """T: the old one if it is still right within epsilon, else the k largest.

    `slack` is that of the candidates, `nothing` that of an object that nobody has. With fewer
    than k candidates above it, `NOTHING` is a member. Ties go to old members, then by order.
    """
    before = [item for item in old if item != NOTHING]
    inside = set(before)
    whole = len(before) == k or (len(before) < k and len(before) < len(old))
    if whole and all(item in slack for item in before):
        least = min([slack[item] for item in before] + [nothing] * (len(before) < k))
        most = max((s for item, s in slack.items() if item not in inside), default=nothing)
        if least + epsilon >= max(most, nothing):
            return (*before, *([NOTHING] if len(before) < k else []))  # k may have changed
    above = [item for item, s in slack.items() if s > nothing and item != NOTHING]
    above.sort(key=lambda item: (-slack[item], item not in inside, order(item)))
    return (*above[:k], NOTHING) if len(above) < k else tuple(above[:k])


def allocate(
    top: Iterable[Object],
    reports: Sequence[Report],
    factors: Sequence[Mapping[Object, int]],
    own: Mapping[Object, int],
    weights: Sequence[int],
    epsilon: int = 0,
    spread: Spread | None = None,
) -> Allocation | None:
    """New factors that make every constraint of the participants hold; None where none exist.

    `top`: the members of T, each in every report.
    `reports`: one Report a participating site
    `factors`: revision factors that the site holds; absent means 0.
    `own`: the coordinator's factors.
    `weights` (int[1 + sites]): how slack is shared, the coordinator first.
    `epsilon`: tolerance of the answer, in units of the values.
    `spread`: who gets an object's distance from the line: called with the object, the participants
      (0 is the coordinator), the distance (>= 0) and the side (1 above, -1 below), returns their
      parts (>= 0). By default by weight, and the line goes through the least member; with it, half
      way between that and the largest outside.

    Notes
    -----
    An answer exists exactly if 0 <= the least slack of a member, and no other object has more.
    An object that a site did not report keeps its factor there: it stays below the border.
    Cost O(objects x sites).
    """
    members = list(top)
    inside = set(members)
    reported: dict[Object, None] = dict.fromkeys(members)
    for report in reports:
        reported.update(dict.fromkeys(report.values))
    slack, borders = slacks(reported, reports, factors, own)
    for item in members:
        slack[item] += epsilon
    least = min(slack[item] for item in members)
    outside = [item for item in reported if item not in inside]
    most = max((slack[item] for item in outside), default=-1)
    if least < 0 or most > least:
        return None

    takers = {
        item: [0, *(n for n, report in enumerate(reports, 1) if item in report.values)]
        for item in reported
    }
    everyone = list(range(len(reports) + 1))
    height = least if spread is None or not outside else least - (least - max(most, 0)) // 2
    line = _line(height, weights, [(takers[b], slack[b]) for b in outside])
    lines = [border + y for border, y in zip(borders, line, strict=True)]
    before = [own, *factors]
    result: list[dict[Object, int]] = [{} for _ in everyone]
    spread = spread or by_weight(weights)
    for item in reported:
        who = takers[item]
        if item in inside:
            sign = 1
            parts = spread(item, who, slack[item] - height, sign)
        else:
            sign = -1
            parts = spread(item, who, sum(line[n] for n in who) - slack[item], sign)
        for n, part in zip(who, parts, strict=True):
            value = reports[n - 1].values[item] if n else 0
            new = borders[n] - value + line[n] + sign * part
            if n == 0 and item in inside:
                new -= epsilon
            if new != before[n].get(item, 0):
                result[n][item] = new
    return Allocation(result[0], result[1:], least - max(most, 0), lines)


def by_weight(weights: Sequence[int]) -> Spread:
    """Every object's distance is shared by the same weights."""

    def spread(_item: Object, who: list[int], amount: int, _side: int) -> list[int]:
        return shares(amount, [weights[n] for n in who])

    return spread


def _line(least: int, weights: Sequence[int], needs: Sequence[tuple[list[int], int]]) -> list[int]:
    """y: sums to `least`, and for each (takers, slack) the takers' y sum to at least the slack.

    By weight where that does; else the coordinator, which is among all takers, gets as much as
    is needed. Raising y[0] by one lowers the others together by one, so bisection finds it.
    """
    line = shares(least, weights)
    partly = [(who, slack) for who, slack in needs if len(who) < len(weights)]

    def contents(now: list[int]) -> bool:
        return all(sum(now[n] for n in who) >= slack for who, slack in partly)

    if contents(line):
        return line
    others = weights[1:]
    low, high = 0, least  # at `least` the coordinator alone has enough for every need
    while low < high:
        middle = (low + high) // 2
        if contents([middle, *shares(least - middle, others)]):
            high = middle
        else:
            low = middle + 1
    return [high, *shares(least - high, others)]
