"""`muntin.summarize`: a whole DataFrame, or files, into a ledger."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from muntin.errors import SpecError
from muntin.ledger.base import Ledger, Mode
from muntin.ledger.open import open_ledger
from muntin.meanwhile import meanwhile
from muntin.reading.warm import warm
from muntin.session import Session
from muntin.spark.csv_files import gather_csv
from muntin.spark.ingest import GatherRows, Ingest, gather_from
from muntin.spark.parquet import gather_parquet
from muntin.spark.progress import job_progress
from muntin.spark.session import session as spark_session
from muntin.spark.source import batch_source, check_path
from muntin.spec import Pipeline, SourceSpec

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
        A Spark DataFrame; or the path of Parquet files, or of files that end in .csv or .json; or
        None for the spec's own source. Local Parquet and CSV files are read by Arrow in the
        workers (faster), unless the spec has fields.
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
    if data is not None and not isinstance(data, str | Path):
        gather = gather_from(data, pipeline)
    else:
        source = _source(data, pipeline)
        check_path(source)
        with meanwhile(lambda: warm(pipeline)):  # while Spark starts
            spark = spark_session(settings=pipeline.spark)
            gather = gather_parquet(spark, source, pipeline) or gather_csv(spark, source, pipeline)
            gather = gather or gather_from(batch_source(spark, source), pipeline)
    warm(pipeline)
    return gather


def _source(path: str | Path | None, pipeline: Pipeline) -> SourceSpec:
    """The spec's own source, or files of the same format and options, or of that of their name."""
    own = pipeline.source
    if path is None:
        if own is None:
            raise SpecError("source: is missing: name one, or give summarize a DataFrame")
        return own
    kind = Path(path).suffix[1:]
    kind = kind if kind in ("csv", "json") else "parquet"
    if own is not None and own.format == kind:
        return own.model_copy(update={"path": str(path)})
    return SourceSpec(format=kind, path=str(path))
