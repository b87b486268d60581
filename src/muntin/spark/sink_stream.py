"""`muntin.stream` where there is no SparkContext: the query writes by `format("muntin")`.

Batches are committed beside Spark's driver, and windows close there (`committing`). This process
starts and stops the query, and reads the ledger as any other reader would: it may be another
machine, where the ledger's URL must be right as well if it shall be asked here.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from muntin.errors import LedgerError, MuntinError, SpecError
from muntin.ledger.base import Ledger, Mode
from muntin.ledger.open import open_ledger
from muntin.progress import Progress
from muntin.spark.failures import worker_error
from muntin.spark.frame_columns import needed
from muntin.spark.ingest import Ingest
from muntin.spark.kafka_topics import lag_of
from muntin.spark.running import RunningPipeline
from muntin.spark.session import register
from muntin.spec import Pipeline

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ANSWER_SECONDS_MAX = 10.0  # until the process that commits has obeyed a command


class SinkStream(RunningPipeline):
    """A pipeline that runs elsewhere. Ask it with `.sql`, stop it with `.stop`.

    Attributes
    ----------
    query : StreamingQuery
        Spark's own handle.
    """

    ingest = None  # the writer's side is not in this process

    def __init__(
        self,
        df: DataFrame,
        pipeline: Pipeline,
        url: str,
        *,
        checkpoint: str,
        once: bool,
        mode: Mode,
    ) -> None:
        super().__init__(pipeline, once=once)
        self._url = url
        self._opened: Ledger | None = None
        register(df.sparkSession)
        columns, _ = needed(df, pipeline)
        writer = self._triggered(
            columns.writeStream.format("muntin")
            .queryName(pipeline.name)
            .options(spec=json.dumps(pipeline.as_json()), ledger=url, mode=mode)
            .option("checkpointLocation", checkpoint)
        )
        self.query = writer.start()

    @property
    def ledger(self) -> Ledger:
        """Where the summaries go.

        Raises
        ------
        LedgerError
            No batch was committed yet, or it cannot be reached from here.
        """
        if self._opened is None:
            self._opened = open_ledger(self._url, create=False)
        return self._opened

    @property
    def progress(self) -> Progress:
        """What the pipeline has done so far, as its ledger tells."""
        found = Progress()
        try:
            info = self.ledger.pipeline(self._pipeline.name)
        except LedgerError:
            return found
        if info is not None:
            found.batches, found.read, found.counted = info.batches, info.read, info.counted
            found.late, found.rejected, found.newest = info.late, info.rejected, info.max_event_time
            found.seconds = (self.ledger.status(info.name) or {}).get("seconds", 0.0)
        return found

    def reconfigure(self, spec: Pipeline | Mapping[str, Any] | str | Path) -> None:
        """SpecError: this way, a changed spec is taken over by a restart."""
        if Pipeline.of(spec) != self._pipeline:
            raise SpecError(
                "a pipeline that runs by Spark Connect takes a changed spec at a restart"
            )

    def await_termination(self, timeout: float | None = None) -> bool:
        """Wait until the query ends, or `timeout` seconds; True if it has ended.

        Raises
        ------
        MuntinError
            What ended the query, if that was ours.
        """
        try:
            ended = self.query.awaitTermination(timeout)  # pyright: ignore[reportArgumentType]
        except Exception as problem:
            raise self._failed(problem) from None
        if timeout is not None and not ended:
            return False
        problem = self.query.exception()
        if problem is not None:
            raise self._failed(problem)
        self._close("")
        return True

    def tasks(self) -> tuple[int, int]:
        """Nothing is known of the tasks of the batch at hand."""
        return 0, 0

    def lag(self) -> dict[str, dict[str, int]]:
        """Kafka's records that were not taken yet, by topic and partition; {} of another source."""
        return lag_of(self.query.lastProgress)  # pyright: ignore[reportArgumentType]

    def stop(self) -> None:
        """Stop; a batch that is not committed yet comes again at the restart."""
        self.ending()
        self.query.stop()
        self._close("")

    def _ask(self, action: str, summary: str | None) -> dict[str, Any]:
        if not self.query.isActive:  # else it would wait in the ledger for another run
            return {"done": False, "why": "the query has ended"}
        arguments = {} if summary is None else {"summary": summary}
        asked = self.ledger.ask(self._pipeline.name, action, arguments)
        end = time.monotonic() + ANSWER_SECONDS_MAX
        while time.monotonic() < end:
            command = self.ledger.command(asked.id)
            if command is not None and command.answer is not None:
                return dict(command.answer)
            time.sleep(0.05)
        return {"done": False, "why": "it is done with the next batch"}

    def _failed(self, problem: Exception) -> Exception:
        cause = worker_error(problem)
        self._close(str(cause))
        return cause

    def _close(self, why: str) -> None:
        """The last word in the ledger, and all housekeeping, where it can be reached from here."""
        with self._closing:
            if self._closed:
                return
            self._closed = True
            try:
                ingest = Ingest(
                    self._pipeline,
                    self.ledger,
                    query_id=str(self.query.id),
                    run=str(self.query.runId),
                )
            except MuntinError:  # it lies elsewhere, or another run writes to it
                return
            try:
                if why:
                    ingest.status.fail(why)
                else:
                    ingest.finish(ended=self.once and not self._stopping)
            finally:
                ingest.close()
