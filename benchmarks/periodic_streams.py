"""Streams with planted periodic batches: a Zipf background, one event a tick, items with a beat.

S10, P10 and S1 are those on which the published figures were taken. Each planted item has a
period of a whole number of interval units and a half; its batches come a little early or late
and hold four events within half a gap. `make(name)` returns the arrays; as a program, this writes
NAME.npz with key (uint32[n]), time (int64[n], ticks) and planted (float64[p, 4]: item, period,
interval in units, batches).

    python benchmarks/periodic_streams.py S10 P10 S1 --out folder
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np

BATCH_EVENTS = 4
JITTER_UNITS = 0.1  # a batch begins at most so much early or late


@dataclass(frozen=True)
class Recipe:
    """One stream: events, background keys, planted items, gap, unit and range of intervals."""

    events: int
    keys: int
    planted: int
    gap: int
    unit: int
    interval_min: int
    interval_max: int
    seed: int
    k: int


RECIPES = {
    "S10": Recipe(10_000_000, 1_000_000, 300, 2_000, 20_000, 2, 10, seed=1, k=200),
    "P10": Recipe(10_000_000, 1_000_000, 300, 2_000, 2_000, 3, 12, seed=2, k=300),
    "S1": Recipe(1_000_000, 120_000, 100, 200, 2_000, 2, 5, seed=1, k=100),
}


def make(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Keys, times and planted items of a stream; the same on every machine."""
    recipe = RECIPES[name]
    rng = np.random.default_rng(recipe.seed)
    weights = np.cumsum(1.0 / np.arange(1, recipe.keys + 1))
    ranks = np.searchsorted(weights / weights[-1], rng.random(recipe.events)).astype(np.int64)
    names = _names(rng, recipe.keys + recipe.planted)
    keys = names[ranks]
    free = np.ones(recipe.events, np.bool_)
    planted = [_plant(rng, recipe, item, keys, free) for item in names[recipe.keys :]]
    return keys, np.arange(recipe.events, dtype=np.int64), np.array(planted, np.float64)


def _names(rng: np.random.Generator, count: int) -> np.ndarray:
    """Distinct 32-bit identifiers in random order, mixed so that they are no progression."""
    step = (2**32 - 2) // (count + 10)
    spaced = np.arange(1, 2**32 - 1, step, dtype=np.uint64)
    mixed = rng.permutation(spaced)[:count].astype(np.uint32).astype(np.uint64)
    low = np.uint64(0xFFFFFFFF)
    mixed = (mixed * np.uint64(0x9E3779B1)) & low
    mixed ^= mixed >> np.uint64(16)
    mixed = (mixed * np.uint64(0x85EBCA6B)) & low
    return np.maximum(mixed, 1).astype(np.uint32)


def _plant(
    rng: np.random.Generator, recipe: Recipe, item: np.uint32, keys: np.ndarray, free: np.ndarray
) -> tuple[int, float, int, int]:
    """Overwrite background events, from each due time the next that is still background."""
    interval = int(rng.integers(recipe.interval_min, recipe.interval_max + 1))
    period = (interval + 0.5) * recipe.unit
    phase = rng.random() * period
    batches = 0
    beat = 0
    while True:
        early = (rng.random() - 0.5) * 2 * JITTER_UNITS * recipe.unit
        first = int(phase + beat * period + early)
        beat += 1
        if first + recipe.gap >= recipe.events:
            return int(item), period, interval, batches
        if first < 0:
            continue
        rest = np.sort(rng.integers(1, max(2, recipe.gap // 2), BATCH_EVENTS - 1))
        for due in [first, *(first + rest).tolist()]:
            at = due
            while at < recipe.events and not free[at]:
                at += 1
            if at < recipe.events:
                keys[at], free[at] = item, False
        batches += 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("streams", nargs="+", choices=RECIPES)
    parser.add_argument("--out", type=Path, default=Path())
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    for name in arguments.streams:
        keys, times, planted = make(name)
        np.savez(arguments.out / f"{name}.npz", key=keys, time=times, planted=planted)
        print(f"{name}: {len(keys):,} events, {len(np.unique(keys)):,} items")


if __name__ == "__main__":
    main()
