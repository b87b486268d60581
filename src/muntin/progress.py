"""What a run of a pipeline has done so far."""

import time
from collections import Counter
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
    windows: Counter[str] = field(default_factory=Counter)
    """Closed windows by reason."""
    seconds: float = 0.0
    """In batches; waiting for data is not counted."""
    step: Step = field(default_factory=Step, repr=False)
