"""What the tasks of a job send to the driver: rows, and the two ways that they travel.

A task that was given a DataFrame's rows by `mapInArrow` must answer with Arrow batches, which the
JVM takes apart and puts together again. One that reads files itself is a plain task over numbers,
whose rows pass through the JVM as they are, in half the time; payloads go in pieces there, which
Java's memory takes more easily. Spark Connect has no plain tasks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from muntin.spark.session import is_classic, own_python

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Row = tuple[int, str, int, bytes]  # what it is, name, shard, payload
Tasks = Callable[[int, Callable[[int], Iterable[Row]]], list[Row]]
"""Runs as many tasks, each given its number; their rows, task after task."""
ROWS_DDL = "what tinyint, name string, shard bigint, payload binary"
PARTIAL, REJECTED, TALLY, SEQUENCED, RUN, PIECE, SPILLED = range(7)  # what a row is
PIECE_BYTES = 1 << 20
_KINDS = pa.int8(), pa.string(), pa.int64(), pa.binary()
_SCHEMA = pa.schema(list(zip(("what", "name", "shard", "payload"), _KINDS, strict=True)))
_BATCH_BYTES = 32 << 20

_Head = tuple[int, str, int, int]  # with the size of the payload that follows


def as_batches(rows: Iterable[Row]) -> Iterator[pa.RecordBatch]:
    """Rows as `mapInArrow` wants them."""
    buffered: list[Row] = []
    size = 0
    for row in rows:
        buffered.append(row)
        size += len(row[-1])
        if size >= _BATCH_BYTES:
            yield _batch(buffered)
            buffered, size = [], 0
    if buffered:
        yield _batch(buffered)


def from_table(table: pa.Table) -> list[Row]:
    """Rows that came as Arrow."""
    columns = [column.to_pylist() for column in table.itercolumns()]
    return list(zip(*columns, strict=True))


def here(count: int, task: Callable[[int], Iterable[Row]]) -> list[Row]:
    """`Tasks` of this process."""
    return [row for number in range(count) for row in task(number)]


def tasks_of(spark: SparkSession) -> Tasks:
    def run(count: int, task: Callable[[int], Iterable[Row]]) -> list[Row]:
        if not count:
            return []
        if is_classic(spark):
            return _collected(spark, count, task)

        def of_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            numbers: list[Any] = [n for batch in batches for n in batch.column(0).to_pylist()]
            return as_batches(row for number in numbers for row in task(number))

        with own_python(spark):
            numbers = spark.range(0, count, 1, count)
            return from_table(numbers.mapInArrow(of_batches, ROWS_DDL).toArrow())

    return run


def _collected(spark: SparkSession, count: int, task: Callable[[int], Iterable[Row]]) -> list[Row]:
    def run(numbers: Iterable[int]) -> Iterator[_Head | bytes]:
        for number in list(numbers):  # all read: else the worker could not be used again
            for what, name, shard, payload in task(number):
                yield what, name, shard, len(payload)
                for begin in range(0, len(payload), PIECE_BYTES):
                    yield payload[begin : begin + PIECE_BYTES]

    tasks = spark.sparkContext.parallelize(range(count), count)
    with own_python(spark):
        found: deque[Any] = deque(tasks.mapPartitions(run).collect())
    rows: list[Row] = []
    while found:
        what, name, shard, size = found.popleft()
        pieces = [found.popleft() for _ in range(-(-size // PIECE_BYTES))]
        rows.append((what, name, shard, b"".join(pieces)))  # one piece is not copied
    return rows


def _batch(rows: list[Row]) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    arrays = [pa.array(c, f.type) for c, f in zip(columns, _SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=_SCHEMA)
