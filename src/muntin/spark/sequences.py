"""Sequential summaries: tasks send (item, time), and the driver folds them shard by shard.

They fold all events of a shard in order of time, which no task sees alone. So the tasks send rows,
by shard, in order of time: one job without a shuffle, and some 10 to 30 bytes an event. The driver
sorts and folds them in threads, whose loops run without the interpreter's lock.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from muntin import summaries
from muntin.arrow import ipc_bytes, is_text
from muntin.assembly.changes import other_type
from muntin.errors import CorruptSummary, SummaryOverflow
from muntin.kinds import PeriodicSpec, SummarySpec
from muntin.ledger.base import View
from muntin.ledger.records import PAYLOAD_BYTES_MAX, State
from muntin.spark.rows import SEQUENCED, Row
from muntin.spec import AWAY, Pipeline
from muntin.summaries.items import hash_items, item_kind
from muntin.summaries.periodic_shard import SHARD_SEED, order_of, shards_of

if TYPE_CHECKING:
    from muntin.summaries import PeriodicShard

NULLS = -1
"""The shard of events without an item, which are only counted; the payload is their times."""
ROWS_SENT_AT_ONCE = 1 << 20
BYTES_SENT_AT_ONCE = 64 << 20  # of items, before compression

_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")
BEGINNING = -(2**63)

Key = tuple[str, int]


class Sequencer:
    """Gathers one task's rows for the sequential summaries among `summaries`: Arrow IPC."""

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
                yield SEQUENCED, name, NULLS, nulls.tobytes()
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
            rows.append((SEQUENCED, name, shard, payload))
        begin = end
    return rows


@dataclass(frozen=True, slots=True)
class Advanced:
    """The shards after a batch: to be committed with it, and then to be kept."""

    shards: Mapping[Key, PeriodicShard]
    states: list[State]
    late: int  # events that came too late: in the summary that left out the most


class PipelineShards:
    """The shards of a pipeline's sequential summaries, as the last commit left them. Raises
    CorruptSummary: the ledger holds a shard that is damaged."""

    def __init__(self, pipeline: Pipeline, stored: View) -> None:
        self._specs = {n: s for n, s in pipeline.summaries.items() if isinstance(s, PeriodicSpec)}
        self._shards: dict[Key, PeriodicShard] = {}
        info = stored.pipeline(pipeline.name)
        away = {} if info is None else info.spec.get(AWAY, {})
        back = {n for n, a in away.items() if info and a["counts"][-1][1] == info.counted}
        self._whole_from = {n: a["until"] + 1 for n, a in away.items() if a["until"] is not None}
        """Events of summaries that were away, or joined: all from here on were counted."""
        self._back: set[Key] = set()
        """Shards of summaries that were away until now: nothing was committed since."""
        for name in self._specs:
            for shard, payload in stored.states(name).items():
                self._shards[name, shard] = _read(name, shard, payload)
                if name in back:
                    self._back.add((name, shard))

    def advanced(
        self, rows: Sequence[Row], sealed_before: int | None, sealed: int | None
    ) -> Advanced:
        """Fold a batch; nothing here changes until it is accepted.

        `sealed_before`, `sealed`: where the sealed panes ended before and end after the batch.
        Events before the one are late; events before the other are folded.
        """
        if not self._specs or sealed is None:
            return Advanced({}, [], 0)
        sent = _sent(rows)
        self._check_types(sent)
        work = partial(
            self._shard,
            until=sealed,
            late_before=BEGINNING if sealed_before is None else sealed_before,
        )
        firsts = {key: shard.first_buffered for key, shard in self._shards.items()}
        waiting = {key for key, first in firsts.items() if first is not None and first < sealed}
        keys = sorted(sent.keys() | waiting | self._back)
        if not keys:
            return Advanced({}, [], 0)
        with ThreadPoolExecutor(max_workers=min(len(keys), os.cpu_count() or 1)) as threads:
            done = list(threads.map(lambda key: work(key, sent.get(key, ())), keys))
        late: dict[str, int] = {}
        for (name, _), (_, _, left_out) in zip(keys, done, strict=True):
            late[name] = late.get(name, 0) + left_out
        return Advanced(
            {key: shard for key, (shard, _, _) in zip(keys, done, strict=True)},
            [State(*key, payload) for key, (_, payload, _) in zip(keys, done, strict=True)],
            max(late.values()),
        )

    def accept(self, advanced: Advanced) -> None:
        self._shards.update(advanced.shards)
        self._back.difference_update(advanced.shards)

    def _check_types(self, sent: Mapping[Key, Sequence[Row]]) -> None:
        known = {(key[0], shard.item_type) for key, shard in self._shards.items()}
        for (name, _), rows in sorted(sent.items()):
            streams = map(pa.ipc.open_stream, _items(rows))
            known |= {(name, item_kind(each.schema.field("item").type)) for each in streams}
            kinds = sorted(kind for of, kind in known if of == name and kind is not None)
            if len(kinds) > 1:
                raise other_type(name, f"item is {kinds[0]}, and {kinds[1]}")

    def _shard(
        self, key: Key, rows: Sequence[Row], *, until: int, late_before: int
    ) -> tuple[PeriodicShard, bytes, int]:
        name, number = key
        before = self._shards.get(key)
        shard = self._specs[name].new_shard(number) if before is None else before.copy()
        if key in self._back:
            shard.pause()
        late = shard.late
        late_before = max(late_before, self._whole_from.get(name, late_before))
        items, times = pa.array([], pa.string()), np.empty(0, np.int64)
        tables = [pa.ipc.open_stream(payload).read_all() for payload in _items(rows)]
        if tables:
            table = pa.concat_tables(tables)
            items, times = table["item"], table["time"].to_numpy()
            if is_text(items.type):  # all of a batch may be too long for 32-bit offsets
                items = items.cast(pa.large_string())
        nulls = np.frombuffer(b"".join(p for _, _, of, p in rows if of == NULLS), np.int64)
        shard.update(items, times, until=until, late_before=late_before, nulls=len(nulls))
        payload = shard.to_bytes()
        if len(payload) > PAYLOAD_BYTES_MAX:
            raise SummaryOverflow(
                f"summaries.{name}: shard {number} is {len(payload):,} bytes, most of them events "
                "that the watermark has not passed yet: give it more shards, or a shorter lateness"
            )
        late_nulls = int((nulls < late_before).sum())  # late as well, though none is left out
        return shard, payload, shard.late - late + late_nulls


def _read(name: str, number: int, payload: bytes) -> PeriodicShard:
    try:
        return summaries.PeriodicShard.from_bytes(payload)
    except CorruptSummary as problem:
        raise CorruptSummary(f"summaries.{name}: shard {number} in the ledger: {problem}") from None


def _items(rows: Sequence[Row]) -> list[bytes]:
    return [payload for _, _, shard, payload in rows if shard != NULLS]


def _sent(rows: Sequence[Row]) -> dict[Key, list[Row]]:
    sent: dict[Key, list[Row]] = {}
    for row in rows:
        if row[0] == SEQUENCED:  # of events without an item, some shard must tell
            sent.setdefault((row[1], 0 if row[2] == NULLS else row[2]), []).append(row)
    return sent
