"""Sequential summaries on the driver: what the tasks sent is folded, shard by shard.

HyperCalm takes tens of millions of events a second and sorting some millions, in threads (their
loops run without the interpreter's lock), so that a driver keeps up with what its workers read.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from muntin import summaries
from muntin.arrow import is_text
from muntin.assembly.changes import other_type
from muntin.errors import CorruptSummary, SpecError, SummaryOverflow
from muntin.kinds import PeriodicSpec
from muntin.ledger.base import View
from muntin.ledger.records import PAYLOAD_BYTES_MAX, State
from muntin.spark.rows import Row
from muntin.spark.sequencing import NULLS, SEQUENCED
from muntin.spec import AWAY, Pipeline
from muntin.summaries.items import item_kind

if TYPE_CHECKING:
    from muntin.summaries import PeriodicShard

BEGINNING = -(2**63)

Key = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Advanced:
    """The shards after a batch: to be committed with it, and then to be kept."""

    shards: Mapping[Key, PeriodicShard]
    states: list[State]
    late: int
    """Events that came too late: in the summary that left out the most."""


class PipelineShards:
    """The shards of a pipeline's sequential summaries, as the last commit left them.

    Raises
    ------
    SpecError
        The ledger holds shards that were made with other parameters.
    """

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
        for name, spec in self._specs.items():
            for shard, payload in stored.states(name).items():
                self._shards[name, shard] = _read(name, spec, shard, payload)
                if name in back:
                    self._back.add((name, shard))

    def advanced(
        self, rows: Sequence[Row], sealed_before: int | None, sealed: int | None
    ) -> Advanced:
        """Fold a batch; nothing here changes until it is accepted.

        Parameters
        ----------
        rows
            What the job returned.
        sealed_before, sealed : int or None
            Where the sealed panes ended before and end after the batch. Events before the one are
            late; events before the other are folded.

        Raises
        ------
        SourceError
            Items are of another type than what is stored of them, in whichever shard.
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
        """The batch was committed."""
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
        nulls = np.frombuffer(b"".join(p for _, _, of, _, p in rows if of == NULLS), np.int64)
        shard.update(items, times, until=until, late_before=late_before, nulls=len(nulls))
        payload = shard.to_bytes()
        if len(payload) > PAYLOAD_BYTES_MAX:
            raise SummaryOverflow(
                f"summaries.{name}: shard {number} is {len(payload):,} bytes, most of them events "
                "that the watermark has not passed yet: give it more shards, or a shorter lateness"
            )
        late_nulls = int((nulls < late_before).sum())  # late as well, though none is left out
        return shard, payload, shard.late - late + late_nulls


def _read(name: str, spec: PeriodicSpec, number: int, payload: bytes) -> PeriodicShard:
    try:
        shard = summaries.PeriodicShard.from_bytes(payload)
    except CorruptSummary as problem:
        raise CorruptSummary(f"summaries.{name}: shard {number} in the ledger: {problem}") from None
    differs = spec.differs(shard)
    if differs:
        raise SpecError(
            f"summaries.{name}: {differs}; what it has folded cannot be folded again: keep the "
            "entry as it was, give the changed one another name, or start over with --reset"
        )
    return shard


def _items(rows: Sequence[Row]) -> list[bytes]:
    return [payload for _, _, shard, _, payload in rows if shard != NULLS]


def _sent(rows: Sequence[Row]) -> dict[Key, list[Row]]:
    """What the tasks of one batch sent for each shard."""
    sent: dict[Key, list[Row]] = {}
    for row in rows:
        if row[0] == SEQUENCED:  # of events without an item, some shard must tell
            sent.setdefault((row[1], 0 if row[2] == NULLS else row[2]), []).append(row)
    return sent
