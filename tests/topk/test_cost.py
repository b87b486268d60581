"""What the hybrid protocol costs at most, on streams made to make it dear."""

from __future__ import annotations

import numpy as np
import pytest
from faulty import Faults, faulty_run
from hostile_streams import STREAMS

from muntin.topk import simulate

SURVEYS = 3  # the docs: 1.05 naive (1.2 messages), two surveys, and one as the overdraft


@pytest.mark.parametrize("objective", ["bytes", "messages"])
@pytest.mark.parametrize("stream", STREAMS)
def test_never_much_more_than_naive(stream: str, objective: str) -> None:
    for seed, (sites, k, length, windows) in enumerate(
        [(8, 10, 20, 80), (3, 4, 40, 120), (1, 1, 5, 60), (5, 30, 10, 50)]
    ):
        rng = np.random.default_rng(seed)
        counts = STREAMS[stream](rng, length + windows, sites, 120)
        options = {"k": k, "window": length, "unit": 1, "windows": windows}
        naive = simulate(counts, policy="naive", **options)
        ours = simulate(counts, policy="hybrid", objective=objective, **options)
        assert ours.invalid == ours.unsure == 0
        what = objective
        spent = ours.bootstrap[what] + np.cumsum(ours.series[what])
        pushed = naive.bootstrap[what] + np.cumsum(naive.series[what])
        share = 1.05 if objective == "bytes" else 1.2
        over = (spent - share * pushed) / ours.bootstrap[what]
        assert over.max() <= SURVEYS


def test_a_slide_may_overdraw_what_sites_hold_by_then_and_not_more() -> None:
    counts = np.zeros((20, 3, 1001), np.int64)
    counts[:10, :, 0] = 10
    counts[10, :, 1:] = 9  # far more than at the first survey
    counts[11, :, 0] = -100  # all of it exceeds the one member, that falls
    options = {"k": 1, "window": 10, "unit": 1}
    naive = simulate(counts, policy="naive", windows=9, **options)
    ours = simulate(counts, policy="hybrid", windows=9, **options)
    held = simulate(counts[1:], policy="naive", windows=8, **options).bootstrap["bytes"]
    pushed = naive.bootstrap["bytes"] + np.cumsum(naive.series["bytes"])
    spent = ours.bootstrap["bytes"] + np.cumsum(ours.series["bytes"])
    over = (spent - 1.05 * pushed).max()
    assert over > SURVEYS * ours.bootstrap["bytes"]
    assert over <= 2 * ours.bootstrap["bytes"] + held


@pytest.mark.parametrize("stream", STREAMS)
def test_nor_between_sites_that_do_not_wait_for_each_other(stream: str) -> None:
    steady = Faults(lose=0, repeat=0, delay=0.1, crash=0, freeze=0, restart=0)
    for seed, (sites, k, length, windows) in enumerate([(8, 10, 20, 80), (3, 4, 40, 120)]):
        rng = np.random.default_rng(seed)
        counts = STREAMS[stream](rng, length + windows, sites, 120)
        options = {"k": k, "window": length, "unit": 1, "windows": windows}
        naive = simulate(counts, policy="naive", **options)
        survey = simulate(counts, policy="hybrid", **options).bootstrap["bytes"]
        ours = faulty_run(counts, length, "hybrid", steady, k=k).run(windows)
        assert ours.invalid == 0
        assert ours.unsure < windows / 2
        spent = np.cumsum(ours.series["bytes"]).astype(float)
        signs_of_life = 20 * sites * (1 + np.arange(windows) / 6)
        pushed = naive.bootstrap["bytes"] + np.cumsum(naive.series["bytes"])
        over = (spent - signs_of_life - 1.05 * pushed - naive.bootstrap["bytes"]) / survey
        assert over.max() <= SURVEYS
