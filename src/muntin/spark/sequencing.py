"""What a task sends to the driver for sequential summaries: rows, by shard, in order of time.

A sequential summary folds all events of a shard in order of time, which no task sees alone. So the
tasks send (item, time) and the driver folds (`muntin.spark.sequences`): one job and no shuffle.
What is sent is O(events): some 10 to 30 bytes each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa

from muntin.arrow import ipc_bytes
from muntin.kinds import PeriodicSpec, SummarySpec
from muntin.spark.rows import Row
from muntin.summaries.items import hash_items
from muntin.summaries.periodic_shard import SHARD_SEED, order_of, shards_of

SEQUENCED = 3
"""What a row is: shard in the place of the pane, number of events, Arrow IPC."""
NULLS = -1
"""The shard of events without an item, which are only counted; the payload is their times."""
ROWS_SENT_AT_ONCE = 1 << 20
BYTES_SENT_AT_ONCE = 64 << 20  # of items, before compression

_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")


class Sequencer:
    """Gathers one task's rows for the sequential summaries among `summaries`."""

    def __init__(self, summaries: Mapping[str, SummarySpec]) -> None:
        self._specs = {n: s for n, s in summaries.items() if isinstance(s, PeriodicSpec)}
        self._parts: dict[str, list[tuple[pa.Array, np.ndarray]]] = {n: [] for n in self._specs}
        self._nulls: dict[str, list[np.ndarray]] = {name: [] for name in self._specs}
        self._buffered = self._buffered_bytes = 0

    def add(self, batch: pa.RecordBatch, times: np.ndarray) -> None:
        """Take rows and their event times, int64 microseconds."""
        for name, spec in self._specs.items():
            items, at = spec.items(batch), times
            if items.null_count:
                there = items.is_valid().to_numpy(zero_copy_only=False)
                self._nulls[name].append(times[~there])
                items, at = items.filter(pa.array(there)), times[there]
            self._parts[name].append((items, at))
            self._buffered_bytes += items.nbytes
        self._buffered += len(times)

    def emit(self, all_of_it: bool) -> Iterator[Row]:
        """Rows for the driver: all of them, or only when there are enough."""
        enough = self._buffered >= ROWS_SENT_AT_ONCE or self._buffered_bytes >= BYTES_SENT_AT_ONCE
        if self._buffered == 0 or not (all_of_it or enough):
            return
        self._buffered = self._buffered_bytes = 0
        for name, spec in self._specs.items():
            parts, self._parts[name] = self._parts[name], []
            for kind in {items.type for items, _ in parts}:  # of two, the driver says what is wrong
                items, at = zip(*(part for part in parts if part[0].type == kind), strict=True)
                yield from _rows(name, spec.shards, pa.concat_arrays(items), np.concatenate(at))
            if self._nulls[name]:
                nulls = np.concatenate(self._nulls[name])
                yield SEQUENCED, name, NULLS, len(nulls), nulls.tobytes()
                self._nulls[name] = []


def _rows(name: str, shards: int, items: pa.Array, times: np.ndarray) -> list[Row]:
    hashes = hash_items(items, SHARD_SEED)
    order = order_of(times, hashes)
    if order is None:
        order = np.arange(len(times))
    shard_of = shards_of(hashes[order], shards)
    by_shard = np.argsort(shard_of, kind="stable")
    ends = np.cumsum(np.bincount(shard_of, minlength=shards))
    order = order[by_shard]
    items, times = items.take(pa.array(order)), times[order]
    rows, begin = [], 0
    for shard, end in enumerate(ends.tolist()):
        if end > begin:
            columns = [items.slice(begin, end - begin), pa.array(times[begin:end])]
            batch = pa.RecordBatch.from_arrays(columns, names=["item", "time"])
            payload = ipc_bytes([batch], batch.schema, _OPTIONS)
            rows.append((SEQUENCED, name, shard, end - begin, payload))
        begin = end
    return rows
