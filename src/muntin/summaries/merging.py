"""Many summaries of one kind as one: what a window of hundreds of panes comes down to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

FAN_IN = 16  # merged one after the other, so that few copies are held at a time


def merged(parts: Sequence[Any]) -> Any:
    """A new summary of the events of all, which stay as they are; at least one is given.

    At once where the kind can; else in their order, by groups: what grows costs more to merge
    into.
    """
    at_once = getattr(type(parts[0]), "merged", None)
    return at_once(parts) if at_once is not None else _by_groups(parts)


def _by_groups(parts: Sequence[Any]) -> Any:
    step = -(-len(parts) // FAN_IN)
    if step > 1:
        groups = [_by_groups(parts[at : at + step]) for at in range(0, len(parts), step)]
        whole, rest = groups[0], groups[1:]
    else:
        whole, rest = parts[0].copy(), parts[1:]
    for other in rest:
        whole.merge(other)
    return whole
