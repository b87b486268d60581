"""Tumbling and sliding windows: boundaries on a grid through 1970-01-01 00:00 UTC."""

from __future__ import annotations

from collections.abc import Iterator


def windows_of(pane: int, length: int, every: int) -> Iterator[tuple[int, int]]:
    """The windows [start, start + length), one each `every`, that hold the pane at `pane`.

    Tumbling where every == length. All in microseconds.
    """
    first = (pane - length) // every * every + every
    for start in range(first, pane + 1, every):
        yield start, start + length
