"""What a ledger takes and gives: plain records, and the limits that each ledger keeps.

All times are int64 microseconds since 1970-01-01 UTC.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, Self

from muntin.errors import BadArgument
from muntin.ledger.slices import Slices
from muntin.times import datetime_of

_NAME = re.compile(r"[a-z][a-z0-9_-]{0,63}")


def check_name(name: object, what: str) -> str:
    """`name` itself where it is one; what it names goes into the message. Names become parts of
    keys, URLs and file names, so that nothing in them may need escaping."""
    if isinstance(name, str) and _NAME.fullmatch(name):
        return name
    shown = ascii(name)
    shown = shown if len(shown) <= 80 else shown[:77] + "..."
    raise BadArgument(
        f"{shown} cannot name a {what}: a name begins with a small letter, goes on with small "
        "letters, digits, '_' and '-', and has at most 64 characters"
    )


Mode = Literal["continue", "error", "append", "overwrite"]
FORMAT_VERSION = 5  # 3: pieces are segments; 4: payloads in files; 5: distinct is UltraLogLog
RAW_BYTES_MAX = 4096  # of a rejected record; the rest is cut
REJECTED_KEPT_MAX = 100_000  # records of a pipeline; the oldest go, the count stays
WAITING_COMMANDS_MAX = 1_000  # of a pipeline; then `ask` refuses
REVISIONS_KEPT_MAX = 16  # of one window or trend point; the oldest go
PAYLOAD_BYTES_MAX = 512 << 20  # of one piece, state or trend point, before compression


@dataclass(frozen=True, slots=True)
class Stored:
    """A payload that lies in a file, by whoever wrote it: the ledger keeps only this of it."""

    path: str
    """Below the ledger's own folder of payloads; or a URL, where the pipeline names a place."""
    nbytes: int
    crc: int
    """CRC-32C of all bytes."""

    def to_bytes(self) -> bytes:
        """As a ledger's row has it, and a message of a task: JSON."""
        return json.dumps([self.path, self.nbytes, self.crc]).encode("ascii")

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        return cls(*json.loads(data))


Payload = bytes | Stored
"""Of a piece. `View.payloads` gives bytes, whichever it was."""


@dataclass(frozen=True, slots=True)
class Partial:
    """States of one summary that a batch adds: of many slices of one length, in one payload.

    Those of panes hold what came. Where rollups cover a pane already, the same events come a
    second time at each rollup's length (`length`), so that rollups always hold what they cover.
    """

    summary: str
    slices: Slices
    """`late` is not read: the ledger knows which slices were sealed."""
    payload: Payload
    length: int | None = None
    """Of the slices; None: panes."""
    shard: int = 0


@dataclass(frozen=True, slots=True)
class State:
    """What a sequential summary's shard carries from batch to batch."""

    summary: str
    shard: int
    payload: bytes


@dataclass(frozen=True, slots=True)
class Rejected:
    """An event that was not counted, and why."""

    reason: str
    """Stable code: "no_time", "bad_time", "before_1970", "future", "bad_value", "malformed"."""
    detail: str
    """Names the column and the value."""
    place: str
    """Where it came from (file, offset), or ""."""
    raw: bytes
    """The record, as JSON, at most RAW_BYTES_MAX bytes of it."""


@dataclass(frozen=True, slots=True)
class Batch:
    """What one batch adds: one transaction."""

    query_id: str
    batch_id: int
    partials: Sequence[Partial] = ()
    states: Sequence[State] = ()
    rejected: Sequence[Rejected] = ()
    """At most a bounded sample; `rejected_count` counts them all."""
    read: int = 0
    """Events in; read == counted + rejected_count."""
    counted: int = 0
    rejected_count: int = 0
    max_event_time: int | None = None
    """Newest accepted event time in the batch; None where none was accepted."""
    watermark: int | None = None
    """Watermark after this batch; the ledger keeps the maximum ever given."""
    late: int = 0
    """Late events that are in no partial (sequential summaries leave them out), at least; the
    pipeline's count takes the larger of this and of what is late in the partials."""


@dataclass(frozen=True, slots=True)
class PipelineInfo:
    """One pipeline of the ledger, as its last commit left it; before the first it has a name."""

    name: str
    spec: Mapping[str, Any] = field(default_factory=dict)
    epoch: int = 0
    query_id: str | None = None
    watermark: int | None = None
    max_event_time: int | None = None
    batches: int = 0
    read: int = 0
    counted: int = 0
    late: int = 0
    """Events that came after their pane was sealed; counted in their pane as well."""
    rejected: int = 0
    committed_at: int | None = None
    """Wall clock of the last commit."""


@dataclass(frozen=True, slots=True)
class Piece:
    """What the ledger holds of a run of slices, without its payload. Of several pieces that hold
    the same slice, each holds other events: they add up."""

    id: int
    """Higher than that of every piece before it; never used again."""
    summary: str
    length: int
    """Of its slices: the pane, or that of a rollup."""
    shard: int
    slices: Slices
    nbytes: int
    """Of its payload."""

    @property
    def start(self) -> int:
        """Start of its first slice."""
        return int(self.slices.starts[0])

    @property
    def until(self) -> int:
        """End of its last slice."""
        return int(self.slices.starts[-1]) + self.length

    @property
    def events(self) -> int:
        """Of all its slices."""
        return self.slices.count

    @property
    def late(self) -> int:
        """Events of all its slices that came after these were sealed."""
        return self.slices.late_count


@dataclass(frozen=True, slots=True)
class Made:
    """A piece that was merged from others: by compaction, or for a rollup."""

    slices: Slices
    payload: Payload
    shard: int = 0


@dataclass(frozen=True, slots=True)
class ClosedWindow:
    """A window that has closed, in one of its revisions (the newest, unless asked otherwise)."""

    summary: str
    start: int
    end: int
    reason: str
    """"full", "capacity", "late", or "end": of the source."""
    revision: int
    """0 when it closed; +1 each time a late event changed what it or its standing queries read."""
    overflowed: bool
    events: int
    late: int
    fill: Mapping[str, int]
    """Rows per key (or another measure of fullness per name)."""
    closed_at: int

    @property
    def start_time(self) -> datetime:
        """`start` as a datetime in UTC."""
        return datetime_of(self.start)


@dataclass(frozen=True, slots=True)
class TrendPoint:
    """The result of a standing query for one closed window."""

    query: str
    start: int
    end: int
    revision: int
    result: bytes
    """Arrow IPC stream."""


@dataclass(frozen=True, slots=True)
class Command:
    """What a client asked of the pipeline, e.g. slow_down; a row of the control table."""

    id: int
    pipeline: str
    action: str
    arguments: Mapping[str, Any]
    client: str
    asked_at: int
    answer: Mapping[str, Any] | None = None
    """What was done; None while it waits."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """How far the rollups of one length reach."""

    length: int
    start: int
    until: int
    """The pieces of this length hold every event of [start, until) that the ledger has."""
