"""Asking an index: at the driver, which maps the files, or by a job on the partitions concerned."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from muntin.errors import MuntinError
from muntin.spark.index.errors_sent import packed, unpacked
from muntin.spark.index.files import by_partition, probe
from muntin.summaries.items import hash_items

if TYPE_CHECKING:
    from pyspark import RDD, SparkContext

Groups = Sequence[tuple[int, np.ndarray]]


def ask_here(folder: str, names: Mapping[int, str], groups: Groups) -> np.ndarray:
    """bool of each hash, group after group; this process reads the files."""
    return np.frombuffer(probe(folder, names, groups), np.bool_)


def ask_by_job(
    context: SparkContext, tasks: RDD[Any], folder: str, names: Mapping[int, str], groups: Groups
) -> np.ndarray:
    """As `ask_here`, in one job of as many tasks as there are cores or partitions concerned.

    Hashes go out with the job, one byte a hash comes back. A task that is lost runs again: the
    files answer the same wherever they are read.
    """
    count = min(len(groups), tasks.getNumPartitions())
    shares = np.array_split(np.arange(len(groups)), count)
    asked = [
        [(groups[i][0], names[groups[i][0]], groups[i][1].tobytes()) for i in share]
        for share in shares
    ]

    def answer(numbers: Iterable[int]) -> list[tuple[bool, bytes]]:
        (number,) = numbers
        mine = asked[number]
        parts = [(partition, np.frombuffer(data, np.uint64)) for partition, _, data in mine]
        try:
            return [(True, probe(folder, {part: name for part, name, _ in mine}, parts))]
        except MuntinError as problem:
            return [(False, packed(problem))]

    answers = context.runJob(tasks, answer, list(range(count)))
    for is_right, data in answers:
        if not is_right:
            raise unpacked(data)
    return np.frombuffer(b"".join(data for _, data in answers), np.bool_)


def keep_present(
    batches: Iterator[pa.RecordBatch],
    *,
    column: int,
    folder: str,
    names: Mapping[int, str],
    zones: Mapping[int, tuple[int, int]],
    partitions: int,
    seed: int,
    keep: bool,
) -> Iterator[pa.RecordBatch]:
    """Rows whose key may be in the index, or (keep False) is surely not in it. Nulls are not."""
    for batch in batches:
        keys = batch.column(column)
        valid = np.asarray(keys.is_valid())
        hashes = hash_items(keys.drop_null(), seed)
        where, groups = by_partition(hashes, partitions, zones)
        present = np.zeros(len(hashes), np.bool_)
        present[where] = ask_here(folder, names, groups)
        kept = np.zeros(batch.num_rows, np.bool_)
        kept[valid] = present
        yield batch.filter(pa.array(kept == keep))
