"""What a run of a pipeline has done so far."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field

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
    open: set[int] = field(default_factory=set, repr=False)
    """Starts of those of them that may get more: what is sealed is only counted."""
    step: Step = field(default_factory=Step, repr=False)

    def reached(self, starts: Iterable[int], sealed: int | None, until: int | None) -> None:
        """Count panes that a batch had events of.

        Parameters
        ----------
        sealed, until : int, optional
            Where the sealed panes ended before the batch, and end after it.
        """
        new = {start for start in starts if sealed is None or start >= sealed} - self.open
        self.panes += len(new)
        self.open = {start for start in self.open | new if until is None or start >= until}
