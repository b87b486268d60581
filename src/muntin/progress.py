"""What a run of a pipeline has done so far."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from muntin.sets import Int64s, as_set

READING, CLOSING = "reading", "closing windows"


@dataclass(frozen=True, slots=True)
class Step:
    """A part of the batch at hand."""

    name: str = ""
    """"" between batches."""
    done: int = 0
    total: int = 0
    began: float = field(default_factory=time.monotonic)


@dataclass(slots=True)
class Progress:
    """What a run has done so far."""

    batches: int = 0
    read: int = 0
    counted: int = 0
    late: int = 0
    rejected: int = 0
    newest: int | None = None
    """The newest event time that was counted, microseconds since 1970 UTC."""
    doubt: str = ""
    """What is wrong with the unit of event times, if something seems to be."""
    windows: dict[str, int] = field(default_factory=dict)
    """Closed windows by reason."""
    seconds: float = 0.0
    """In batches; waiting for data is not counted."""
    panes: int = 0
    """That got events before they were sealed."""
    open: Int64s = field(default_factory=lambda: np.empty(0, np.int64), repr=False)
    """Starts of those of them that may get more, ascending: what is sealed is only counted."""
    step: Step = field(default_factory=Step, repr=False)

    def reached(self, starts: Sequence[Int64s], sealed: int | None, until: int | None) -> None:
        """Count panes that a batch had events of.

        Parameters
        ----------
        starts : sequence of int64[n]
            Of those of each summary, ascending.
        sealed, until : int, optional
            Where the sealed panes ended before the batch, and end after it.
        """
        first = np.iinfo(np.int64).min
        new = [
            each[np.searchsorted(each, first if sealed is None else sealed) :] for each in starts
        ]
        found = as_set(np.concatenate([self.open, *new]))
        self.panes += len(found) - len(self.open)
        self.open = found[np.searchsorted(found, first if until is None else until) :]
