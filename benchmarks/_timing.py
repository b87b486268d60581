"""Timing that a busy machine disturbs little: runs taken in turn."""

from __future__ import annotations

import gc
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
    gc.collect()
    gc.freeze()  # going through all modules before each run would empty the processor's caches
    for _ in range(repeats):
        for name, run in runs.items():
            gc.collect()
            began = clock()
            run()
            seconds[name].append(clock() - began)
    gc.unfreeze()
    return seconds
