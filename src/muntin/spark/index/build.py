"""Building in the workers: two jobs without side effects but files that only a whole one names.

The first reads the records and leaves their hashes by partition (`scatter`), in files under names
of its own attempt, which it tells when they are whole: a task that runs twice is counted once. The
second makes one file a partition of them (`gather`), named after its content. Keys pass between
them as eight bytes each in files, numbers as one digest a task; the driver sees names and one
digest a task.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import cache
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from muntin.errors import BadArgument, MuntinError
from muntin.spark.index.files import (
    check_content,
    packed_error,
    unpacked_error,
    write_once,
    write_partition,
)
from muntin.spark.index.manifest import Manifest, PartitionFile
from muntin.spark.index.runs import RunReader, RunWriter, whole
from muntin.summaries.dyadic_qdigest import DyadicQDigest
from muntin.summaries.dynamic_bloom import item_type
from muntin.summaries.fingerprint_index import Fingerprint
from muntin.summaries.items import hash_items
from muntin.summaries.order_maps import IntegerRange, OrderMap

Batches = Iterable[tuple[pa.Array, pa.Array | None]]
RUN, DIGEST, ERROR = 0, 1, 2
PIECE_DDL = "kind int, payload binary"
_PIECE = pa.schema([("kind", pa.int32()), ("payload", pa.binary())])
HEADROOM = 2  # times that an index may grow by `append` before a second run is begun
CAPACITY_MIN = 1024


@dataclass(frozen=True, slots=True)
class IndexPlan:
    """One build, append or rebuild."""

    index: Manifest
    """What it is, without its files."""
    folder: str
    runs: str
    """Folder of what the first stage leaves for the second; removed when both are done."""
    tasks: int
    """Of the second stage."""
    domain: OrderMap | None
    """Of the numbers; None: no digest is made."""
    base: Mapping[int, str]
    """Files of partitions that are extended."""
    only: frozenset[int] | None = None
    """Partitions to build; None: all."""

    def partitions_of(self, task: int) -> range:
        """The hash ranges that a task of the second stage makes files of."""
        partitions = self.index.partitions
        return range(task * partitions // self.tasks, (task + 1) * partitions // self.tasks)


def new_digest(error: float, domain: OrderMap) -> DyadicQDigest:
    """For half the error that was asked: twice the size, some hundred KB, and tighter bounds."""
    return DyadicQDigest.for_error(error / 2, domain=domain)


def scatter(plan: IndexPlan, batches: Batches) -> Iterator[pa.RecordBatch]:
    """The names of the files with the hashes and the digest of these keys and numbers.

    What is wrong with the records is passed on, not raised: it is wrong each time they are read.
    """
    left = iter(batches)
    try:
        yield from _scattered(plan, left)
    except MuntinError as problem:
        yield piece(ERROR, packed_error(problem))
        for _ in left:  # a worker that leaves input unread is thrown away
            pass


def _scattered(plan: IndexPlan, batches: Batches) -> Iterator[pa.RecordBatch]:
    digest = new_digest(plan.index.error, plan.domain) if plan.domain else None
    folder = plan.runs
    writer = RunWriter(folder, plan.index.partitions, plan.only)
    for keys, numbers in batches:
        if digest is not None and numbers is not None:
            with _of(plan.index.rank):
                digest.update(numbers)
        with _of(plan.index.key):
            hashes = hash_items(keys, plan.index.seed)
        writer.add(hashes)
    run = writer.finish()
    if run is not None:
        yield piece(RUN, run.encode())
    if digest is not None and digest.count:
        # Two tasks with the same numbers make the same file, which then counts for each.
        yield piece(DIGEST, write_once(folder, "digest", digest.to_bytes()).encode())


@contextmanager
def _of(column: str | None) -> Iterator[None]:
    """What cannot be used is told with its column."""
    try:
        yield
    except BadArgument as problem:
        raise BadArgument(f"column {column!r}: {problem}") from None


def piece(kind: int, payload: Any) -> pa.RecordBatch:
    return pa.record_batch([[kind], [payload]], schema=_PIECE)


FILE = 3  # beside the kinds of the first stage


@dataclass(frozen=True, slots=True)
class Left:
    """What the first stage left: names of files in `plan.runs`."""

    runs: Sequence[str]
    digests: Sequence[str]


def gather(plan: IndexPlan, left: Left, task: int) -> Iterator[pa.RecordBatch]:
    """The files of the task's partitions, described, and the sum of its share of the digests."""
    try:
        yield from _gathered(plan, left, task)
    except MuntinError as problem:
        yield piece(ERROR, packed_error(problem))


def _gathered(plan: IndexPlan, left: Left, task: int) -> Iterator[pa.RecordBatch]:
    mine = plan.partitions_of(task)
    runs = RunReader(plan.runs, left.runs, plan.index.partitions, mine)
    for partition in mine:
        hashes = runs.hashes(partition)
        if len(hashes):
            summary = _partition(plan, partition, hashes)
            file = write_partition(plan.folder, partition, plan.index.revision + 1, summary)
            yield piece(FILE, json.dumps(asdict(file)).encode())
    digests = left.digests[task :: plan.tasks]
    digest = sum_of_digests(whole(f"{plan.runs}/{name}") for name in digests)
    if digest is not None:
        yield piece(DIGEST, digest.to_bytes())


def sum_of_digests(stored: Iterable[bytes]) -> DyadicQDigest | None:
    """None of none."""
    digest: DyadicQDigest | None = None
    for other in map(DyadicQDigest.from_bytes, stored):
        if digest is None:
            digest = other
        else:
            digest.merge(other)
    return digest


def _partition(plan: IndexPlan, partition: int, hashes: np.ndarray) -> Fingerprint:
    """A filter that is the same in whatever order the hashes come."""
    index, base = plan.index, plan.base.get(partition)
    if base is None:
        return Fingerprint.of_hashes(
            hashes,
            index.fpp,
            index.seed,
            item_type=index.item_type,
            capacity_min=CAPACITY_MIN,
            headroom=index.headroom,
        )
    path = f"{plan.folder}/{base}"
    data = whole(path)
    check_content(path, data)
    summary = Fingerprint.from_bytes(data)
    summary.update_hashes(hashes, index.item_type)
    return summary


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
            raise unpacked_error(payload)
        found.setdefault(kind, []).append(payload)
    return found


def _left(found: dict[int, list[bytes]]) -> Left:
    return Left(*([name.decode() for name in found.get(kind, [])] for kind in (RUN, DIGEST)))


def _built(found: dict[int, list[bytes]]) -> Built:
    digest = sum_of_digests(found.get(DIGEST, []))
    files = [PartitionFile(**json.loads(payload)) for payload in found.get(FILE, [])]
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
