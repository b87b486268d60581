"""Building in the workers: two jobs without side effects but files that only a whole one names.

The first reads the records and writes their hashes by partition (`scatter`), to files of its own
attempt, whose names it tells once they are whole: a task that runs twice is counted once. The
second makes one file a partition of them (`gather`), named after its content. The driver sees names
and one digest a task.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa

from muntin.errors import BadArgument
from muntin.spark.index.files import read_checked, write_once, write_partition
from muntin.spark.index.manifest import Manifest, PartitionFile
from muntin.spark.index.runs import RunReader, RunWriter
from muntin.spark.rows import Row, Tasks, here
from muntin.summaries.dyadic_qdigest import DyadicQDigest
from muntin.summaries.dynamic_bloom import item_type
from muntin.summaries.fingerprint_index import Fingerprint
from muntin.summaries.items import hash_items
from muntin.summaries.order_maps import IntegerRange, OrderMap

Batches = Iterable[tuple[pa.Array, pa.Array | None, str]]
"""Keys, numbers, and where they are from, for errors."""
Built = tuple[tuple[PartitionFile, ...], DyadicQDigest | None]
RUN, DIGEST, FILE = range(3)  # what a row is
HEADROOM = 2  # times that an index may grow by `append` before a second run is begun
CAPACITY_MIN = 1024


@dataclass(frozen=True, slots=True)
class IndexPlan:
    """One build, append or rebuild."""

    index: Manifest  # what it is, without its files
    folder: str
    runs: str  # folder of what the first stage leaves for the second; removed when both are done
    tasks: int  # of the second stage
    domain: OrderMap | None  # of the numbers; None: no digest is made
    base: Mapping[int, str]  # files of partitions that are extended
    only: frozenset[int] | None = None  # partitions to build; None: all


def new_digest(error: float, domain: OrderMap) -> DyadicQDigest:
    """For half the error that was asked: twice the size, some hundred KB, and tighter bounds."""
    return DyadicQDigest.for_error(error / 2, domain=domain)


def scatter(plan: IndexPlan, batches: Batches) -> Iterator[Row]:
    """The names of the files with the hashes and the digest of these keys and numbers."""
    digest = new_digest(plan.index.error, plan.domain) if plan.domain else None
    folder = plan.runs
    writer = RunWriter(folder, plan.index.partitions, plan.only)
    for keys, numbers, place in batches:
        if digest is not None and numbers is not None:
            with _of(plan.index.rank, place):
                digest.update(numbers)
        with _of(plan.index.key, place):
            hashes = hash_items(keys, plan.index.seed)
        writer.add(hashes)
    run = writer.finish()
    if run is not None:
        yield RUN, run, 0, b""
    if digest is not None and digest.count:
        # Two tasks with the same numbers make the same file, which then counts for each.
        yield DIGEST, write_once(folder, "digest", digest.to_bytes()), 0, b""


@contextmanager
def _of(column: str | None, place: str) -> Iterator[None]:
    """What cannot be used is told with its place and column."""
    try:
        yield
    except BadArgument as problem:
        raise BadArgument(f"{place}column {column!r}: {problem}") from None


def gather(plan: IndexPlan, left: Sequence[Row], task: int) -> Iterator[Row]:
    """The files of the task's partitions, described, and the sum of its share of the digests.
    `left`: what `scatter` has told."""
    names, digests = ([name for kind, name, *_ in left if kind == k] for k in (RUN, DIGEST))
    partitions = plan.index.partitions
    mine = range(task * partitions // plan.tasks, (task + 1) * partitions // plan.tasks)
    runs = RunReader(plan.runs, names, partitions, mine)
    for partition in mine:
        hashes = runs.hashes(partition)
        if len(hashes):
            summary = _partition(plan, partition, hashes)
            file = write_partition(plan.folder, partition, plan.index.revision + 1, summary)
            yield FILE, "", 0, json.dumps(asdict(file)).encode()
    share = digests[task :: plan.tasks]
    digest = sum_of_digests(read_checked(f"{plan.runs}/{name}") for name in share)
    if digest is not None:
        yield DIGEST, "", 0, digest.to_bytes()


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
    summary = Fingerprint.from_bytes(read_checked(f"{plan.folder}/{base}"))
    summary.update_hashes(hashes, index.item_type)
    return summary


def run(tasks: Tasks, left: Sequence[Row], plan: IndexPlan) -> Built:
    """The second stage, after the first has `left` its rows: the files, and the digest."""
    if not left:
        return (), None
    made = tasks(plan.tasks, partial(gather, plan, left))
    files = [PartitionFile(**json.loads(payload)) for kind, *_, payload in made if kind == FILE]
    digest = sum_of_digests(payload for kind, *_, payload in made if kind == DIGEST)
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
            for _ in range(2):
                (file, *_), _ = run(here, [*scatter(plan, [(keys, numbers, "")])], plan)
                plan = replace(plan, base={file.partition: file.file})
