"""Timing that a busy machine disturbs little: runs taken in turn, best and median, ratios."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable


def in_turn(
    runs: dict[str, Callable[[], object]],
    repeats: int = 5,
    warm: int = 1,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, list[float]]:
    """Seconds of each run; one of each in turn, `repeats` times, after `warm` untimed rounds.

    `clock=time.process_time` counts processor time, which a busy machine disturbs less.
    """
    for _ in range(warm):
        for run in runs.values():
            run()
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(repeats):
        for name, run in runs.items():
            gc.collect()
            began = clock()
            run()
            seconds[name].append(clock() - began)
    return seconds


def report(
    seconds: dict[str, list[float]], *, events: int = 1, unit: str = "event", first: str = ""
) -> None:
    """Print best and median per event, and how many times slower than `first` each best is."""
    reference = min(seconds[first or next(iter(seconds))])
    width = max(map(len, seconds))
    print(f"{'':{width}}  {'best':>10}  {'median':>10}  {'ratio':>6}   per {unit}")
    for name, taken in seconds.items():
        best, median = min(taken), statistics.median(taken)
        print(
            f"{name:{width}}  {_shown(best / events):>10}  {_shown(median / events):>10}"
            f"  {best / reference:>5.1f}x"
        )


def _shown(seconds: float) -> str:
    for factor, unit in ((1e9, "ns"), (1e6, "us"), (1e3, "ms")):
        if seconds * factor < 1000:
            return f"{seconds * factor:.1f} {unit}"
    return f"{seconds:.2f} s"
