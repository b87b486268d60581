"""`muntin.summarize`: a whole DataFrame, or files, into a ledger."""

from __future__ import annotations

import uuid
import warnings
from collections.abc import Mapping, Sequence
from os.path import expanduser
from pathlib import Path
from typing import TYPE_CHECKING, Any

from muntin.background import in_background
from muntin.errors import BadArgument, SourceError, SpecError, needs
from muntin.ledger.base import Ledger, Mode
from muntin.ledger.open import open_ledger
from muntin.ledger.temporary import forget
from muntin.progress import Progress
from muntin.reading.warm import warm
from muntin.session import Session
from muntin.spark.connector import with_connector
from muntin.spark.failures import plainly
from muntin.spark.files import FILE_FORMATS, files_at, local_path
from muntin.spark.frame_columns import may_read, needed
from muntin.spark.gathering import GatherRows, gather_from
from muntin.spark.ingest import Ingest
from muntin.spark.kafka import is_raw
from muntin.spark.parquet import gather_parquet
from muntin.spark.preflight import check_before, existing_ledger
from muntin.spark.progress import job_progress
from muntin.spark.session import check_evaluates, frame_of, is_classic
from muntin.spark.session import session as spark_session
from muntin.spark.source import batch_source, check_source
from muntin.spark.tables import arrow_of, gather_table, is_table, spark_table
from muntin.spec import Pipeline, SourceSpec, format_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from muntin.spark.tables import SupportsArrow

    Given = DataFrame | SupportsArrow | str | Path | Sequence[str | Path]


def summarize(
    data: Given | None,
    spec: Pipeline | Mapping[str, Any] | str | Path,
    *,
    ledger: Ledger | str | None = None,
    mode: Mode = "error",
    progress: bool | None = None,
) -> Session:
    """Summarise all of a DataFrame, pane by pane, in one commit.

    Parameters
    ----------
    data : DataFrame, table, path, list of paths or None
        A Spark DataFrame; a pandas or polars DataFrame or an Arrow table, which need no Spark
        unless the spec has fields; the path of a file or a folder, or several; or None for the
        spec's own source. Files are of the format that their names tell (.csv, .json, .jsonl,
        .parquet, .orc, .avro), else of that of the spec's source, else Parquet. Local Parquet
        files are read by Arrow in the workers (faster), unless the spec has fields.
    spec : Pipeline, mapping or path
        The pipeline, as an object, as keywords, or as a YAML file.
    ledger : Ledger or str, optional
        Where to; by default the spec's ledger or, where the spec names none, a new one in memory.
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
    where = pipeline.ledger or f"memory://{pipeline.name}" if ledger is None else ledger
    # nobody asked to keep it: the same cell may run again
    is_new = ledger is None and not pipeline.ledger and mode == "error"
    opened = None if is_new else existing_ledger(where)
    check_before(pipeline, opened, mode)
    with plainly():
        gather = _gather(data, pipeline)
    if is_new:
        forget(pipeline.name)
    opened = opened or open_ledger(where)  # pyright: ignore[reportArgumentType]
    query_id = f"batch-{uuid.uuid4()}"
    ingest = Ingest(pipeline, opened, query_id=query_id, mode=mode)
    try:
        with job_progress(progress, f"summarising {pipeline.name}"):
            ingest.take_all(gather)
    finally:
        ingest.close()
    _warn_of_rejected(opened, pipeline, ingest.progress)
    if ingest.progress.doubt:
        warnings.warn(ingest.progress.doubt, stacklevel=2)
    return Session(opened, progress=ingest.progress)


def _warn_of_rejected(ledger: Ledger, pipeline: Pipeline, progress: Progress) -> None:
    """A wrong unit rejects all there is, and nobody would see why the answers are empty."""
    if progress.rejected <= progress.read * pipeline.max_rejected:
        return
    first = next(ledger.rejected(pipeline.name, limit=1), None)
    why = f": {first[1].reason}, {first[1].detail} ({first[1].place})" if first else ""
    warnings.warn(
        f"{progress.rejected:,} of {progress.read:,} records were rejected{why}; "
        f"more in session.ledger.rejected({pipeline.name!r})",
        stacklevel=3,
    )


def _gather(data: Given | None, pipeline: Pipeline) -> GatherRows:
    if data is None or isinstance(data, str | Path):
        gather = _of_files([_source(data, pipeline)], pipeline)
    elif hasattr(data, "mapInArrow"):
        if data.isStreaming:  # pyright: ignore[reportAttributeAccessIssue]
            raise SourceError(
                "this DataFrame is a stream: give it to muntin.stream, or read it by spark.read"
            )
        gather = gather_from(data, pipeline)  # pyright: ignore[reportArgumentType]
    elif is_table(data):
        gather = _of_table(data, pipeline)
    elif isinstance(data, Sequence) and data and all(isinstance(d, str | Path) for d in data):
        gather = _of_files([_source(path, pipeline) for path in data], pipeline)
    else:
        raise BadArgument(
            "summarize takes a Spark, pandas or polars DataFrame, an Arrow table, a path, or a "
            f"list of paths, not {ascii(data).splitlines()[0][:80]} ({type(data).__name__})"
            + ("; a lazy one has a table's rows after .collect()" * hasattr(data, "collect"))
        )
    warm(pipeline)
    return gather


def _of_table(data: Any, pipeline: Pipeline) -> GatherRows:
    if not pipeline.fields:
        return gather_table(data, pipeline)
    needs("spark", "fields:")
    spark = spark_session(settings=pipeline.spark)  # which evaluates them
    check_evaluates(spark, pipeline.fields)
    table = arrow_of(data).read_all()
    try:
        try:
            frame = frame_of(spark, spark_table(table))
        except Exception:  # it has types that Spark lacks
            frame = frame_of(spark, spark_table(_named(table, pipeline)))
    except ValueError as problem:  # Arrow's, too
        raise SourceError(f"Spark does not take this table: {problem}") from None
    return gather_from(frame, pipeline)


def _named(table: Any, pipeline: Pipeline) -> Any:
    """The columns that the pipeline or its fields name."""
    named = may_read(pipeline, table.column_names)
    wanted = [at for at, name in enumerate(table.column_names) if name in named]
    return table.select(wanted) if wanted else table


def _of_files(sources: Sequence[SourceSpec], pipeline: Pipeline) -> GatherRows:
    needs("spark", "summarising files")
    for source in sources:
        check_source(source)
    with in_background(lambda: warm(pipeline)):  # while Spark starts
        spark = spark_session(settings=with_connector(pipeline.source, pipeline.spark))
        check_evaluates(spark, pipeline.fields)
        gathers = [_of_source(spark, source, pipeline) for source in sources]
    return lambda plan: [row for each in gathers for row in each(plan)]


def _of_source(spark: SparkSession, source: SourceSpec, pipeline: Pipeline) -> GatherRows:
    # of Spark Connect there is no way to have tasks read files
    gather = gather_parquet(spark, source, pipeline) if is_classic(spark) else None
    if gather is not None:
        return gather
    frame = batch_source(spark, source, pipeline)
    if is_raw(frame):
        needed(frame, pipeline)
    return gather_from(frame, pipeline, is_ours=True)


def _source(path: str | Path | None, pipeline: Pipeline) -> SourceSpec:
    """The spec's own source; or files of the format that their names tell, else of the spec's. With
    the spec's options, where that is its own format."""
    own = pipeline.source
    if path is None:
        if own is None:
            raise SpecError("source: is missing: name one, or give summarize a DataFrame")
        return own
    name = expanduser(path)
    usual = own.format if own is not None and own.format in FILE_FORMATS else "parquet"
    kind = format_of(name) or _format_inside(name) or usual
    if own is not None and own.format == kind:
        return own.model_copy(update={"path": name})
    return SourceSpec(format=kind, path=name)


def _format_inside(path: str) -> str | None:
    """What the names of all files in a folder tell."""
    here = local_path(path)
    kinds = {format_of(file) for file in files_at(here)} if here else set()
    return kinds.pop() if len(kinds) == 1 else None
