"""A stream that runs: a micro-batch is a commit, a changed file is taken over, an end is told."""

from __future__ import annotations

import logging
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from muntin.errors import MuntinError, SourceError, SpecError
from muntin.ledger.base import Ledger, Mode
from muntin.progress import Progress
from muntin.spark.checkpoint import check_there, each_once, make_folders, next_batch
from muntin.spark.failures import (
    NO_TOPIC,
    is_java_gone,
    told_once,
    unless_java_is_gone,
    worker_error,
)
from muntin.spark.files import FILE_FORMATS
from muntin.spark.frame_columns import needed
from muntin.spark.gathering import GatherRows, gather_from
from muntin.spark.ingest import Ingest
from muntin.spark.kafka_topics import MissedOffsets, Topics, check_ids, lag_of, made_again, with_ids
from muntin.spark.parquet import gather_batch
from muntin.spark.partials import Plan
from muntin.spark.progress import tasks_at_hand
from muntin.spark.rows import Row
from muntin.spark.running import RunningPipeline
from muntin.spark.source import nanoseconds_of, read_of
from muntin.spark.unchanged import check_as_planned
from muntin.spec import Pipeline, SourceSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_LOG = logging.getLogger("muntin.spark")
START_SECONDS_MAX = 60.0  # a query that started knows its id long before
WATCH_SECONDS = 0.5
AT_START = ("name", "source", "ledger", "checkpoint", "trigger", "spark")
"""Entries that a pipeline which runs was started with."""
RESTARTS_MAX = 20  # while an older process still writes to the checkpoint


class Stream(RunningPipeline):
    """A pipeline that runs. Ask it with `.sql`, stop it with `.stop`.

    Attributes
    ----------
    query : StreamingQuery
        Spark's own handle.
    once : bool
        It ends where it has taken all that is there.
    """

    def __init__(
        self,
        df: DataFrame,
        pipeline: Pipeline,
        ledger: Ledger,
        *,
        checkpoint: str,
        once: bool,
        mode: Mode,
        on_batch: Callable[[Ingest], None] | None,
        own_source: SourceSpec | None = None,
        ids: Mapping[str, Any] = {},
    ) -> None:
        """`own_source`: what `df` is the rows of, where nothing else was done to them; `ids`:
        Kafka's."""
        super().__init__(pipeline, once=once)
        told_once()
        self._df = df
        self._own_source, self._ids = own_source, ids
        self._nanoseconds = nanoseconds_of(df.sparkSession, own_source) if own_source else set()
        self._ledger = ledger
        self._ingest: Ingest | None = None
        self._problem: Exception | None = None
        self._restarts = 0
        self._known = threading.Event()
        before = {} if mode == "overwrite" else ledger.status(pipeline.name) or {}
        self._anew = made_again(before.get("kafka", {}), self._ids)
        self._missed = MissedOffsets(pipeline.source, before.get("missed", 0))
        self._topics = Topics(df.sparkSession, own_source)
        make_folders(df.sparkSession, checkpoint)
        begins = next_batch(checkpoint)
        self._writer = self._triggered(
            df.writeStream.queryName(pipeline.name)
            .option("checkpointLocation", checkpoint)
            .foreachBatch(_weakly(self._take))
        )
        self.query = self._writer.start()
        try:
            self._ingest = Ingest(
                pipeline,
                ledger,
                query_id=str(self.query.id),
                run=str(self.query.runId),
                mode=mode,
                begins=begins,
                on_batch=on_batch,
                ended_by=self._ended_by,
                of_source=self._of_source,
            )
        except Exception as problem:
            self._problem = problem
            self._known.set()
            self.query.stop()
            raise
        self._known.set()

    @property
    def progress(self) -> Progress:
        """What this run has done so far."""
        return self._ingest.progress if self._ingest else Progress()

    @property
    def ledger(self) -> Ledger:
        """Where the summaries go."""
        return self._ledger

    @property
    def ingest(self) -> Ingest | None:
        """The writer's side."""
        return self._ingest

    def reconfigure(self, spec: Pipeline | Mapping[str, Any] | str | Path) -> None:
        """Go on with another spec from the next batch: keys, indicators, new fields and queries.

        Raises
        ------
        SpecError, SourceError, LedgerConflict
            It is wrong, or cannot be taken over while running: the old one goes on, and the
            ledger's status says why until a better one comes.
        """
        try:
            pipeline = Pipeline.of(spec)
            for entry in AT_START:
                if getattr(pipeline, entry) != getattr(self._pipeline, entry):
                    raise SpecError(
                        f"{entry}: cannot change while the pipeline runs: start it again"
                    )
            needed(self._df, pipeline)
            if self._ingest is not None:
                self._ingest.reconfigure(pipeline)
        except MuntinError as problem:
            if self._ingest is not None:
                self._ingest.status.refuse(str(problem))
            raise
        self._pipeline = pipeline

    def await_termination(self, timeout: float | None = None) -> bool:
        """Wait until the query ends, or `timeout` seconds; True if it has ended.

        Raises
        ------
        MuntinError
            What ended the query, if that was ours.
        LedgerConflict
            Another process runs the pipeline now.
        """
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            left = WATCH_SECONDS if end is None else end - time.monotonic()
            try:
                ended = self.query.awaitTermination(max(0.001, min(left, WATCH_SECONDS)))  # pyright: ignore[reportArgumentType]
            except Exception as problem:  # the query's, or Java is gone
                if self._stopping:
                    ended = True
                elif self._restarted(problem):
                    continue
                else:
                    raise self._failed(problem) from None
            if self._ingest is not None and self._ingest.taken_over and not self._stopping:
                raise self._failed(self._ingest.taken_over)
            if ended:
                self._close()
                return True
            if end is not None and time.monotonic() >= end:
                return False

    def tasks(self) -> tuple[int, int]:
        """Tasks of the batch at hand: those that are done, and all."""
        return tasks_at_hand(self._df.sparkSession)

    def stop(self) -> None:
        """Stop after the batch at hand; what was committed stays, and a restart goes on."""
        self.ending()
        with nullcontext() if self._ingest is None else self._ingest.stopping():
            self._stop_query()
        self._close()

    def _take(self, df: DataFrame, batch_id: int) -> None:
        if not self._known.wait(START_SECONDS_MAX):
            raise SourceError("the streaming query did not start within a minute")
        ingest = self._ingest
        if ingest is None:
            raise self._problem or SourceError("the pipeline has not started")
        before = replace(ingest.progress)
        try:
            # asked once nobody changes the spec: columns must be those of the same one
            ingest.take(batch_id, lambda plan: self._gather(df, ingest.pipeline)(plan))
        except Exception as problem:
            if not self._stopping:
                self._problem = problem
            raise
        if ingest.progress.batches > before.batches:
            self._missed.took(batch_id, ingest.progress.read - before.read, self._anew)
            self._anew = []
        if ingest.progress.doubt not in ("", before.doubt):
            _LOG.warning("%s: %s", self._pipeline.name, ingest.progress.doubt)

    def _gather(self, df: DataFrame, pipeline: Pipeline) -> GatherRows:
        source, gather = self._own_source, None
        if source is not None:
            own = source.format in FILE_FORMATS and each_once(self.query, df.sparkSession)
            gather = gather_batch(df, source, pipeline, self._nanoseconds)
            df = read_of(own, source) if own else df
        gather = gather or gather_from(df, pipeline)

        def of_all(plan: Plan) -> Sequence[Row]:
            check_there(self.query)
            rows = gather(plan)
            if source is None or source.format in FILE_FORMATS:
                java: Any = self.query._jsq  # pyright: ignore[reportPrivateUsage]
                execution = java.streamingQuery().lastExecution()
                check_as_planned(execution, is_ours=source is not None)
            self._check_topics()
            return rows

        return of_all

    def _check_topics(self) -> None:
        """Spark would go on in a topic that was made again where it holds as many records."""
        there = self._topics.ids(patiently=True)
        check_ids(self._own_source, self._ids, there)
        self._anew += made_again(self._ids, there)
        self._ids = with_ids(self._own_source, self._ids, there)

    def _ended_by(self) -> str:
        """Why the query has ended by itself; "" while it runs, or was stopped."""
        if self._stopping:
            return ""
        try:
            problem = None if self.query.isActive else self.query.exception()
        except Exception as gone:
            problem = gone
        return "" if problem is None or is_log_taken(problem) else str(self._cause(problem))

    def lag(self) -> dict[str, dict[str, int]]:
        """Kafka's records that were not taken yet, by topic and partition; {} of another source."""
        source = self._pipeline.source
        with unless_java_is_gone():
            if source is not None and source.format == "kafka":
                return lag_of(self.query.lastProgress)  # pyright: ignore[reportArgumentType]
        return {}

    def _of_source(self) -> dict[str, Any]:
        """For the status: what waits in the source, and what is missed."""
        with unless_java_is_gone():
            self._missed.look(self.query)
        return {"kafka": self._ids, "lag": self.lag(), "missed": self._missed.count}

    def _stop_query(self) -> None:
        with unless_java_is_gone():
            self.query.stop()

    def _restarted(self, problem: Exception) -> bool:
        """Go on where an older process wrote to the checkpoint before it saw that it was fenced."""
        if not is_log_taken(problem) or self._restarts >= RESTARTS_MAX:
            return False
        if self._ingest is None or self._ingest.is_taken_over():
            return False
        self._restarts += 1
        time.sleep(WATCH_SECONDS)
        self._problem = None
        self.query = self._writer.start()
        return True

    def _failed(self, problem: Exception) -> Exception:
        """Say so in the ledger, end all, and give the error that tells why."""
        if self._ingest is not None and self._ingest.is_taken_over():
            self._problem = self._ingest.taken_over
        cause = self._cause(problem)
        self._problem = cause
        self._stopping = True
        if self._ingest is not None:
            self._ingest.status.fail(str(cause))
        self._stop_query()
        self._close()
        return cause

    def _ask(self, action: str, summary: str | None) -> dict[str, Any]:
        if self._ingest is None:
            return {"done": False, "why": "no batch has run yet"}
        return self._ingest.command(action, summary)

    def _cause(self, problem: Exception) -> Exception:
        """Our own error rather than Spark's account of it."""
        if isinstance(self._problem, MuntinError):
            return self._problem
        cause = worker_error(self._problem or problem)
        if str(cause) == NO_TOPIC:  # which one, Kafka alone can tell
            try:
                self._topics.ids()
            except SourceError as named:
                return named
        return cause

    def _close(self) -> None:
        ingest = self._ingest
        with self._closing:
            if ingest is None or self._closed:
                return
            self._closed = True
            try:
                if self._problem is None:
                    ingest.finish(ended=self.once and not self._stopping)
            finally:
                ingest.close()
                with unless_java_is_gone():
                    self._topics.close()


def _weakly(take: Callable[[DataFrame, int], None]) -> Callable[[DataFrame, int], None]:
    """`take`, for Spark, which never forgets it: what a stream holds would stay for good. While a
    stream runs, the thread of its `Ingest` holds it."""
    known = weakref.WeakMethod(take)

    def called(df: DataFrame, batch_id: int) -> None:
        found = known()
        if found is None:
            raise SourceError("the stream has ended: this batch comes again at the restart")
        found(df, batch_id)

    return called


_LOG_IS_TAKEN = (
    "CONCURRENT_STREAM_LOG_UPDATE",
    "Concurrent update to the log",  # of planned or committed batches
    "Multiple streaming queries are concurrently using",  # of a source's files; it has no name
)


def is_log_taken(problem: Exception) -> bool:
    """Has another query written the same entry of the checkpoint?"""
    if is_java_gone(problem):
        return False
    text = str(problem)  # of the stream's own error, the text is there and the name is not
    return any(words in text for words in _LOG_IS_TAKEN)
