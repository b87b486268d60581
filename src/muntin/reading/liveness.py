"""Whether a pipeline still works: what it last said in the ledger, and how long ago."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from muntin.ledger.records import PipelineInfo

STALE_TRIGGERS = 3
STALE_US_MIN = 10_000_000  # a batch may take seconds; below this nothing is called stale


@dataclass(frozen=True, slots=True)
class Liveness:
    """What a pipeline does, as far as its ledger tells."""

    state: str
    """"unknown": it has said and committed nothing yet. "running": it commits. "idle": it is there,
    and has nothing to commit. "stale": no sign of life for three triggers, and 10 s at least; its
    process may be gone. "failed": it ended by an error. "finished": it ended in order, since it was
    stopped or had taken all."""
    stale: bool
    """Answers may lack events that have come since: unknown, stale or failed."""
    silent_us: int | None
    """Since the last sign of life; None where there was none."""
    reason: str = ""
    """Why it failed."""


def liveness(
    info: PipelineInfo, status: Mapping[str, Any] | None, trigger_us: int, now_us: int
) -> Liveness:
    """What a pipeline does, by its last commit and the last status that its process wrote."""
    status = status or {}
    said, said_at = status.get("state"), int(status.get("at", 0))
    committed = info.committed_at or 0
    if committed > now_us and said_at:  # the clock was set back: what was said came after it
        committed = min(committed, said_at)
    alive = max(committed, said_at)
    if not alive:
        return Liveness("unknown", True, None)
    # what it said ahead of the clock, it may have said before that was set back
    silent = abs(now_us - alive)
    if said == "finished":
        return Liveness("finished", False, silent)
    if said == "failed" and committed <= said_at:
        return Liveness("failed", True, silent, str(status.get("reason", "")))
    limit = max(STALE_US_MIN, STALE_TRIGGERS * trigger_us)
    if silent > limit:
        return Liveness("stale", True, silent)
    idle = now_us - committed > limit
    return Liveness("idle" if idle else "running", False, silent)


class Hearing:
    """What one reader has heard of pipelines. A clock that is ahead of the reader's is told from
    one that was set back: signs of life go on."""

    def __init__(self) -> None:
        self._heard: dict[str, tuple[int, int]] = {}
        """Name -> the last sign, and how far it was ahead when it came."""

    def of(
        self, info: PipelineInfo, status: Mapping[str, Any] | None, trigger_us: int, now_us: int
    ) -> Liveness:
        """As `liveness`. Of the first sign nobody knows when it came."""
        said_at = int((status or {}).get("at", 0))
        before, ahead = self._heard.get(info.name, (said_at, 0))
        if said_at != before:
            ahead = max(0, said_at - now_us)
        self._heard[info.name] = said_at, ahead
        return liveness(info, status, trigger_us, now_us + ahead)
