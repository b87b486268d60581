"""What a run of a pipeline has done so far."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Progress:
    """What a run has done so far."""

    batches: int = 0
    read: int = 0
    counted: int = 0
    late: int = 0
    rejected: int = 0
    windows: dict[str, int] = field(default_factory=dict)
    """Closed windows by reason."""
    seconds: float = 0.0
    """In batches; waiting for data is not counted."""
    panes: set[int] = field(default_factory=set, repr=False)
    """Starts of the panes that got events."""
