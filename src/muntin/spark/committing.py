"""What `format("muntin")` does: in tasks, and in the process beside the driver that commits.

That process is Spark's, and may be replaced between two batches. It keeps the pipeline's writer for
a run of the query (from a start to its end), or opens one: a later process of the same run goes on,
and one of an earlier run is refused, however long its driver was frozen.

The pipeline's writer also closes windows, in the commit of the batch that seals their panes.
"""

import threading
import uuid
from collections.abc import Iterable, Sequence

import pyarrow as pa

from muntin.arrow import ipc_bytes
from muntin.errors import BadArgument
from muntin.ledger.base import Mode
from muntin.ledger.files import GARBAGE_AGE_US, PayloadFolder, fetch, payload_folder
from muntin.ledger.open import open_ledger
from muntin.ledger.records import Stored
from muntin.spark.checkpoint import check_not_older, check_read_once, check_undamaged
from muntin.spark.gathering import plan_of
from muntin.spark.ingest import Ingest
from muntin.spark.kafka import placed
from muntin.spark.partials import fold_placed
from muntin.spark.pipeline_status import query_runs
from muntin.spark.rows import SPILLED, Row, as_batches, from_table
from muntin.spec import Pipeline
from muntin.times import now_us

MESSAGE_BYTES_MAX = 128 << 20  # of one task; at 400 MiB the driver ran out of memory and hung
SPILL_BYTES = 8 << 20  # of one task, where the pipeline names a place for them
_QUERY, _RUN = "sql.streaming.queryId", "spark.jobGroup.id"  # local properties of a batch's job

Written = tuple[str, str, list[Row]]
"""Query, run, and what came of the rows; the first two are "" in a batch job."""

_lock = threading.Lock()
_open: dict[tuple[str, str], tuple[str, Ingest]] = {}


def fold_task(pipeline: Pipeline, batches: Iterable[pa.RecordBatch]) -> Written:
    """In a task: fold its rows. A large summary goes to a file, and its name to the driver. Raises
    BadArgument: it is too large for a message to the driver."""
    from pyspark import TaskContext

    context = TaskContext.get()
    query, run, where = "", "", ""
    if context is not None:
        query = context.getLocalProperty(_QUERY) or ""
        run = context.getLocalProperty(_RUN) or "" if query else ""
        where = f"partition {context.partitionId()}, "
    folder = _spill_folder(pipeline)
    rows, size = [], 0
    for row in fold_placed(plan_of(pipeline, now_us()), placed(batches), where):
        size += len(row[-1])
        if size > MESSAGE_BYTES_MAX:
            raise BadArgument(
                f"a task's summaries are more than {MESSAGE_BYTES_MAX >> 20} MiB, too large for a "
                f"message to the driver ({row[1]!r}): name a place for them as payloads:, such as "
                "s3://bucket/folder, give Spark more and smaller partitions, or write shards: for "
                "it and use muntin.stream or summarize with a SparkContext"
            )
        rows.append(row)
        if folder is not None and size > SPILL_BYTES:
            rows, size = [*_named(rows), _spilled(folder, rows)], 0
    return query, run, rows


def _spill_folder(pipeline: Pipeline) -> PayloadFolder | None:
    if not pipeline.payloads:
        return None
    return payload_folder("", pipeline.payloads, f"messages-{pipeline.name}", 0)


def _spilled(folder: PayloadFolder, rows: Sequence[Row]) -> Row:
    """Rows in a file, but for those that name such files."""
    batches = list(as_batches(row for row in rows if row[0] != SPILLED))
    stored = folder.write("rows", ipc_bytes(batches, batches[0].schema), lasting=False)
    return SPILLED, "", 0, stored.to_bytes()


def _named(rows: Iterable[Row]) -> list[Row]:
    return [row for row in rows if row[0] == SPILLED]


def _whole(rows: Iterable[Row]) -> list[Row]:
    """Rows, and those of the files that they name, if these are seen from here as written."""
    found = []
    for row in rows:
        if row[0] == SPILLED:
            data = fetch(Stored.from_bytes(row[-1]), "")
            found += from_table(pa.ipc.open_stream(data).read_all())
        else:
            found.append(row)
    return found


def forget_spilled(pipeline: Pipeline, rows: Iterable[Row]) -> None:
    """Delete the files that messages name, and those of tries that were given up long ago."""
    folder, named = _spill_folder(pipeline), _named(rows)
    if folder is not None and named:
        folder.delete([Stored.from_bytes(row[-1]).path for row in named])
        folder.sweep((), {}, now_us() - GARBAGE_AGE_US)


def commit_all(pipeline: Pipeline, url: str, mode: Mode, written: Written) -> None:
    """A batch job: one commit, then all housekeeping."""
    ledger = open_ledger(url)
    try:
        ingest = Ingest(pipeline, ledger, query_id=f"batch-{uuid.uuid4()}", mode=mode)
        try:
            ingest.take_all(lambda _: _whole(written[2]))
        finally:
            ingest.close()
    finally:
        ledger.close()
    forget_spilled(pipeline, written[2])


def commit_batch(
    pipeline: Pipeline, url: str, mode: Mode, written: Written, batch_id: int, checkpoint: str = ""
) -> None:
    """A micro-batch: one commit, unless it was committed already.

    `checkpoint`: Spark's, "" where it is not known. Of a damaged one nothing is committed,
    nor what Spark has read several times.
    """
    check_read_once(checkpoint, batch_id)
    query, run, rows = written
    with _lock:
        ingest = _ingest(pipeline, url, mode, query, run, batch_id, checkpoint)
        ingest.take(batch_id, lambda _: _whole(rows))
    forget_spilled(pipeline, rows)


def _ingest(
    pipeline: Pipeline, url: str, mode: Mode, query: str, run: str, batch_id: int, checkpoint: str
) -> Ingest:
    key = (url, pipeline.name)  # whatever else its spec says: a changed one comes with a new run
    opened = _open.pop(key, None)
    if opened is not None and opened[0] != run:
        opened[1].close()
        opened[1].ledger.close()
        opened = None
    if opened is None:
        check_undamaged(checkpoint)
        ledger = open_ledger(url)
        try:
            if mode != "overwrite":
                check_not_older(checkpoint, ledger.last_batch(pipeline.name, query))
            if mode == "overwrite" and (batch_id or run in query_runs(ledger, pipeline.name)):
                mode = "continue"  # that was done when the query began
            opened = run, Ingest(pipeline, ledger, query_id=query, mode=mode, run=run)
        except BaseException:
            ledger.close()
            raise
    _open[key] = opened
    return opened[1]
