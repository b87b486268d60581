"""From a worker's rows to partial summaries: what runs inside `mapInArrow`.

A row ends in exactly one place: counted in the pane of its event time, or rejected with a reason.
No side effects, so that a task that is tried again gives the same.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.arrow import plain_value
from muntin.assembly.arriving import Covered
from muntin.assembly.cutting import Cutting
from muntin.kinds import SegmentSpec, SummarySpec
from muntin.kinds.columns import without_views
from muntin.kinds.values import Refused
from muntin.ledger.records import RAW_BYTES_MAX, Partial, Rejected
from muntin.segments.building import meeting, merge
from muntin.segments.codec import CUT_BYTES, cut, encode
from muntin.segments.table import Segment
from muntin.spark.event_time import ABSENT, UnitDoubt, doubt_of, event_times
from muntin.spark.rows import PARTIAL, PIECE, REJECTED, TALLY, Row
from muntin.spark.runs import Runs, partial_of
from muntin.spark.sequences import Sequencer

CORRUPT_COLUMN = "_muntin_malformed"
"""Where Spark's readers put the text of a record that does not parse."""
WHY_COLUMN = "_muntin_why"
"""Why it does not, where the reader is one of ours; alone where the text is not known."""
_MALFORMED = (
    "the record does not parse as the source's format, or a value as its column's type (declare a "
    "time that Spark does not read as string); where records go over several lines, write  "
    "multiLine: true  under source"
)

ROWS_FOLDED_AT_ONCE = 1 << 19  # gathered before rows are sorted by pane
BUFFERED_BYTES_MAX = 512 << 20  # segments of one task; then they are emitted and begun anew
SEGMENTS_MAX = 8  # of a summary, of times that meet; then they are merged
SMALL_BYTES = 4 * CUT_BYTES  # in memory; neighbours that are less are merged: fewer pieces
REJECTED_KEPT_MAX = 1_000  # records a task; all are counted


PlaceOf = Callable[[int], str]  # where a row of a batch stands in its source
Placed = tuple[pa.RecordBatch, PlaceOf | None]


@dataclass(frozen=True, slots=True)
class Plan:
    """What a task must know; goes to the workers with each job."""

    time: str
    unit: str | None
    pane: int
    summaries: Mapping[str, SummarySpec]
    latest: int
    """Event times after this are rejected: now + max_future_skew, microseconds."""
    cuttings: Mapping[str, Cutting] = field(default_factory=dict)
    covered: Mapping[str, Covered] = field(default_factory=dict)
    """What rollups cover, by summary, while the batch runs."""


@dataclass(slots=True)
class Tally:
    read: int = 0
    rejected: int = 0
    newest: int | None = None
    doubt: UnitDoubt = field(default_factory=UnitDoubt)

    @property
    def counted(self) -> int:
        return self.read - self.rejected

    def add(self, other: Tally) -> None:
        self.read += other.read
        self.rejected += other.rejected
        if other.newest is not None:
            self.newest = other.newest if self.newest is None else max(self.newest, other.newest)
        self.doubt.add(other.doubt)


class TaskFold:
    """Folds one task's batches into partial summaries."""

    def __init__(self, plan: Plan, where: str = "") -> None:
        self._plan = plan
        self._where = where
        self._sequencer = Sequencer(plan.summaries)
        self._in_panes = {
            name: spec for name, spec in plan.summaries.items() if isinstance(spec, SegmentSpec)
        }
        self._columns = list(
            dict.fromkeys(c for spec in self._in_panes.values() for c in spec.columns())
        )
        self._segments: dict[str, list[Segment]] = {name: [] for name in self._in_panes}
        self._runs = {
            name: Runs(cutting) for name, cutting in plan.cuttings.items() if cutting.shards > 1
        }
        self._waiting: list[tuple[pa.RecordBatch, np.ndarray]] = []
        self._rows_waiting = 0
        self.tally = Tally()
        self.rejected: list[Rejected] = []

    def fold(self, batch: pa.RecordBatch, place: PlaceOf | None = None) -> None:
        """Count a batch's rows, or keep them until there are enough to sort. `place` tells where a
        row of it stands; by default, as which of its partition it was read."""
        batch = without_views(batch, batch.schema.names)
        read = self.tally.read
        place = place or (lambda row: f"{self._where}row {read + row + 1}")
        times = event_times(batch.column(self._plan.time), self._plan.unit)
        unit, latest = self._plan.unit, self._plan.latest
        self.tally.doubt.add(doubt_of(batch.column(self._plan.time), times, unit, latest))
        bad = (times < 0) | (times > self._plan.latest)
        malformed = np.zeros(batch.num_rows, bool)
        for mark in (CORRUPT_COLUMN, WHY_COLUMN):
            if mark in batch.schema.names:
                malformed |= batch.column(mark).is_valid().to_numpy(zero_copy_only=False)
        bad |= malformed
        refused = list(self._refused(batch))
        for _, mask, _ in refused:
            bad |= mask
        self.tally.read += batch.num_rows
        if bad.any():
            self._reject(batch, times, np.flatnonzero(bad), malformed, refused, place)
            keep = np.flatnonzero(~bad)
            batch = batch.take(pa.array(keep))
            times = times[keep]
        if not batch.num_rows:
            return
        newest = int(times.max())
        self.tally.newest = newest if self.tally.newest is None else max(self.tally.newest, newest)
        self._sequencer.add(batch, times)
        if not self._in_panes:
            return
        batch = batch.select(self._columns)
        if self._waiting and self._waiting[0][0].schema != batch.schema:
            self._fold_waiting()  # another file's types
        self._waiting.append((batch, times // self._plan.pane))
        self._rows_waiting += batch.num_rows
        if self._rows_waiting >= ROWS_FOLDED_AT_ONCE:
            self._fold_waiting(all_of_it=False)

    def _refused(self, batch: pa.RecordBatch) -> Iterator[Refused]:
        """Values that a summary cannot take; the time's own column is looked at before."""
        for name, spec in self._plan.summaries.items():
            for column, mask, why in spec.refused(batch):
                yield column, mask, f"{why} (summaries.{name})"

    def emit(self, all_of_it: bool) -> Iterator[Row]:
        """Partials as rows: all of them, or only when they have grown too large to hold."""
        yield from self._sequencer.emit(all_of_it)
        if all_of_it:
            self._fold_waiting()
        for runs in self._runs.values():
            yield from runs.emit(all_of_it)
        nbytes = sum(part.nbytes for parts in self._segments.values() for part in parts)
        if not all_of_it and nbytes < BUFFERED_BYTES_MAX:
            return
        for name, parts in self._segments.items():
            for group in _groups(parts):
                for part in cut(merge(group)):
                    yield PARTIAL, name, 0, encode(part)
            parts.clear()
        if all_of_it:
            for record in self.rejected:
                told = json.dumps([record.reason, record.detail, record.place])
                yield REJECTED, told, 0, record.raw
            yield TALLY, json.dumps(astuple(self.tally)), 0, b""

    def _fold_waiting(self, all_of_it: bool = True) -> None:
        """Rows that wait become one segment of each summary.

        All of them, or those before the newest pane has begun, where they come in order: then
        segments share no pane, and need not be merged.
        """
        if not self._waiting:
            return
        table = pa.Table.from_batches([batch for batch, _ in self._waiting]).combine_chunks()
        panes = np.concatenate([panes for _, panes in self._waiting])
        (batch,) = table.to_batches()
        rows = batch.num_rows if all_of_it else _before_newest(panes)
        self._waiting, self._rows_waiting = [], batch.num_rows - rows
        if self._rows_waiting:
            rest = batch.take(pa.array(np.arange(rows, batch.num_rows)))  # lets go of the others
            self._waiting.append((rest, panes[rows:]))
            batch, panes = batch.slice(0, rows), panes[:rows]
        for name, spec in self._in_panes.items():
            if name in self._runs:
                self._runs[name].add(spec.segment(batch, panes))
                continue
            parts = self._segments[name]
            parts.append(spec.segment(batch, panes))
            if len(parts) >= SEGMENTS_MAX:
                groups = _groups(parts)
                parts.clear()
                for group in groups:
                    parts += [merge(group)] if len(group) >= SEGMENTS_MAX else group

    def _reject(
        self,
        batch: pa.RecordBatch,
        times: np.ndarray,
        rows: np.ndarray,
        malformed: np.ndarray,
        refused: Sequence[Refused],
        place: PlaceOf,
    ) -> None:
        self.tally.rejected += len(rows)
        for row in rows[: max(0, REJECTED_KEPT_MAX - len(self.rejected))].tolist():
            record = batch.slice(row, 1)
            plain = {n: plain_value(record.column(at)) for at, n in enumerate(record.schema.names)}
            text, why = plain.pop(CORRUPT_COLUMN, None), plain.pop(WHY_COLUMN, None)
            shown, raw = shown_record(plain)
            if malformed[row]:
                reason = "malformed"
                detail = why or _MALFORMED
                if text is not None:  # of rows that parse, in a file of others
                    raw = text.encode("utf-8", "replace")[:RAW_BYTES_MAX]
            elif 0 <= times[row] <= self._plan.latest:
                column, why = next((c, why) for c, mask, why in refused if mask[row])
                reason, detail = "bad_value", f"column '{column}': {shown[column]!r:.100} {why}"
            else:
                reason, detail = self._why(shown[self._plan.time], int(times[row]))
                column = record.column(self._plan.time)
                doubt = doubt_of(column, times[row : row + 1], self._plan.unit, self._plan.latest)
                if doubt.events:
                    detail += f"; it is {doubt.meant()}"
            self.rejected.append(Rejected(reason, detail, place(row), raw))

    def _why(self, value: str | None, time: int) -> tuple[str, str]:
        column = self._plan.time
        shown = str(value)[:100]
        if value is None:
            why = "is null: take a field, coalesce(…), or correct the field that it is"
            return "no_time", f"column '{column}' {why}"
        if time == ABSENT:
            why = "is not a time: take a field, try_to_timestamp(…)"
            return "bad_time", f"column '{column}': {shown!r} {why}"
        if time > self._plan.latest:
            why = "is beyond max_future_skew: give a longer one if it is right"
            return "future", f"column '{column}': {shown} {why}"
        return "before_1970", f"column '{column}': {shown} is before 1970"


def _groups(parts: Sequence[Segment]) -> list[list[Segment]]:
    return meeting(parts, lambda part: part.slices, lambda part: part.nbytes, SMALL_BYTES)


def _before_newest(panes: np.ndarray) -> int:
    """How many rows come before the newest pane's; all where they do not come in this order, or
    where most are of it."""
    newest = panes.max()
    first = int(np.argmax(panes == newest))
    in_order = 2 * first >= len(panes) and bool((panes[first:] == newest).all())
    return first if in_order else len(panes)


def fold(plan: Plan, batches: Iterable[pa.RecordBatch], where: str = "") -> Iterator[Row]:
    """All of a task: batches in, rows for the driver out. `where` begins the place of its rows."""
    return fold_placed(plan, ((batch, None) for batch in batches), where)


def fold_placed(plan: Plan, batches: Iterable[Placed], where: str = "") -> Iterator[Row]:
    """As `fold`, of batches that know where their rows stand."""
    folder = TaskFold(plan, where)
    for batch, place in batches:
        folder.fold(batch, place)
        yield from folder.emit(all_of_it=False)
    yield from folder.emit(all_of_it=True)


@dataclass(frozen=True, slots=True)
class Gathered:
    """What came of a batch: each summary's segments, or pieces that executors have made."""

    segments: Mapping[str, list[bytes]]
    pieces: Sequence[Partial]
    rejected: Sequence[Rejected]
    tally: Tally


def gathered(rows: Iterable[Row]) -> Gathered:
    """On the driver: rows apart."""
    tally, rejected, pieces = Tally(), [], []
    segments: dict[str, list[bytes]] = {}
    for row in rows:
        what, name, _, payload = row
        if what == PIECE:
            pieces.append(partial_of(row))
        elif what == PARTIAL:
            segments.setdefault(name, []).append(payload)
        elif what == REJECTED:
            reason, detail, place = json.loads(name)
            rejected.append(Rejected(reason, detail, place, payload))
        elif what == TALLY:
            read, refused, newest, doubt = json.loads(name)
            tally.add(Tally(read, refused, newest, UnitDoubt(*doubt)))
    return Gathered(segments, pieces, rejected, tally)


_LONG = 1_000  # characters of one value


def shown_record(plain: Mapping[str, Any]) -> tuple[dict[str, str | None], bytes]:
    """The values of a single row as text (null is None), and the record as JSON, cut."""
    shown = {name: None if v is None else str(v)[:_LONG] for name, v in plain.items()}
    text = json.dumps(plain, default=str, ensure_ascii=False)
    return shown, text.encode("utf-8", "replace")[:RAW_BYTES_MAX]
