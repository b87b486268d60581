"""Tumbling and sliding windows: boundaries on a grid through 1970-01-01 00:00 UTC."""

import numpy as np


def first_open(after: int, length: int, every: int) -> int:
    """Start of the first window that ends after a time."""
    return (after - length) // every * every + every


def starts_of_windows(slices: np.ndarray, length: int, every: int, width: int = 1) -> np.ndarray:
    """Starts of the windows that hold any part of these slices: int64[n], ascending. `slices`:
    their starts, ascending. `width`: how long they are, microseconds. A pane lies in a window
    whole: 1 will do."""
    firsts = (slices - length) // every + 1
    lasts = (slices + width - 1) // every
    firsts[1:] = np.maximum(firsts[1:], lasts[:-1] + 1)  # those that no slice before it is in
    sizes = np.maximum(lasts + 1 - firsts, 0)
    ends = np.cumsum(sizes)
    return (np.arange(sizes.sum()) + np.repeat(firsts - ends + sizes, sizes)) * every


def tiles_of_runs(starts: np.ndarray, ends: np.ndarray) -> tuple[np.ndarray, ...]:
    """The fewest aligned runs of 1, 2, 4, ... units that make up each of some runs of units. Tile
    by tile, int64: which run it is of, its level and number; number << level is its first unit."""
    run, level = np.arange(len(starts)), 0
    found = []
    while len(run):
        for odd, numbers in ((starts & 1 > 0, starts), (ends & 1 > 0, ends - 1)):
            found.append((run[odd], np.full(np.count_nonzero(odd), level), numbers[odd]))
        starts, ends, level = (starts + 1) >> 1, ends >> 1, level + 1
        left = starts < ends
        run, starts, ends = run[left], starts[left], ends[left]
    return tuple(np.concatenate(parts) for parts in zip(*found, strict=True))
