"""First stage of a build: the hashes of a task's keys by partition, and a digest of its numbers.

What a task leaves are files under names of its own attempt, which it tells when they are whole:
a task that runs twice is counted once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from muntin.errors import BadArgument, MuntinError
from muntin.spark.index.errors_sent import packed
from muntin.spark.index.files import write_once
from muntin.spark.index.plan import IndexPlan
from muntin.spark.index.runs import RunWriter
from muntin.summaries.items import hash_items

Batches = Iterable[tuple[pa.Array, pa.Array | None]]
RUN, DIGEST, ERROR = 0, 1, 2
PIECE_DDL = "kind int, payload binary"
_PIECE = pa.schema([("kind", pa.int32()), ("payload", pa.binary())])


def scatter(plan: IndexPlan, batches: Batches) -> Iterator[pa.RecordBatch]:
    """The names of the files with the hashes and the digest of these keys and numbers.

    What is wrong with the records is passed on, not raised: it is wrong each time they are read.
    """
    left = iter(batches)
    try:
        yield from _scattered(plan, left)
    except MuntinError as problem:
        yield piece(ERROR, packed(problem))
        for _ in left:  # a worker that leaves input unread is thrown away
            pass


def _scattered(plan: IndexPlan, batches: Batches) -> Iterator[pa.RecordBatch]:
    digest = plan.new_digest()
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
