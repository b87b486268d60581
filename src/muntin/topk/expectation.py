"""Sharing slack by how each object's value at each site is expected to move.

A window's count that is high by chance falls back within a window's length, and a count c moves
by about sqrt(c). So a site keeps what it has above its expectation (it is about to lose it), and
the rest is shared in proportion to the square roots.

The expectation comes from the values that a resolution among all sites sees. If sites differed
in size only, object i would have ``e[i,j] = C[i] * share[j]`` at site j. Where the values scatter
about that no more than Poisson counts do, the scatter is chance, and e is expected; where they
scatter more (an object belongs to some sites), the values themselves are: in between, in the
proportion (m - 1) / chi2[i] (James & Stein's shrinkage).
"""

from collections.abc import Mapping, Sequence
from math import erfc, isqrt, sqrt

from muntin.topk.messages import Object
from muntin.topk.resolution import Report, Spread, common

RESERVE_MAX = 2.0  # sites' worth; measured: more only causes alerts


def expected_values(reports: Sequence[Report]) -> list[dict[Object, int]]:
    """Expected value of each object that all sites reported, one mapping a report."""
    m = len(reports)
    values = {item: [report.values[item] for report in reports] for item in common(reports)}
    sums = [sum(max(0, v[j]) for v in values.values()) for j in range(m)]
    whole = sum(sums)
    expected: list[dict[Object, int]] = [{} for _ in reports]
    if not whole:
        return expected
    for item, found in values.items():
        total = sum(found)
        if min(found) < 0 or total == 0:
            continue
        even = [total * part // whole for part in sums]
        chi2 = sum((v - e) ** 2 / max(1, e) for v, e in zip(found, even, strict=True))
        shrink = min(1.0, (m - 1) / chi2) if chi2 > 0 else 1.0
        for j in range(m):
            expected[j][item] = found[j] + round(shrink * (even[j] - found[j]))
    return expected


def reserve_needed(gap: int, member: Sequence[int], outside: Sequence[int]) -> float:
    """What the coordinator should keep, in sites' worth, from what sites are expected to need.

    `gap` is the distance between the least member and the largest object outside, which have these
    values at the sites. A site's part g of it meets a difference that moves, over a window, by
    s = sqrt(2 (a + b)) (two Poisson counts, now and then). With nothing kept, a site alerts with
    probability 2 Phi(-g / s), and then wants some 0.7 s more.
    """
    sites = len(member)
    moves = sqrt(2 * max(1, sum(member) + sum(outside)) / sites)
    part = max(gap / sites, moves / 8)
    alerts = sites * erfc(part / moves / sqrt(2))
    return min(RESERVE_MAX, 0.7 * alerts * moves / part)


def by_expectation(
    reports: Sequence[Report], expected: Sequence[Mapping[Object, int]], reserve: float
) -> Spread:
    """Share the distance from the line by what each site is expected to gain or lose. `reserve` is
    what the coordinator keeps, in participants' worth."""

    def spread(item: Object, who: list[int], amount: int, side: int) -> list[int]:
        sites = [n for n in who if n]
        if not sites:
            return [amount]
        excess, likely = [], []
        for n in sites:
            value = reports[n - 1].values[item]
            hoped = expected[n - 1].get(item, value)
            excess.append(side * (value - hoped) * 3 // 4)  # not all of it returns in a window
            likely.append(max(0, hoped))
        mean = sum(likely) // len(likely)  # others move there as well, where this object does not
        weights = [isqrt(128 * (one + mean)) + 1 for one in likely]
        own = round(reserve * sum(weights) / len(weights))
        return fill(amount, [0, *excess], [own, *weights])

    return spread


def fill(amount: int, heads: Sequence[int], weights: Sequence[int]) -> list[int]:
    """Parts ``max(0, head + level * weight)`` of one level, integers that sum to `amount`."""
    active = [n for n, weight in enumerate(weights) if weight > 0]
    while True:
        rest = amount - sum(heads[n] for n in active)
        total = sum(weights[n] for n in active)
        low = [n for n in active if heads[n] * total + rest * weights[n] < 0]
        if not low or len(low) == len(active):
            break
        active = [n for n in active if n not in low]
    parts = [0] * len(weights)
    for n in active:
        parts[n] = heads[n] + rest * weights[n] // total
    left = amount - sum(parts)
    for n in active[:left]:
        parts[n] += 1
    return parts
