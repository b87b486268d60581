"""`muntin.summarize`: a whole DataFrame, or files, into a ledger."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from muntin.ledger.base import Ledger, Mode
from muntin.ledger.open import open_ledger
from muntin.reading.warm import warm
from muntin.session import Session
from muntin.spark.ingest import GatherRows, Ingest, gather_from
from muntin.spark.parquet import gather_parquet, parquet_files
from muntin.spark.progress import job_progress
from muntin.spark.session import session as spark_session
from muntin.spark.source import batch_source
from muntin.spec import Pipeline

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def summarize(
    data: DataFrame | str | Path | None,
    spec: Pipeline | Mapping[str, Any] | str | Path,
    *,
    ledger: Ledger | str | None = None,
    mode: Mode = "error",
    progress: bool | None = None,
) -> Session:
    """Summarise all of a DataFrame, pane by pane, in one commit.

    Parameters
    ----------
    data : DataFrame, path or None
        A Spark DataFrame; or the path of Parquet files, which the workers then read themselves
        (faster); or None for the spec's own source.
    spec : Pipeline, mapping or path
        The pipeline, as an object, as keywords, or as a YAML file.
    ledger : Ledger or str, optional
        Where to; by default the spec's ledger, or `memory://` where the spec names none.
    mode : {"error", "append", "overwrite"}
        What to do if the ledger already has data of this pipeline, as Spark's save modes.
    progress : bool, optional
        Show a progress bar; by default where standard error is a terminal.

    Returns
    -------
    Session
        Ask it with `.sql("SELECT ...")`.

    Raises
    ------
    SpecError, SourceError
        The spec or the data are wrong; nothing was written.
    LedgerConflict
        The ledger has data of this pipeline and mode is "error".
    SummaryOverflow
        A sum left int64; nothing was written.
    """
    pipeline = Pipeline.of(spec)
    opened = _ledger(ledger, pipeline)
    gather = _gather(data, pipeline)
    query_id = f"batch-{uuid.uuid4()}"
    ingest = Ingest(pipeline, opened, query_id=query_id, mode=mode)
    try:
        with job_progress(progress, f"summarising {pipeline.name}"):
            ingest.take(0, gather)
        ingest.finish()
    finally:
        ingest.close()
    return Session(opened, progress=ingest.progress)


def _ledger(ledger: Ledger | str | None, pipeline: Pipeline) -> Ledger:
    if ledger is None:
        return open_ledger(pipeline.ledger or f"memory://{pipeline.name}")
    return open_ledger(ledger) if isinstance(ledger, str) else ledger


def _gather(data: DataFrame | str | Path | None, pipeline: Pipeline) -> GatherRows:
    source = pipeline.source
    if data is None and source is not None and source.is_plain_parquet:
        data = source.path
    if isinstance(data, str | Path):
        files = [] if pipeline.fields else parquet_files(str(data))
        spark = spark_session(settings=pipeline.spark)
        if files:
            gather = gather_parquet(spark, files, pipeline)
            warm(pipeline)
            return gather
        data = spark.read.parquet(str(data))
    elif data is None:
        data = batch_source(spark_session(settings=pipeline.spark), _required(pipeline))
    gather = gather_from(data, pipeline)
    warm(pipeline)
    return gather


def _required(pipeline: Pipeline) -> Any:
    from muntin.errors import SpecError

    if pipeline.source is None:
        raise SpecError("source: is missing: name one, or give summarize a DataFrame")
    return pipeline.source
