"""HyperCalm, and shards of one, beside all events of their stream, whatever is done to them."""

from __future__ import annotations

from copy import copy, deepcopy
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from test_hyper_calm import intervals, within

from muntin.errors import BadArgument
from muntin.summaries import HyperCalm, PeriodicShard
from muntin.summaries.items import hash_items
from muntin.summaries.periodic_shard import SHARD_SEED, shards_of

GAP, LAST = 97, 2**63 - 1
FORMS: dict[str, Any] = {
    "int64": lambda ids: ids - 3,
    "uint64": lambda ids: np.uint64(2**64 - 1) - ids.astype(np.uint64),
    "string": lambda ids: pa.array([f"{'é' * i}{i}" for i in ids.tolist()], pa.string()),
    "binary": lambda ids: pa.array([b"\xff" * i for i in ids.tolist()], pa.binary()),
}


class Beats(RuleBasedStateMachine):
    """`parts` is all that was given: items and times; None is a pause."""

    @initialize(
        memory=st.sampled_from([2_500, 60_000]),
        resolution=st.sampled_from([1, 13, GAP]),
        form=st.sampled_from(sorted(FORMS)),
        start=st.sampled_from([0, -(2**63), 1_700_000_000_000_000]),
        options=st.fixed_dictionaries(
            {
                "bins": st.sampled_from(["joined", "floor"]),
                "consecutive": st.booleans(),
                "batch_size": st.integers(1, 3),
                "promote": st.sampled_from([1, 10]),
            }
        ),
    )
    def begin(self, memory: int, resolution: int, form: str, start: int, options: Any) -> None:
        self.options = {"memory": memory, "k": 6, "resolution": resolution, **options}
        self.calm = HyperCalm(gap=GAP, interval_unit=120, **self.options)
        self.form, self.now, self.size = FORMS[form], start, options["batch_size"]
        self.parts: list[Any] = []

    @rule(
        keys=st.sampled_from([1, 3, 40]),
        step=st.sampled_from([0, 1, 20, GAP, GAP + 1, 110, 5_000, 2**31, 2**45]),
        jitter=st.integers(0, 20),
        n=st.sampled_from([0, 1, 9, 80]),
        seed=st.integers(0, 2**32),
    )
    def update(self, keys: int, step: int, jitter: int, n: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        items = self.form(rng.integers(0, keys, n))
        steps = rng.integers(0, 2, n) * step + rng.integers(0, jitter + 1, n)
        times = self.now + np.cumsum(steps)
        self.now = int(times[-1]) if n else self.now
        self.calm.update(items, times)
        self.parts.append((items, times))
        self.check()

    @rule(way=st.sampled_from([copy, deepcopy, lambda calm: HyperCalm.from_bytes(calm.to_bytes())]))
    def goes_on_as(self, way: Any) -> None:
        left, before = self.calm, self.calm.to_bytes()
        self.calm = way(left)
        if self.parts and self.parts[-1] and len(items := self.parts[-1][0]):
            left.update(items[:1], [LAST])
        assert self.calm.to_bytes() == before

    @rule()
    def pause(self) -> None:
        self.calm.pause()
        self.parts.append(None)

    @rule()
    def time_goes_backwards(self) -> None:
        last, before = self.calm.last_time, self.calm.to_bytes()
        if last is None or last == -(2**63):
            return
        items = next(items for items, _ in filter(None, self.parts) if len(items))
        try:
            self.calm.update(items[:1], [last - 1])
        except BadArgument:
            assert self.calm.to_bytes() == before
        else:
            raise AssertionError("an older event was taken")

    def check(self) -> None:
        assert self.calm.nbytes <= self.options["memory"]
        seen: list[Any] = []
        edges = [at for at, part in enumerate(self.parts) if part is None]
        for begin, end in pairwise([-1, *edges, len(self.parts)]):
            events: list[Any] = []
            for items, times in self.parts[begin + 1 : end]:
                plain = items.to_pylist() if isinstance(items, pa.Array) else items.tolist()
                events += zip(plain, times.tolist(), strict=True)
            seen += intervals(*zip(*events, strict=True), GAP, self.size) if events else []
        known = {(item, begin) for item, _, begin in seen}
        for row in self.calm.top().to_pylist():
            assert row["lower"] <= within(row, seen, self.options["consecutive"]) <= row["upper"]
            assert row["lower"] <= row["periodicity"] <= row["upper"]
            if self.size == 1:
                assert (row["item"], row["last_batch"]) in known

    def teardown(self) -> None:
        """The same in one event a time, or in one update where there was no pause."""
        if not self.__dict__.get("parts"):
            return
        again = HyperCalm(gap=GAP, interval_unit=120, **self.options)
        for part in self.parts:
            if part is None:
                again.pause()
                continue
            for at in range(len(part[1])):
                again.update(part[0][at : at + 1], part[1][at : at + 1])
        assert again.to_bytes() == self.calm.to_bytes()


TestBeats = Beats.TestCase
TestBeats.settings = settings(max_examples=40, stateful_step_count=12, deadline=None)


class Shards(RuleBasedStateMachine):
    """Shards of one stream; `runs`: of each, the events between its pauses that were not late."""

    @initialize(
        shards=st.sampled_from([1, 3]),
        memory=st.sampled_from([3_000, 60_000]),
        resolution=st.sampled_from([1, 13, GAP]),
        batch_size=st.integers(1, 3),
        form=st.sampled_from(["int64", "string"]),
        start=st.sampled_from([0, -(2**63), LAST - 50_000, 1_700_000_000_000_000]),
    )
    def begin(self, shards: int, form: str, start: int, **options: Any) -> None:
        self.options = {"k": 6, "gap": GAP, "interval_unit": 120, **options}
        self.form, self.until, numbers = FORMS[form], start, range(shards)
        self.shards = [
            PeriodicShard(HyperCalm(**self.options), ["item"], shard, shards) for shard in numbers
        ]
        self.runs: list[list[list[tuple[int, int, int]]]] = [[[]] for _ in numbers]
        self.late = [0 for _ in numbers]

    @rule(
        keys=st.sampled_from([1, 3, 40]),
        n=st.sampled_from([0, 1, 9, 60]),
        ahead=st.sampled_from([-1, 0, 50, 200, 3_000]),
        spread=st.sampled_from([0, 1, GAP + 1, 300, 5_000]),
        further=st.sampled_from([0, 1, GAP, 300, 10_000]),
        seed=st.integers(0, 2**32),
    )
    def update(self, keys: int, n: int, ahead: int, spread: int, further: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        ids = rng.integers(0, keys, n)
        steps = (ahead + rng.integers(0, spread + 1, n)).tolist()
        times = [min(max(self.until + step, -(2**63)), LAST) for step in steps]
        items, until = pa.array(self.form(ids)), min(self.until + further, LAST)
        hashes = hash_items(items, SHARD_SEED)
        of = shards_of(hashes, len(self.shards))
        for at, shard in enumerate(self.shards):
            mine = np.flatnonzero(of == at)
            moments = np.array(times, np.int64)[mine]
            shard.update(items.take(pa.array(mine)), moments, until=until, late_before=self.until)
            events = [(times[i], int(hashes[i]), int(ids[i])) for i in mine]
            kept = [event for event in events if event[0] >= self.until]
            self.runs[at][-1] += kept
            self.late[at] += len(events) - len(kept)
        self.until = until
        self.check()

    @rule(way=st.sampled_from([copy, deepcopy, PeriodicShard.copy, None]))
    def goes_on_as(self, way: Any) -> None:
        for at, left in enumerate(self.shards):
            before = left.to_bytes()
            self.shards[at] = way(left) if way else PeriodicShard.from_bytes(before)
            left.update(self.form(np.arange(0)), [], until=LAST, nulls=1)
            assert self.shards[at].to_bytes() == before

    @rule()
    def pause(self) -> None:
        for at, shard in enumerate(self.shards):
            shard.pause()
            waiting = len(self.runs[at][-1])
            self.runs[at][-1] = [event for event in self.runs[at][-1] if event[0] < self.until]
            self.late[at] += waiting - len(self.runs[at][-1])
            self.runs[at].append([])
        self.check()

    def check(self) -> None:
        """Each is a HyperCalm of its events in the order of their times and hashes."""
        for shard, runs, late in zip(self.shards, self.runs, self.late, strict=True):
            calm = HyperCalm(**self.options)
            for number, run in enumerate(runs):
                if number:
                    calm.pause()
                times, _, ids = zip(*sorted(run), strict=True) if run else ((), (), ())
                calm.update(self.form(np.array(ids, np.int64)), np.array(times, np.int64))
            assert shard.whole().to_bytes() == calm.to_bytes()
            waiting = [time for time, _, _ in runs[-1] if time >= self.until]
            assert (shard.count, shard.late, shard.buffered) == (calm.count, late, len(waiting))
            assert shard.first_buffered == min(waiting, default=None)
            times = [time for run in runs for time, _, _ in run]
            assert shard.span == ((min(times), max(times)) if times else None)


TestShards = Shards.TestCase
TestShards.settings = settings(max_examples=40, stateful_step_count=12, deadline=None)
