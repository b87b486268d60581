"""`format("muntin")`: into a ledger and out of it by Spark's own interface for data sources.

It needs no SparkContext, which Spark Connect has not. Tasks fold their rows into messages; `commit`
gets all messages of a batch, in one Python process beside the driver, and puts them into the ledger
(`committing`). Spark imports this module wherever it plans, so it imports what is large when used.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)

from muntin.errors import BadArgument, SourceError, SpecError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from muntin.ledger.base import Mode
    from muntin.spec import Pipeline

WRITE_OPTIONS = ("spec", "ledger", "mode", "checkpointlocation", "queryname")
READ_OPTIONS = ("ledger", "select")
READ_BYTES = 16 << 20  # of an answer, in one partition


class MuntinSource(DataSource):
    """Made known to a session by `muntin.register(spark)`."""

    @classmethod
    def name(cls) -> str:
        return "muntin"

    def schema(self) -> StructType:
        from pyspark.sql.pandas.types import from_arrow_schema

        return from_arrow_schema(_answer(self.options).schema)

    def reader(self, schema: StructType) -> DataSourceReader:
        return _AnswerReader(self.options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        if "mode" in self.options:  # Spark's own, which this would contradict in silence
            raise BadArgument('option mode is of writeStream: say write.mode("overwrite")')
        return _BatchSink(self.options, schema, "overwrite" if overwrite else "append")

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        raise BadArgument(
            "a ledger is read as it is now, by spark.read; what follows it is muntin.connect(...)"
            ".subscribe"
        )

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        if overwrite:  # outputMode("complete")
            raise BadArgument(
                "output mode complete gives all rows anew with each batch, and each would count "
                "again: write what is not aggregated, by append"
            )
        mode = self.options.get("mode", "continue")
        if mode not in ("continue", "append", "overwrite"):
            raise BadArgument(f"option mode={mode!r}: continue, append or overwrite")
        return _StreamSink(self.options, schema, mode)


@dataclass
class TaskMessage(WriterCommitMessage):
    """What one task tells the driver."""

    query: str
    run: str
    rows: list[Any]


class _Sink:
    """What both kinds of writing have in common; goes to the workers as it is."""

    shown = WRITE_OPTIONS[:2]  # mode is of streams

    def __init__(self, options: Mapping[str, str], schema: StructType, mode: Mode) -> None:
        _check_options(options, WRITE_OPTIONS, self.shown)
        self.pipeline = _pipeline(options)
        self.ledger = options.get("ledger") or self.pipeline.ledger_url
        self.mode: Mode = mode
        if self.ledger.startswith("memory:"):
            raise SpecError(
                f"ledger: {self.ledger} is lost with the process that commits: name one that stays"
            )
        _check_columns(self.pipeline, schema)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskMessage:
        """In a task: fold its rows."""
        from muntin.spark.committing import fold_task

        return TaskMessage(*fold_task(self.pipeline, iterator))

    def abort(self, messages: list[Any], batchId: int = 0) -> None:
        """Before `commit`, nothing is anywhere but in files that large messages name."""
        from muntin.spark.committing import forget_spilled

        forget_spilled(self.pipeline, _sent(messages)[2])


class _StreamSink(_Sink, DataSourceStreamArrowWriter):
    shown = WRITE_OPTIONS[:3]

    def __init__(self, options: Mapping[str, str], schema: StructType, mode: Mode) -> None:
        super().__init__(options, schema, mode)
        self.checkpoint = options.get("checkpointLocation") or ""

    def commit(self, messages: list[Any], batchId: int) -> None:
        from muntin.spark.committing import commit_batch

        written = _sent(messages)
        commit_batch(self.pipeline, self.ledger, self.mode, written, batchId, self.checkpoint)


class _BatchSink(_Sink, DataSourceArrowWriter):
    def commit(self, messages: list[Any]) -> None:
        from muntin.spark.committing import commit_all

        commit_all(self.pipeline, self.ledger, self.mode, _sent(messages))


class _AnswerReader(DataSourceReader):
    """The statement is run where Spark plans, next to the driver: tasks need not see the ledger."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._options = dict(options)
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        from muntin.arrow import ipc_bytes
        from muntin.spark.ddl import in_arrow

        found = []
        table = _fitted(_answer(self._options), in_arrow(self._schema))
        for batch in table.combine_chunks().to_batches():
            rows = max(1, batch.num_rows * READ_BYTES // max(1, batch.nbytes))
            for first in range(0, batch.num_rows, rows):
                part = ipc_bytes([batch.slice(first, rows)], batch.schema)
                found.append(InputPartition(part))
        return found or [InputPartition(b"")]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        if partition.value:
            yield from pa.ipc.open_stream(partition.value)


def _answer(options: Mapping[str, str]) -> pa.Table:
    """The rows of the statement, in types that Spark has as well."""
    from muntin.select.values import months_as_text
    from muntin.session import open as open_session
    from muntin.spark.tables import spark_table

    if "provider" in options or not options:  # CREATE TABLE, or a table that saveAsTable made
        raise BadArgument(
            "Spark's catalog keeps no options of a format in Python, so its tables cannot name a "
            'ledger: read by spark.read.format("muntin"), or CREATE TEMPORARY VIEW ... USING '
            "muntin OPTIONS (ledger '...', select '...'); DROP TABLE leaves the ledger as it is"
        )
    _check_options(options, READ_OPTIONS, READ_OPTIONS)
    for name in ("ledger", "select"):
        if not options.get(name):
            raise BadArgument(f'option {name} is missing: .option("{name}", ...)')
    with open_session(options["ledger"]) as session:
        return spark_table(months_as_text(session.sql(options["select"]).table))


def _fitted(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The columns that Spark has planned with, or its user has named; a ledger moves on, and a sum
    beyond int64, or the first value of a key, is of another type than was there before.
    """
    import pyarrow as pa

    columns = []
    for field in schema:
        if field.name not in table.column_names:
            there = ", ".join(table.column_names)
            raise BadArgument(f"the answer has no column '{field.name}': it has {there}")
        column = table.column(field.name)
        try:
            columns.append(column.cast(field.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as problem:
            raise BadArgument(
                f"column '{field.name}' of the answer is {column.type} now, which does not fit "
                f"{field.type} ({problem}): load it anew, or name a wider type by .schema(...)"
            ) from None
    return pa.table(columns, schema=schema)


def _check_options(options: Mapping[str, str], known: Sequence[str], shown: Sequence[str]) -> None:
    unknown = sorted(name for name in options if name.lower() not in known)
    if unknown:
        raise BadArgument(f"there is no option {unknown[0]}; there are {', '.join(shown)}")


def _pipeline(options: Mapping[str, str]) -> Pipeline:
    from muntin.spec import Pipeline

    given = options.get("spec")
    if not given:
        raise BadArgument("option spec is missing: a pipeline file, or its entries as JSON")
    if not given.lstrip().startswith("{"):
        return Pipeline.of(given)
    try:
        entries = json.loads(given)
    except ValueError as problem:
        raise SpecError(f"option spec: {problem}") from None
    return Pipeline.from_json(entries) if "pane_us" in entries else Pipeline.of(entries)


def _check_columns(pipeline: Pipeline, schema: StructType) -> None:
    from muntin.spark.frame_columns import check_names, checked_schema

    for column in pipeline.columns_read():
        if column in pipeline.fields and column not in schema.names:
            raise SourceError(
                f"fields.{column}: this way evaluates no fields: add the column to the DataFrame, "
                "or use muntin.stream"
            )
    check_names(pipeline, schema.names)
    checked_schema(pipeline, schema)


def _sent(messages: Sequence[Any]) -> tuple[str, str, list[Any]]:
    """Query, run and rows of all tasks."""
    found = [message for message in messages if isinstance(message, TaskMessage)]
    rows = [row for message in found for row in message.rows]
    return (found[0].query, found[0].run, rows) if found else ("", "", rows)
