"""Simulated runs in which everything goes wrong: no answer that claims to be valid is not."""

from __future__ import annotations

import os

import numpy as np
import pytest
from faulty import Faults, faulty_run

RUNS = 500
LONG_FIRST = int(os.environ.get("MUNTIN_TOPK_FAULT_FIRST", RUNS))
LONG_RUNS = int(os.environ.get("MUNTIN_TOPK_FAULT_RUNS", 20_000 - RUNS))
WINDOWS = 24


def faulty(run: int) -> int:
    """How many of a run's answers claim to be valid, none of them wrongly."""
    rng = np.random.default_rng(run)
    sites, objects = int(rng.integers(1, 5)), int(rng.integers(3, 10))
    rate = rng.gamma(1, 4, size=(1, sites, objects)) + np.arange(objects) ** 2 % 7
    counts = rng.poisson(rate, size=(WINDOWS + 12, sites, objects))
    k, epsilon = int(rng.integers(1, 4)), int(rng.choice([0, 0, 10]))
    policy = str(rng.choice(["resolution", "hybrid", "even", "lsa"]))
    objective = str(rng.choice(["bytes", "messages"]))
    heartbeat = int(rng.integers(1, 5))
    faults = Faults(
        lose=float(rng.choice([0, 0.05, 0.3])),
        repeat=float(rng.choice([0, 0.2])),
        delay=float(rng.choice([0.1, 0.3, 2])),
        crash=float(rng.choice([0, 0.02])),
        freeze=float(rng.choice([0, 0.02])),
        outage=float(rng.choice([3, 30])),
        restart=float(rng.choice([0, 0.03])),
    )
    made = faulty_run(counts, 12, policy, faults, objective, k, epsilon, heartbeat, run)
    found = made.run(WINDOWS)
    assert found.invalid == 0, run
    return WINDOWS - found.unsure


def test_no_invalid_answer_claims_to_be_valid() -> None:
    valid = sum(faulty(run) for run in range(RUNS))
    assert valid > RUNS * WINDOWS / 10  # one that never claims anything would pass as well


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_no_invalid_answer_in_the_long_run() -> None:
    valid = sum(faulty(run) for run in range(LONG_FIRST, LONG_FIRST + LONG_RUNS))
    assert valid > LONG_RUNS * WINDOWS / 10


@pytest.mark.parametrize("delay", [0.2, 1.0, 3.0])
@pytest.mark.parametrize("policy", ["resolution", "hybrid"])
def test_valid_again_after_healing(delay: float, policy: str) -> None:
    # Docs: a heartbeat, a missing site's wait, two retries and eight round trips.
    bound = 6 + 2 * 2 + 8 * (2 * delay + 0.5)
    for seed in range(4):
        counts = np.random.default_rng(seed).poisson(np.arange(12, 0, -1) * 20.0, (130, 4, 12))
        faults = Faults(delay=delay, crash=0.02, freeze=0.02, restart=0.02, lose=0.2, quiet=75)
        made = faulty_run(counts, 10, policy, faults, k=4, seed=seed)
        assert made.run(120).invalid == 0
        assert made.healed is not None
        assert made.healed <= bound


def test_same_seed_same_run() -> None:
    counts = np.random.default_rng(4).poisson(np.arange(20, 0, -1), (30, 3, 20))
    first, second = (
        faulty_run(counts, 10, "resolution", Faults(lose=0.2), k=3, seed=4).run(20)
        for _ in range(2)
    )
    assert first.bytes == second.bytes
    assert first.series["messages"].tolist() == second.series["messages"].tolist()
