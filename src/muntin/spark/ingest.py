"""One pipeline at work: each batch of rows becomes one commit, then windows close.

Batch and stream share it, so that they leave the same ledger.
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import Any

from muntin.assembly.alerts import Alerts
from muntin.assembly.arriving import Covered, partials_of
from muntin.assembly.assembler import Assembler
from muntin.assembly.changes import StoredTypes, check_changes, spec_to_store
from muntin.assembly.cutting import cuttings_of
from muntin.assembly.maintenance import Maintenance
from muntin.assembly.standing import StandingQueries
from muntin.errors import LedgerConflict, LedgerError, MuntinError
from muntin.ledger.base import Ledger, Mode, Writer
from muntin.ledger.records import Batch, ClosedWindow
from muntin.ledger.rules import panes_of, with_late
from muntin.ledger.slices import Slices
from muntin.progress import CLOSING, READING, Progress, Step
from muntin.reading.pieces import SegmentCache, pieces_of
from muntin.spark.failures import plainly
from muntin.spark.gathering import GatherRows, plan_of
from muntin.spark.partials import Plan, gathered
from muntin.spark.pipeline_status import PipelineStatus, query_runs, with_run
from muntin.spark.rows import Row
from muntin.spark.sequences import PipelineShards
from muntin.spec import Pipeline
from muntin.times import now_us

REJECTED_COMMITTED_MAX = 10_000  # records of one batch that are kept; all are counted
STOPPING = "the pipeline is stopping: this batch comes again at the restart"
ANSWER_SECONDS = 0.2  # how often clients' commands are looked for
CACHE_SECONDS = 60.0  # each batch asks for the open windows again, nobody for those that closed
TURN_SECONDS = 1.0  # that a command waits at once for the batch at hand


class Ingest:
    """The writer's side of a pipeline. Thread-safe: commands come from other threads."""

    def __init__(
        self,
        pipeline: Pipeline,
        ledger: Ledger,
        *,
        query_id: str,
        run: str = "",
        mode: Mode = "continue",
        begins: int = 0,
        on_batch: Callable[[Ingest], None] | None = None,
        ended_by: Callable[[], str] = lambda: "",
        of_source: Callable[[], Mapping[str, Any]] = dict,
    ) -> None:
        """`run` is that of the streaming query, which is another after each of its starts;
        `begins` is its batch that comes next; `ended_by` tells why nothing more will come, "" while
        something may; `of_source` gives what the status says of the source: `lag`, `missed`."""
        self.ledger = ledger
        self.query_id = query_id
        self.progress = Progress()
        self._on_batch = on_batch
        self._lock = threading.RLock()
        cache = _cache_of(pipeline)
        ledger.follow()  # what there was decides what this one may be, and what it lacks
        queries = StandingQueries(pipeline, ledger, cache)
        if pipeline.webhook is not None:
            pipeline.webhook.key()  # refuses, before anything changes
        before = None
        if mode != "overwrite":
            check_changes(pipeline, ledger)
            PipelineShards(pipeline, ledger)  # refuses too, before the ledger has a new writer
            before = ledger.pipeline(pipeline.name)
        self._runs = with_run(query_runs(ledger, pipeline.name), run)
        plain = spec_to_store(pipeline, before)
        cuttings_of(pipeline, ledger)  # refuses as well
        self.writer: Writer = ledger.open_writer(
            pipeline.name, plain, query_id=query_id, mode=mode, begins=begins
        )
        info = ledger.pipeline(pipeline.name)
        if before is not None and info is not None and info.counted != before.counted:
            # an older writer has committed meanwhile, by its own spec
            self.writer.set_spec(spec_to_store(pipeline, replace(info, spec=before.spec)))
        self._watermark = info and info.watermark
        self._newest = info and info.max_event_time
        self._set_up(pipeline, queries, cache)
        self._spec_before: Mapping[str, Any] | None = None
        self._stopped = threading.Event()
        self.taken_over: LedgerConflict | None = None
        self._of_source = of_source
        self._alerts = Alerts(pipeline, ledger, self.writer, queries)
        self.status = PipelineStatus(
            self.writer, lasting=self._condition, passing=self._passing, ended_by=ended_by
        )
        self.status.say("running")
        self._answering = threading.Thread(
            target=self._answer_commands, name=f"muntin-{pipeline.name}", daemon=True
        )
        self._answering.start()

    def _set_up(
        self,
        pipeline: Pipeline,
        queries: StandingQueries,
        cache: SegmentCache,
        adopt: Callable[[], object] = lambda: None,
    ) -> None:
        """Work by a spec that is stored. `adopt` is the last that may fail; then all is as it was,
        but for the ledger."""
        sequences = PipelineShards(pipeline, self.ledger)
        cuttings = cuttings_of(pipeline, self.ledger)
        assembler = Assembler(pipeline, self.ledger, self.writer, queries, cache)
        maintenance = Maintenance(
            pipeline, self.ledger, self.writer, assembler.layouts, cuttings,
            cache, assembler.open_starts, assembler.open_from,
        )  # fmt: skip
        adopt()
        self.pipeline, self._queries, self._cache = pipeline, queries, cache
        self._sequences, self._cuttings, self._types = sequences, cuttings, StoredTypes(cuttings)
        self._assembler, self._maintenance = assembler, maintenance

    def take(self, batch_id: int, gather: GatherRows) -> None:
        """Commit one batch, unless it was committed already, and close what it seals."""
        began = time.monotonic()
        with self._unless_stopping():
            self._store_spec_again()
            self._assembler.store_answers()  # before its state is stored without them
            last = self.writer.last_batch(self.query_id)
            came: dict[str, Slices] = {}
            if last is None or batch_id > last:
                self.progress.step = Step(READING)
                with plainly():
                    gathered_rows = gather(self.plan())
                came = self._commit(batch_id, gathered_rows)
            self.progress.step = Step(CLOSING)
            if not came or any(panes.late_count for panes in came.values()):
                self._alerts.look_at_windows()  # before a revision is in the place of one of them
            with self._maintenance.keeping:
                self._noted(self._assembler.step(self._watermark, came))
            if self.pipeline.retention.history is not None:
                self._alerts.look_at_windows()  # a batch may close more than is kept
            self._maintenance.run(self._watermark)
            self.progress.step = Step()
            self.progress.seconds += time.monotonic() - began
            self.status.say("running", time.monotonic() - began)
        self._alerts.wake()
        if self._on_batch:
            self._on_batch(self)

    def take_all(self, gather: GatherRows) -> None:
        """A batch job: one commit, then all housekeeping.

        Where another writer comes in between, the rows are in, and what is left is that one's to
        do: a job that failed would be run again, and count twice.
        """
        try:
            self.take(0, gather)
            self.finish(ended=True)
        except LedgerConflict:
            if self.ledger.last_batch(self.pipeline.name, self.query_id) is None:
                raise

    def plan(self) -> Plan:
        """What the workers must know for the next batch."""
        plan = plan_of(self.pipeline, now_us())
        return replace(plan, cuttings=self._cuttings, covered=self._covered())

    def _covered(self) -> dict[str, Covered]:
        """What rollups cover, of the summaries that have shards: only this writer changes it."""
        return {
            name: {reach.length: (reach.start, reach.until) for reach in self.ledger.coverage(name)}
            for name, cutting in self._cuttings.items()
            if cutting.shards > 1
        }

    def finish(self, *, ended: bool) -> None:
        """All housekeeping that is left, then a last word in the ledger. `ended`: the source has,
        so that the windows that are still open close with it."""
        with self._lock:
            if ended and self._newest is not None:
                with self._maintenance.keeping:
                    self._noted(self._assembler.end(self._newest, self._watermark))
            self._assembler.keep_history_in_mind(self._watermark)
            self._maintenance.finish(self._watermark)
            self._alerts.finish()
            self.status.say("finished")

    def is_taken_over(self) -> bool:
        """Has another writer taken the pipeline over? Asks the ledger."""
        if self.taken_over is None:
            try:
                self.status.repeat()
            except LedgerConflict as conflict:
                self.taken_over = conflict
            except LedgerError:
                return False
        return self.taken_over is not None

    @contextmanager
    def _unless_stopping(self) -> Iterator[None]:
        """The lock; or an error once the pipeline stops. Who stops it holds the lock and waits for
        Spark, and Spark for this batch: it must not wait."""
        while not self._lock.acquire(timeout=ANSWER_SECONDS):
            if self._stopped.is_set():
                raise LedgerError(STOPPING)
        try:
            if self._stopped.is_set():
                raise LedgerError(STOPPING)
            yield
        finally:
            self._lock.release()

    @contextmanager
    def stopping(self) -> Iterator[None]:
        """Wait for the batch at hand, and let no other begin: for the block and for good."""
        with self._lock:
            self._stopped.set()
            yield

    def close(self) -> None:
        """Stop answering commands, and give up the writer and memory. What was committed stays."""
        self._stopped.set()
        if self._answering is not threading.current_thread():
            self._answering.join(timeout=5)
        self._maintenance.close()
        self._alerts.close()
        if self.pipeline.webhook is not None:  # which has pushed since the last word
            with suppress(LedgerError):
                self.status.repeat(webhook=self._alerts.said())
        self.writer.close()  # first: a step still at work would store the error of closed queries
        self._queries.close()
        self._cache.clear()
        _give_back()

    def command(
        self, action: str, summary: str | None = None, asked: Sequence[int] = ()
    ) -> dict[str, Any]:
        """Obey `slow_down` or `resume` now; tells what was done for each summary. `asked`: the
        ledger's commands that it answers."""
        with self._lock:
            done = self._assembler.command(action, summary, asked)
            self.status.note(open=self._assembler.open_windows())
            return done

    def reconfigure(self, pipeline: Pipeline) -> None:
        """Go on with another spec: keys, indicators, fields and queries may change."""
        with self._lock:
            if pipeline.webhook is not None:
                pipeline.webhook.key()
            cache = _cache_of(pipeline)
            queries = StandingQueries(pipeline, self.ledger, cache)
            check_changes(pipeline, self.ledger)
            # refuse damaged shards, and shards without a place for them, before anything changes
            PipelineShards(pipeline, self.ledger)
            cuttings_of(pipeline, self.ledger)
            self._store_spec_again()
            stored = self.ledger.pipeline(pipeline.name)
            assert stored is not None  # noqa: S101 (its writer is open)
            queries_before, maintenance_before = self._queries, self._maintenance
            try:
                self.writer.set_spec(spec_to_store(pipeline, stored))
                adopt = partial(self._alerts.adopt, pipeline, queries)
                self._set_up(pipeline, queries, cache, adopt)
            except Exception:
                queries.close()
                self._spec_before = stored.spec  # a store that did not answer may have the new one
                with suppress(LedgerError):  # as long as it fails, no batch comes by either
                    self._store_spec_again()
                raise
            queries_before.close()
            maintenance_before.close()
            self.progress.doubt = ""
            with suppress(LedgerError):  # else the next sign of life says so
                self.status.refuse("")

    def _store_spec_again(self) -> None:
        """The spec that is worked by, where another was to be taken over and was not."""
        if self._spec_before is not None:
            self.writer.set_spec(self._spec_before)
            self._spec_before = None

    def _commit(self, batch_id: int, rows: Sequence[Row]) -> dict[str, Slices]:
        """Commit what workers sent; summary -> the panes that events reached."""
        found = gathered(rows)
        rejected, tally = found.rejected, found.tally
        times = [time for time in (self._newest, tally.newest) if time is not None]
        before, newest = self._watermark, max(times, default=None)
        watermark = self._advanced(newest)
        sequenced = self._sequences.advanced(rows, self._sealed(before), self._sealed(watermark))
        layouts = self._assembler.layouts
        with pieces_of(self.ledger, self._cache) as now:
            partials = [
                *found.pieces,
                *(
                    partial
                    for name, payloads in found.segments.items()
                    for partial in partials_of(now, layouts[name], self._cuttings[name], payloads)
                ),
            ]
            for name in {partial.summary for partial in partials}:
                self._types.check(now, layouts[name], [p for p in partials if p.summary == name])
            panes = panes_of(partials, self.pipeline.pane)
            late = {n: with_late(slices, self.pipeline.pane, before) for n, slices in panes.items()}
            owing = self._assembler.owing(now, late)
        committed = self.writer.commit(
            Batch(
                query_id=self.query_id,
                batch_id=batch_id,
                partials=partials,
                states=sequenced.states,
                rejected=rejected[:REJECTED_COMMITTED_MAX],
                read=tally.read,
                counted=tally.counted,
                rejected_count=tally.rejected,
                max_event_time=tally.newest,
                watermark=watermark,
                late=sequenced.late,
            ),
            owing,
        )
        if not committed:
            return {}
        self._sequences.accept(sequenced)
        self._watermark = watermark
        self._newest = self.progress.newest = newest
        self.progress.batches += 1
        self.progress.read += tally.read
        self.progress.counted += tally.counted
        self.progress.rejected += tally.rejected
        self.progress.doubt = self.progress.doubt or tally.doubt.text(
            self.pipeline.time, tally.read
        )
        self.progress.late += max(sequenced.late, *(each.late_count for each in late.values()), 0)
        return late

    def _advanced(self, newest: int | None) -> int | None:
        if newest is None:
            return None
        reached = newest - self.pipeline.lateness  # which may be shorter than it was
        return reached if self._watermark is None else max(self._watermark, reached)

    def _sealed(self, watermark: int | None) -> int | None:
        """Where the sealed panes end."""
        return None if watermark is None else watermark // self.pipeline.pane * self.pipeline.pane

    def _noted(self, written: Sequence[ClosedWindow]) -> None:
        self.progress.windows.update(w.reason for w in written if w.revision == 0)

    def _condition(self) -> dict[str, Any]:
        return {
            "seconds": round(self.progress.seconds, 3),
            "open": self._assembler.open_windows(),
            "failing": self._queries.failing,
            "doubt": self.progress.doubt,
            "runs": self._runs,
        }

    def _passing(self) -> dict[str, Any]:
        return {"webhook": self._alerts.said(), **self._of_source()}

    def _answer_commands(self) -> None:
        """Clients' commands wait in the ledger's control table; between them, a sign of life."""
        while not self._stopped.wait(ANSWER_SECONDS):
            try:
                self.status.beat()
                self._answer_waiting()
            except LedgerConflict as conflict:
                self.taken_over = conflict  # by another writer, which answers from now on
                return
            except LedgerError:
                continue  # busy, or a full disk: the command still waits

    def _answer_waiting(self) -> None:
        """Who asks the same while nobody answers repeats himself: that is obeyed once."""
        if not self.ledger.commands(self.pipeline.name):
            return
        if not self._lock.acquire(timeout=TURN_SECONDS):
            return  # a long batch, in which signs of life go on
        try:
            self._assembler.store_answers()
            waiting = self.ledger.commands(self.pipeline.name)
            for action, same in groupby(waiting, key=lambda command: command.action):
                asked: dict[str | None, list[int]] = {}
                for command in same:
                    asked.setdefault(command.arguments.get("summary"), []).append(command.id)
                for summary, ids in asked.items():
                    self._obey(action, summary, ids)
        finally:
            self._lock.release()

    def _obey(self, action: str, summary: str | None, asked: Sequence[int]) -> None:
        refused = f"unknown action {action!r}"
        if action in ("slow_down", "resume"):
            try:
                self.command(action, summary, asked)
            except LedgerError:
                raise
            except MuntinError as problem:
                refused = str(problem)
            else:
                return
        for command in asked:
            self.writer.answer(command, {"done": False, "why": refused})


def _cache_of(pipeline: Pipeline) -> SegmentCache:
    """What is decoded for a pipeline: its windows, standing queries and alerts share it."""
    trigger_seconds = (pipeline.trigger or 0) / 1e6
    return SegmentCache(kept_seconds=max(CACHE_SECONDS, 3 * trigger_seconds))


def _give_back() -> None:
    """Let the system have what is free. Batches come in a thread of their stream, and glibc keeps
    for each of up to 16 such threads as much as its largest batch has taken."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
