"""Building in the workers: hashes to the partition of their range, then one file a partition.

Two stages without side effects but files named after their content: a task that runs twice writes
the same file twice. Keys cross the shuffle as eight bytes each, numbers as one digest a task.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from muntin.errors import BadArgument, MuntinError
from muntin.spark.index.files import write_partition
from muntin.spark.index.manifest import PartitionFile
from muntin.spark.index.told import retold, told
from muntin.summaries.dyadic_qdigest import DyadicQDigest
from muntin.summaries.dynamic_bloom import ItemType, item_type
from muntin.summaries.fingerprint_index import Fingerprint
from muntin.summaries.items import hash_items
from muntin.summaries.kernels.placement import place
from muntin.summaries.order_maps import IntegerRange, OrderMap
from muntin.summaries.static_filter import sorted_hashes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Batches = Iterable[tuple[pa.Array, pa.Array | None]]
CHUNK_KEYS = 1 << 22  # hashes that a task holds before it passes them on: 32 MiB
HEADROOM = 2  # an index may double by `append` before a second run is begun
CAPACITY_MIN = 1024
DIGEST, ERROR = -1, -2  # stand where a partition's number would

_PIECE = pa.schema([("task", pa.int32()), ("partition", pa.int32()), ("payload", pa.binary())])
PIECE_DDL = "task int, partition int, payload binary"
_RESULT = pa.schema([("partition", pa.int32()), ("payload", pa.binary())])
RESULT_DDL = "partition int, payload binary"


@dataclass(frozen=True, slots=True)
class Plan:
    """All that a worker needs to know."""

    folder: str
    partitions: int
    tasks: int
    fpp: float
    seed: int
    item_type: ItemType
    domain: OrderMap | None
    error: float
    base: dict[int, str]
    """Files of partitions that are extended."""
    only: frozenset[int] | None = None
    """Partitions to build; None: all."""

    def task_of(self, partition: int) -> int:
        return partition * self.tasks // self.partitions


def scatter(plan: Plan, batches: Batches) -> Iterator[pa.RecordBatch]:
    """First stage: the hashes of a task's keys by partition, and a digest of its numbers.

    What is wrong with the records is passed on, not raised: it is wrong each time they are read.
    """
    left = iter(batches)
    try:
        yield from _scattered(plan, left)
    except MuntinError as problem:
        yield _pieces([(0, ERROR, told(problem))])
        for _ in left:  # a worker that leaves input unread is thrown away
            pass


def _scattered(plan: Plan, batches: Batches) -> Iterator[pa.RecordBatch]:
    digest = new_digest(plan.error, plan.domain) if plan.domain else None
    waiting: list[np.ndarray] = []
    count = 0
    for keys, numbers in batches:
        if digest is not None and numbers is not None:
            digest.update(numbers)
        waiting.append(hash_items(keys, plan.seed))
        count += len(keys)
        if count >= CHUNK_KEYS:
            yield _placed(plan, np.concatenate(waiting))
            waiting, count = [], 0
    if count:
        yield _placed(plan, np.concatenate(waiting))
    if digest is not None and digest.count:
        data = digest.to_bytes()
        task = data[-1] % min(plan.tasks, 8)  # any few will do; the checksum spreads them
        yield _pieces([(task, DIGEST, data)])


def new_digest(error: float, domain: OrderMap) -> DyadicQDigest:
    """For half the error that was asked: twice the size, some hundred KB, and tighter bounds."""
    return DyadicQDigest.for_error(error / 2, domain=domain)


def _placed(plan: Plan, hashes: np.ndarray) -> pa.RecordBatch:
    out = np.empty_like(hashes)
    starts = np.zeros(plan.partitions + 1, np.int64)
    place(hashes, plan.partitions, starts, out)
    return _pieces(
        (plan.task_of(partition), partition, out[starts[partition] : starts[partition + 1]].data)
        for partition in range(plan.partitions)
        if starts[partition] < starts[partition + 1]
        and (plan.only is None or partition in plan.only)
    )


def _pieces(rows: Iterable[tuple[int, int, Any]]) -> pa.RecordBatch:
    tasks, partitions, payloads = [], [], []
    for task, partition, payload in rows:
        tasks.append(task)
        partitions.append(partition)
        payloads.append(bytes(payload))
    return pa.record_batch([tasks, partitions, payloads], schema=_PIECE)


def gather(plan: Plan, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Second stage: one file for each partition of the task."""
    pieces: dict[int, list[np.ndarray]] = {}
    digest: DyadicQDigest | None = None
    for batch in batches:
        for partition, payload in zip(batch.column(1).to_pylist(), batch.column(2), strict=True):
            data = payload.as_buffer()
            if partition == ERROR:
                yield _result(ERROR, data.to_pybytes())
                continue
            if partition == DIGEST:
                other = DyadicQDigest.from_bytes(data.to_pybytes())
                if digest is None:
                    digest = other
                else:
                    digest.merge(other)
            else:  # a copy: the batch's memory is Spark's
                pieces.setdefault(partition, []).append(np.frombuffer(data, np.uint64).copy())
    for partition in sorted(pieces):
        summary = _partition(plan, partition, np.concatenate(pieces.pop(partition)))
        file = write_partition(Path(plan.folder), partition, summary)
        yield _result(partition, _described(file))
    if digest is not None:
        yield _result(DIGEST, digest.to_bytes())


def _partition(plan: Plan, partition: int, hashes: np.ndarray) -> Fingerprint:
    hashes = sorted_hashes(hashes)  # the file does not depend on the order of the shuffle
    base = plan.base.get(partition)
    if base is not None:
        summary = Fingerprint.from_bytes((Path(plan.folder) / base).read_bytes())
    else:
        distinct = 1 + int((hashes[1:] != hashes[:-1]).sum())
        summary = Fingerprint(max(CAPACITY_MIN, distinct), plan.fpp, plan.seed, headroom=HEADROOM)
    summary.update_hashes(hashes, plan.item_type)
    return summary


def _result(partition: int, payload: bytes) -> pa.RecordBatch:
    return pa.record_batch([[partition], [payload]], schema=_RESULT)


def _described(file: PartitionFile) -> bytes:
    return "\t".join(str(getattr(file, one.name)) for one in fields(PartitionFile)).encode()


def _read_described(data: bytes) -> PartitionFile:
    kinds = {"file": str, "false_positive_rate": float}
    values = data.decode().split("\t")
    return PartitionFile(
        **{
            one.name: kinds.get(one.name, int)(value)
            for one, value in zip(fields(PartitionFile), values, strict=True)
        }
    )


def run(pieces: DataFrame, plan: Plan) -> tuple[tuple[PartitionFile, ...], DyadicQDigest | None]:
    """Both stages' results at the driver; `pieces` is what `scatter` made."""

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return gather(plan, batches)

    placed = pieces.repartitionById(plan.tasks, "task")
    rows = placed.mapInArrow(task, RESULT_DDL).toArrow()
    files, digest = [], None
    for partition, payload in zip(
        rows.column(0).to_pylist(), rows.column(1).to_pylist(), strict=True
    ):
        if partition == ERROR:
            raise retold(payload)
        if partition != DIGEST:
            files.append(_read_described(payload))
        elif digest is None:
            digest = DyadicQDigest.from_bytes(payload)
        else:
            digest.merge(DyadicQDigest.from_bytes(payload))
    return tuple(sorted(files, key=lambda file: file.partition)), digest


def pieces_of(df: DataFrame, plan: Plan) -> DataFrame:
    """First stage over a DataFrame of a key and, if ranks are kept, a number."""

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return scatter(
            plan,
            ((b.column(0), b.column(1) if plan.domain is not None else None) for b in batches),
        )

    return df.mapInArrow(task, PIECE_DDL)


@cache
def warm() -> None:
    """Compile the kernels here, once, so that workers find them in the cache."""
    numbers = pa.array([3, 1, 3], pa.int64())
    with TemporaryDirectory(prefix="muntin-warm-") as folder:
        for keys in (pa.array(["a", "b", "b"]), numbers):
            plan = Plan(folder, 2, 1, 0.01, 0, item_type(keys.type), IntegerRange(8), 0.1, {})
            rows = list(gather(plan, scatter(plan, [(keys, numbers)])))
            file = _read_described(rows[0].column(1)[0].as_py())
            extended = replace(plan, base={file.partition: file.file})
            list(gather(extended, scatter(extended, [(keys, numbers)])))


def check_key(kind: pa.DataType, name: str) -> None:
    """BadArgument where a column of that type cannot be a key."""
    try:
        hash_items(pa.array([], kind))
    except BadArgument:
        raise BadArgument(f"column {name!r} is {kind}: a key is text, binary or integer") from None
