"""Building in the workers: two jobs without side effects but files that only a whole one names.

The first reads the records and leaves their hashes by partition (`scatter`), the second makes one
file a partition of them (`gather`), named after its content. Keys pass between them as eight bytes
each in files, numbers as one digest a task; the driver sees names and one digest a task.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pyarrow as pa

from muntin.spark.index.errors_sent import unpacked
from muntin.spark.index.gather import FILE, Left, gather, read_described, sum_of_digests
from muntin.spark.index.manifest import Manifest, PartitionFile
from muntin.spark.index.plan import IndexPlan
from muntin.spark.index.scatter import DIGEST, ERROR, PIECE_DDL, RUN, scatter
from muntin.summaries.dyadic_qdigest import DyadicQDigest
from muntin.summaries.dynamic_bloom import item_type
from muntin.summaries.order_maps import IntegerRange

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Built = tuple[tuple[PartitionFile, ...], DyadicQDigest | None]


def run(spark: SparkSession, pieces: DataFrame, plan: IndexPlan) -> Built:
    """Both stages' results at the driver; `pieces` is what `scatter` makes of the records."""
    left = _left(_by_kind(pieces.toArrow()))
    if not left.runs:
        return (), None

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from gather(plan, left, number)

    numbers = spark.range(0, plan.tasks, 1, plan.tasks)
    return _built(_by_kind(numbers.mapInArrow(task, PIECE_DDL).toArrow()))


def _by_kind(rows: pa.Table) -> dict[int, list[bytes]]:
    """Payloads by kind; what a worker found wrong is raised."""
    found: dict[int, list[bytes]] = {}
    for kind, payload in zip(rows.column(0).to_pylist(), rows.column(1).to_pylist(), strict=True):
        if kind == ERROR:
            raise unpacked(payload)
        found.setdefault(kind, []).append(payload)
    return found


def _left(found: dict[int, list[bytes]]) -> Left:
    return Left(*([name.decode() for name in found.get(kind, [])] for kind in (RUN, DIGEST)))


def _built(found: dict[int, list[bytes]]) -> Built:
    digest = sum_of_digests(found.get(DIGEST, []))
    files = [read_described(payload) for payload in found.get(FILE, [])]
    return tuple(sorted(files, key=lambda file: file.partition)), digest


@cache
def warm() -> None:
    """Compile the kernels here, once, so that workers find them in the cache."""
    numbers = pa.array([3, 1, 3], pa.int64())
    with TemporaryDirectory(prefix="muntin-warm-") as folder:
        for keys in (pa.array(["a", "b", "b"]), numbers):
            kind = item_type(keys.type)
            index = Manifest("key", "rank", kind, partitions=2, fpp=0.01, error=0.1, seed=0)
            plan = IndexPlan(index, folder, folder, 1, IntegerRange(8), {})
            (file, *_), _ = _here(plan, keys, numbers)
            _here(replace(plan, base={file.partition: file.file}), keys, numbers)


def _here(plan: IndexPlan, keys: pa.Array, numbers: pa.Array) -> Built:
    """Both stages in this process."""
    left = _left(_by_kind(pa.Table.from_batches(list(scatter(plan, [(keys, numbers)])))))
    return _built(_by_kind(pa.Table.from_batches(list(gather(plan, left, 0)))))
