"""Which segments have to be merged, and which lie in times of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

T = TypeVar("T")


def meeting(
    parts: Sequence[T],
    slices: Callable[[T], np.ndarray],
    nbytes: Callable[[T], int],
    small: int,
) -> list[list[T]]:
    """Groups, in the order of time, that share no time with each other.

    Parts that reach into each other's time are in one group, and so are neighbours of at most
    `small` bytes together. `slices`: those of a part, ascending, of which there is one at least.
    """
    groups: list[list[T]] = []
    size = until = 0
    for part in sorted(parts, key=lambda part: int(slices(part)[0])):
        within = slices(part)
        if not groups or (within[0] >= until and size + nbytes(part) > small):
            groups.append([])
            size = 0
        groups[-1].append(part)
        size += nbytes(part)
        until = max(until, int(within[-1]) + 1)
    return groups
