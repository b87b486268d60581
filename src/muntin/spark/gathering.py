"""What Spark's tasks send of one batch: partials, by one job without a shuffle."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from muntin.spark.frame_columns import needed
from muntin.spark.kafka import prepared
from muntin.spark.partials import Plan, fold_placed
from muntin.spark.rows import ROWS_DDL, Row, as_batches, from_table, tasks_of
from muntin.spark.runs import merged
from muntin.spark.session import is_classic, own_python
from muntin.spark.unchanged import check_as_planned
from muntin.spec import Pipeline

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

GatherRows = Callable[[Plan], Sequence[Row]]


def plan_of(pipeline: Pipeline, now: int) -> Plan:
    """What a worker must know that folds rows at `now`, microseconds."""
    return Plan(
        time=pipeline.time.column,
        unit=pipeline.time.unit,
        pane=pipeline.pane,
        summaries=pipeline.summaries,
        latest=now + pipeline.max_future_skew,
    )


def gather_from(df: DataFrame, pipeline: Pipeline, *, is_ours: bool = False) -> GatherRows:
    """Partials of a DataFrame: one job without a shuffle. `is_ours`: as `check_as_planned`."""
    from pyspark import TaskContext

    columns, placed = prepared(df, pipeline, needed)
    names = columns.columns
    # mapInArrow takes user.id for a field of user, however it is quoted
    sent = columns.toDF(*(f"c{at}" for at in range(len(names))))

    def gather(plan: Plan) -> Sequence[Row]:
        def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            context = TaskContext.get()
            where = "" if context is None else f"partition {context.partitionId()}, "
            read = (batch.rename_columns(names) for batch in batches)
            return as_batches(fold_placed(plan, placed(read), where))

        with own_python(df.sparkSession):
            job = sent.mapInArrow(task, ROWS_DDL)
            rows = from_table(job.toArrow())
        if is_classic(job.sparkSession):
            java: Any = job._jdf  # pyright: ignore[reportPrivateUsage]
            check_as_planned(java.queryExecution(), is_ours=is_ours)
        return merged(plan, rows, tasks_of(df.sparkSession))

    return gather
