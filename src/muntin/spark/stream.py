"""`muntin.stream`: a streaming DataFrame into a ledger, one commit a micro-batch."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from muntin.errors import MuntinError, SourceError, SpecError
from muntin.ledger.base import Ledger, Mode
from muntin.ledger.open import open_ledger
from muntin.meanwhile import meanwhile
from muntin.progress import Progress
from muntin.reading.warm import warm
from muntin.select.result import Result
from muntin.session import Session
from muntin.spark.failures import worker_error
from muntin.spark.ingest import Ingest, gather_from
from muntin.spark.session import session as spark_session
from muntin.spark.session import start_worker
from muntin.spark.source import check_path, needed, stream_source
from muntin.spec import Pipeline

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

START_SECONDS_MAX = 60.0  # a query that started knows its id long before


class Stream:
    """A pipeline that runs. Ask it with `.sql`, stop it with `.stop`.

    Attributes
    ----------
    query : StreamingQuery
        Spark's own handle.
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
    ) -> None:
        self._pipeline = pipeline
        self._ledger = ledger
        self._mode: Mode = mode
        self._on_batch = on_batch
        self._ingest: Ingest | None = None
        self._problem: Exception | None = None
        self._ended = False
        self._known = threading.Event()
        self._session = Session(ledger)
        writer = (
            df.writeStream.queryName(pipeline.name)
            .option("checkpointLocation", checkpoint)
            .foreachBatch(self._take)
        )
        if once:
            writer = writer.trigger(availableNow=True)
        elif pipeline.trigger:
            writer = writer.trigger(processingTime=f"{pipeline.trigger // 1000} milliseconds")
        self.query: StreamingQuery = writer.start()
        self._known.set()

    def sql(self, statement: str) -> Result:
        """Answer a SELECT over what was committed so far; see docs/select.md."""
        return self._session.sql(statement)

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
        """The writer's side; None before the first batch."""
        return self._ingest

    def slow_down(self, summary: str | None = None) -> dict[str, Any]:
        """Double the floating windows' length, up to their limit; tells what was done."""
        return self._command("slow_down", summary)

    def resume(self, summary: str | None = None) -> dict[str, Any]:
        """Back to the windows' own length; tells what was done."""
        return self._command("resume", summary)

    def reconfigure(self, spec: Pipeline | Mapping[str, Any] | str | Path) -> None:
        """Go on with another spec from the next batch: keys, indicators and queries may change."""
        pipeline = Pipeline.of(spec)
        if self._ingest is not None:
            self._ingest.reconfigure(pipeline)
        self._pipeline = pipeline

    def await_termination(self, timeout: float | None = None) -> bool:
        """Wait until the query ends, or `timeout` seconds; True if it has ended.

        Raises
        ------
        MuntinError
            What ended the query, if that was ours.
        """
        from pyspark.errors import StreamingQueryException

        try:
            if timeout is None:
                self.query.awaitTermination()
                ended = True
            else:
                ended = bool(self.query.awaitTermination(timeout))  # pyright: ignore[reportArgumentType]
        except StreamingQueryException as problem:
            self._close()
            raise self._cause(problem) from None
        if ended:
            self._close()
        return ended

    def caught_up(self) -> bool:
        """Has all been taken that the source is known to hold?"""
        status = self.query.status
        return not (status["isDataAvailable"] or status["isTriggerActive"])

    def stop(self) -> None:
        """Stop after the batch at hand; what was committed stays, and a restart goes on."""
        if self._ingest is None:
            self.query.stop()
        else:
            with self._ingest.stopping():
                self.query.stop()
        self._close()

    def _take(self, df: DataFrame, batch_id: int) -> None:
        if not self._known.wait(START_SECONDS_MAX):
            raise SourceError("the streaming query did not start within a minute")
        try:
            if self._ingest is None:
                self._ingest = Ingest(
                    self._pipeline,
                    self._ledger,
                    query_id=str(self.query.id),
                    mode=self._mode,
                    on_batch=self._on_batch,
                )
            self._ingest.take(batch_id, gather_from(df, self._ingest.pipeline))
        except Exception as problem:
            self._problem = problem
            raise

    def _command(self, action: str, summary: str | None) -> dict[str, Any]:
        if summary is not None and summary not in self._pipeline.summaries:
            there = ", ".join(self._pipeline.summaries)
            raise SpecError(f"no summary '{summary}'; there are {there}")
        if self._ingest is None:
            return {"done": False, "why": "no batch has run yet"}
        return self._ingest.command(action, summary)

    def _cause(self, problem: Exception) -> Exception:
        """Our own error rather than Spark's account of it."""
        if isinstance(self._problem, MuntinError):
            return self._problem
        return worker_error(self._problem or problem)

    def _close(self) -> None:
        ingest = self._ingest
        if ingest is not None and not self._ended:
            self._ended = True
            try:
                if self._problem is None:
                    ingest.finish()
            finally:
                ingest.close()


def stream(
    data: DataFrame | None,
    spec: Pipeline | Mapping[str, Any] | str | Path,
    *,
    checkpoint: str | None = None,
    ledger: Ledger | str | None = None,
    once: bool = False,
    mode: Mode = "continue",
    on_batch: Callable[[Ingest], None] | None = None,
) -> Stream:
    """Summarise a stream, pane by pane, one commit a micro-batch, exactly once.

    Parameters
    ----------
    data : DataFrame or None
        A streaming DataFrame (`spark.readStream...`), or None for the spec's own source.
    spec : Pipeline, mapping or path
        The pipeline, as an object, as keywords, or as a YAML file.
    checkpoint : str, optional
        Spark's checkpoint folder; by default the spec's, or beside the ledger.
    ledger : Ledger or str, optional
        By default the spec's ledger.
    once : bool
        Take all that is there, then stop.
    mode : {"continue", "append", "overwrite"}
        What to do if another query has fed the ledger; "continue" refuses.
    on_batch : callable, optional
        Called after each batch.

    Raises
    ------
    SpecError, SourceError
        The spec or the source are wrong; nothing was started.
    """
    pipeline = Pipeline.of(spec)
    if ledger is None:
        ledger = pipeline.ledger_url
    url = ledger if isinstance(ledger, str) else ledger.url
    opened = open_ledger(ledger) if isinstance(ledger, str) else ledger
    if data is None:
        data = _own_source(pipeline)
    if not data.isStreaming:
        raise SourceError(
            "this DataFrame is not streaming: use spark.readStream, or muntin.summarize"
        )
    needed(data, pipeline)
    warm(pipeline)
    return Stream(
        data,
        pipeline,
        opened,
        checkpoint=checkpoint or pipeline.checkpoint or checkpoint_beside(url, pipeline.name),
        once=once,
        mode=mode,
        on_batch=on_batch,
    )


def _own_source(pipeline: Pipeline) -> DataFrame:
    """The spec's source as a stream; kernels and Python workers get ready while Spark does."""
    if pipeline.source is None:
        raise SpecError("source: is missing: name one, or give stream a DataFrame")
    check_path(pipeline.source)
    with meanwhile(lambda: warm(pipeline)):
        spark = spark_session(settings=pipeline.spark)
        with meanwhile(lambda: start_worker(spark)):
            return stream_source(spark, pipeline.source)


def checkpoint_beside(url: str, name: str) -> str:
    """The default checkpoint folder of a pipeline: beside its ledger's file."""
    if url.startswith("sqlite:///"):
        path = url.removeprefix("sqlite:///").partition("?")[0]
        return f"{path}.checkpoints/{name}"
    raise SpecError(f"checkpoint: is missing, and a ledger {url} has no folder to put it beside")
