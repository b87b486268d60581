"""Tumbling and sliding windows: boundaries on a grid through 1970-01-01 00:00 UTC."""

from __future__ import annotations

import numpy as np


def first_open(after: int, length: int, every: int) -> int:
    """Start of the first window that ends after a time."""
    return (after - length) // every * every + every


def starts_of_windows(slices: np.ndarray, length: int, every: int, width: int = 1) -> np.ndarray:
    """Starts of the windows that hold any part of these slices: int64[n], ascending.

    Parameters
    ----------
    slices : int64[p]
        Their starts.
    width : int
        How long they are, microseconds. A pane lies in a window whole: 1 will do.
    """
    firsts = (slices - length) // every * every + every
    numbers = (slices + width - 1 - firsts) // every + 1
    offsets = np.arange(int(numbers.max(initial=0)))
    starts = firsts[:, None] + offsets * every
    return np.unique(starts[offsets < numbers[:, None]])
