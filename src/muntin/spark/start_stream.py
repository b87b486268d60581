"""`muntin.stream`: all that is looked at before a query starts, and its start."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from muntin.background import in_background
from muntin.errors import SourceError, needs
from muntin.ledger.base import Ledger, Mode
from muntin.ledger.open import absolute, open_ledger
from muntin.ledger.records import Batch
from muntin.ledger.rules import check_sequence
from muntin.reading.warm import warm
from muntin.spark.checkpoint import (
    check_not_older,
    check_undamaged,
    checkpoint_beside,
    delete_checkpoint,
    for_local_files,
    next_batch,
    planned,
    query_of,
    written_anew,
)
from muntin.spark.connector import with_connector
from muntin.spark.failures import plainly
from muntin.spark.files import local_path
from muntin.spark.frame_columns import needed
from muntin.spark.ingest import Ingest
from muntin.spark.kafka_topics import check_ids, check_topics, ids_of, with_ids
from muntin.spark.preflight import check_before, existing_ledger
from muntin.spark.session import check_evaluates, is_elsewhere, start_worker
from muntin.spark.session import session as spark_session
from muntin.spark.sink_stream import SinkStream
from muntin.spark.source import check_source, stream_source
from muntin.spark.stream import Stream
from muntin.spec import Pipeline

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_LOG = logging.getLogger("muntin.spark")


def stream(
    data: DataFrame | None,
    spec: Pipeline | Mapping[str, Any] | str | Path,
    *,
    checkpoint: str | None = None,
    ledger: Ledger | str | None = None,
    once: bool = False,
    mode: Mode = "continue",
    on_batch: Callable[[Ingest], None] | None = None,
) -> Stream | SinkStream:
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
        Take all that is there, then stop. Windows that are open then close with the reason `end`;
        where more comes at the next run, they close again, as the next revision.
    mode : {"continue", "append", "overwrite"}
        What to do if another query has fed the ledger; "continue" refuses. "overwrite" deletes
        the pipeline's data and its checkpoint.
    on_batch : callable, optional
        Called after each batch; not by Spark Connect, where batches end elsewhere.

    Returns
    -------
    Stream, or SinkStream by Spark Connect
        There the query writes by `format("muntin")`, and ledger and checkpoint are where Spark's
        driver finds them.

    Raises
    ------
    SpecError, SourceError
        The spec or the source are wrong; nothing was started.
    """
    needs("spark", "muntin.stream")
    with plainly():
        if data is not None and not getattr(data, "isStreaming", False):
            raise SourceError(
                f"stream takes a streaming DataFrame, and this {type(data).__name__} is none: use "
                "spark.readStream, or muntin.summarize"
            )
    pipeline = Pipeline.of(spec)
    own_source = check_source(pipeline.source) if data is None else None
    if ledger is None:
        ledger = pipeline.ledger_url
    url = ledger.url if isinstance(ledger, Ledger) else str(ledger)
    if is_elsewhere(data):
        address = url if isinstance(ledger, str) else getattr(ledger, "address", url)
        return _elsewhere(data, pipeline, absolute(address), checkpoint, once=once, mode=mode)
    opened = existing_ledger(ledger)
    place = checkpoint or pipeline.checkpoint or checkpoint_beside(url, pipeline.name)
    if mode != "overwrite":
        check_undamaged(place)
        check_topics(own_source, planned(place))
        _tell_of_written_anew(pipeline.name, place)
    query_id = "" if mode == "overwrite" else query_of(place)
    if mode != "overwrite" and query_id:
        begins = next_batch(place)  # first: a process that still runs commits to the ledger first
        last = opened and opened.last_batch(pipeline.name, query_id)
        check_not_older(place, last)
        check_sequence(pipeline.name, mode, Batch(query_id, begins), last)
    if query_id is not None:
        check_before(pipeline, opened, mode, query_id)
    if data is None:
        with plainly():
            data = _own_source(pipeline, place)
    ids = ids_of(data.sparkSession, own_source)
    if opened is not None and mode != "overwrite" and query_id:
        known = (opened.status(pipeline.name) or {}).get("kafka", {})
        check_ids(own_source, known, ids)
        ids = with_ids(own_source, known, ids)
    needed(data, pipeline)
    opened = opened or open_ledger(ledger)  # pyright: ignore[reportArgumentType]
    if own_source is None:
        warm(pipeline)
    if mode == "overwrite":
        delete_checkpoint(data.sparkSession, place)
    return Stream(
        data,
        pipeline,
        opened,
        checkpoint=place,
        once=once,
        mode=mode,
        on_batch=on_batch,
        own_source=own_source,
        ids=ids,
    )


def _tell_of_written_anew(name: str, place: str) -> None:
    """What lies in a file that was taken before is in no count, and nothing else would say so."""
    if files := written_anew(place):
        more = f" and {len(files) - 1:,} more were" if len(files) > 1 else " was"
        _LOG.warning(
            "%s: %s%s written anew, or touched, since it was counted. Each file is read once, by "
            "its name: what is new in it is in no count. Write that to a file of another name, or "
            'read all again with mode="overwrite" (--reset)', name, files[0], more,
        )  # fmt: skip


def _elsewhere(
    data: DataFrame | None,
    pipeline: Pipeline,
    url: str,
    checkpoint: str | None,
    *,
    once: bool,
    mode: Mode,
) -> SinkStream:
    """By Spark Connect, which has no way to delete a checkpoint, nor to call back."""
    place = checkpoint or pipeline.checkpoint or checkpoint_beside(url, pipeline.name)
    here = local_path(place)
    if mode == "overwrite" and query_of(place) != "":
        raise SourceError(
            f"checkpoint: {place} may hold what an older query has read, and Spark Connect cannot "
            "delete it: delete it, or give another one"
        )
    check_undamaged(place)
    check_topics(pipeline.source if data is None else None, planned(place))
    with plainly():
        if data is None:
            data = _own_source(pipeline)
        return SinkStream(data, pipeline, url, checkpoint=str(here or place), once=once, mode=mode)


def _own_source(pipeline: Pipeline, checkpoint: str = "") -> DataFrame:
    """The spec's source as a stream; kernels and Python workers get ready while Spark does."""
    assert pipeline.source is not None  # noqa: S101 (`check_source` has seen it)
    with in_background(lambda: warm(pipeline)):
        settings = with_connector(pipeline.source, pipeline.spark)
        spark = for_local_files(spark_session(settings=settings), checkpoint)
        check_evaluates(spark, pipeline.fields)
        with in_background(lambda: start_worker(spark)):
            return stream_source(spark, pipeline.source, pipeline)
