"""TPUT finds the exact totals of the first k, whatever the values."""

from __future__ import annotations

import numpy as np
import pytest

from muntin.topk.bootstrap import Ask, Survey
from muntin.topk.messages import Object, Reply


def reply(values: dict[Object, int], ask: Ask, site: str, limit: int) -> Reply:
    """What a site answers; at most `limit` objects beyond those named."""
    others = sorted((i for i in values if i not in ask.objects), key=lambda i: -values[i])
    chosen = others[: ask.more]
    if ask.at_least is not None:
        chosen += [i for i in others[ask.more :] if values[i] >= ask.at_least[site]]
    chosen = chosen[:limit]
    reported = {i: values.get(i, 0) for i in (*ask.objects, *chosen)}
    border = max([0, *(v for i, v in values.items() if i not in reported)])
    least = min([0, *values.values()])
    return Reply(1, 0, 1, 0, border, least, tuple(reported.items()))


def survey(sites: list[dict[Object, int]], k: int, limit: int = 10**6) -> tuple[dict, int]:
    machine, rounds = Survey(k), 0
    ask: Ask | None = Ask((), k)
    replies: dict[str, Reply] = {}
    while ask is not None:
        rounds += 1
        assert rounds < 40
        replies = {f"s{n}": reply(v, ask, f"s{n}", limit) for n, v in enumerate(sites)}
        ask = machine.receive(replies)
    known = [dict(r.entries) for r in replies.values()]
    common = set(known[0]).intersection(*known)
    return {item: sum(v[item] for v in known) for item in common}, rounds


@pytest.mark.parametrize("low", [0, -20])
def test_exact_on_random_instances(low: int) -> None:
    rng = np.random.default_rng(3)
    for _ in range(1500):
        sites, objects, k = rng.integers(1, 7), rng.integers(1, 30), int(rng.integers(1, 8))
        skew = rng.zipf(1.7, (sites, objects)).clip(0, 60)
        values = [
            {item: int(v) for item, v in enumerate(row) if v} for row in (skew + low * (skew < 2))
        ]
        found, rounds = survey(values, k)
        totals: dict[int, int] = {}
        for row in values:
            for item, value in row.items():
                totals[item] = totals.get(item, 0) + value
        best = sorted((v for v in totals.values() if v > 0), reverse=True)[:k]
        assert sorted((v for v in found.values() if v > 0), reverse=True)[:k] == best
        assert all(totals.get(item, 0) == value for item, value in found.items())
        assert low or rounds == 3


def test_three_rounds_on_zipf_and_few_entries() -> None:
    rng = np.random.default_rng(7)
    p = np.arange(1, 1001.0) ** -2
    counts = rng.multinomial(24_030, p / p.sum(), size=10)
    found, rounds = survey([dict(enumerate(row.tolist())) for row in counts], 10)
    assert rounds == 3
    best = sorted(counts.sum(0).tolist(), reverse=True)[:10]
    assert sorted(found.values(), reverse=True)[:10] == best


def test_replies_that_are_cut_short_are_seen_by_their_border() -> None:
    sites: list[dict[Object, int]] = [dict.fromkeys(range(50), 10), dict.fromkeys(range(50), 10)]
    found, rounds = survey(sites, 3, limit=20)
    assert rounds <= 10
    assert sorted(found.values(), reverse=True)[:3] == [20, 20, 20]
