"""Second stage of a build: one file for each partition, and one digest for each task."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass

import numpy as np
import pyarrow as pa

from muntin.errors import MuntinError
from muntin.spark.index.errors_sent import packed
from muntin.spark.index.files import check_content, write_partition
from muntin.spark.index.manifest import PartitionFile
from muntin.spark.index.plan import CAPACITY_MIN, IndexPlan
from muntin.spark.index.runs import RunReader, whole
from muntin.spark.index.scatter import DIGEST, ERROR, piece
from muntin.summaries.dyadic_qdigest import DyadicQDigest
from muntin.summaries.fingerprint_index import Fingerprint

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
        yield piece(ERROR, packed(problem))


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


def read_described(data: bytes) -> PartitionFile:
    """The description that a task sent."""
    return PartitionFile(**json.loads(data))
