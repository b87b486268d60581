"""HyperCalm: which items come back in batches at a steady interval, and how often.

========== =====================================================================================
State      a HyperBloom; a recorder of items (fingerprint, last time, last batch: 12 bytes); a
           Calm Space-Saving of pairs (item, interval); a store of the k highest with their items
Error      omissions only, but for equal fingerprints (8 / 2^31 a look-up): at least `lower`
           intervals of the item lay in the reported range. At most `upper` fit into the time
Merge      of disjoint shards of the items: `HyperCalm.merged_top`; `merge` is refused
Duplicates an item twice at one time is one occurrence of a batch (two where `batch_size` counts)
Source     HyperCalm Sketch, ICDE 2023. Stamps, set-associative tables, the recorder's preference
           for items that repeat, the store, joined bins and 32-bit ticks are ours
Limits     gap 1 to 2^44; a tick at most 2^32; intervals below 2^31 ticks (262,144 gaps at the
           default resolution);
           items longer than the store's arena are counted, but not named (`unnamed`)
========== =====================================================================================

A batch of an item is a run of its occurrences with gaps of at most T (`gap`); it arrives with
its first. The interval is the distance between the arrivals of adjacent batches, and the
periodicity of a pair is how often that interval came, or how often in a row (`consecutive`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa

from muntin.arrow import read_only
from muntin.errors import CorruptSummary, IncompatibleSummary
from muntin.summaries.aligned import aligned_copy, aligned_zeros
from muntin.summaries.checks import INT64_MAX, INT64_MIN, boolean, check_seed, integer_in, to_merge
from muntin.summaries.hyper_calm_plan import GAP_MAX, GAP_TICKS, HyperCalmParameters, guess_beat
from muntin.summaries.items import as_items, hash_items
from muntin.summaries.kernels.calm_space_saving import COUNTED, ERROR_PLACE, FIRST, INTERVAL, LAST
from muntin.summaries.kernels.hyper_calm import (
    HALF_TICKS,
    WAYS,
    Clock,
    Recorder,
    batch_ages,
    update_hyper_calm,
)
from muntin.summaries.named_pairs import LOW, NamedPairs, decode, encode, named_slots
from muntin.summaries.times import as_times, check_order

_ORDER = [("periodicity", "descending"), ("item", "ascending"), ("interval_low", "ascending")]


class HyperCalm(NamedPairs[HyperCalmParameters]):
    """Finds periodic batches in one pass over a stream in time order.

    Parameters
    ----------
    memory : int
        Bytes for everything that is stored, the reported items included.
    gap : int
        Longest gap inside a batch, in the unit of the times (microseconds for timestamps).
    interval_unit : int
        Width of an interval's bin: intervals that differ by less count as equal.
    k : int
        How many pairs are kept with their items; `top` reports at most these.
    seed : int
        Seed of the hash, 0 to 2^64 - 1.
    consecutive : bool
        Count how often an interval came in a row (its longest run), as the definition of periodic
        batches says; False counts all its occurrences, as the paper's evaluation does.
    batch_size : int
        Batches with fewer items are ignored, as if they had not been.
    bins : {"joined", "floor"}
        "floor" cuts at multiples of the unit, as the paper: a period near such an edge falls into
        two bins. "joined" has bins of the same width on a grid of half of it: each takes in the
        nearer halves of neighbours with lower counts, so that a steady period stays in one.
    resolution : int, optional
        One tick of the recorder's 32-bit clock. Default: the gap / 8192, rounded up, so that up
        to a gap of 8192 all times are exact. So they are where all are a whole number of ticks
        apart; else ranges of intervals are up to a tick wider at each end, and no interval is
        measured from or to a batch that may not be one (an item came again about a gap later).
    promote, queue_ways, item_bytes
        As in `CalmSpaceSaving`. A late promotion helps where the highest counts are close to the
        many below them, and costs little elsewhere.
    recorder_percent : int
        The recorder's share of the memory that HyperBloom and store leave.

    Raises
    ------
    BadArgument
        A parameter is out of range; where memory is too small for k, the message says what is
        needed.
    """

    kind: ClassVar[str] = "hyper_calm"
    instead_of_merging: ClassVar[str] = (
        "an item's batches may have been cut between the two. Shard the stream by item and use "
        "HyperCalm.merged_top"
    )

    def __init__(
        self,
        memory: int,
        gap: int,
        interval_unit: int,
        k: int,
        seed: int = 0,
        consecutive: bool = False,
        batch_size: int = 1,
        *,
        bins: str = "joined",
        resolution: int | None = None,
        promote: int = 10,
        queue_ways: int = 8,
        recorder_percent: int = 60,
        item_bytes: int = 16,
    ) -> None:
        gap = integer_in("gap", gap, 1, INT64_MAX)
        tick = -(-gap // GAP_TICKS) if resolution is None else resolution
        parameters = HyperCalmParameters(
            memory, gap, interval_unit, k, seed, boolean("consecutive", consecutive), batch_size,
            bins, tick, promote, queue_ways, recorder_percent, item_bytes,
        )  # fmt: skip
        super().__init__(parameters)
        blocks = parameters.bloom_blocks
        self._words = aligned_zeros(blocks * 8, np.uint64)
        self._stamps = np.zeros(blocks, np.uint32)
        self._recorder = parameters.make_recorder()
        self._aligned = True
        self._first: int | None = None
        self._last: int | None = None

    @classmethod
    def for_stream(
        cls,
        sample_items: Any,
        sample_times: Any,
        *,
        memory: int = 500_000,
        k: int = 100,
        seed: int = 0,
        **others: Any,
    ) -> Self:
        """A HyperCalm whose gap, interval unit and resolution are guessed from a sample.

        Parameters
        ----------
        sample_items, sample_times
            Part of the stream in time order, with several batches of the items of interest.
        memory, k, seed, **others
            As for the class; what is given here is not guessed.

        Raises
        ------
        BadArgument
            No item comes twice in the sample, or times go backwards.

        Examples
        --------
        >>> items, times = ["poller"] * 20, [beat * 30_000_000 for beat in range(20)]
        >>> calm = HyperCalm.for_stream(items[:10], times[:10])  # what came first, or yesterday
        >>> calm.update(items, times)
        >>> calm.top(1)["periodicity"].to_pylist()
        [19]
        """
        array = as_items(sample_items)
        times = as_times(sample_times, len(array))
        check_order(times, None)
        check_seed(seed)
        if (gap := others.get("gap")) is not None:
            gap = integer_in("gap", gap, 1, GAP_MAX)
        chosen: dict[str, Any] = guess_beat(hash_items(array, seed), times, gap)
        return cls(memory, k=k, seed=seed, **(chosen | others))

    def update(self, items: Any, times: Any) -> None:
        """Take events in time order.

        Parameters
        ----------
        items : strings, binary or integers [n]
            Arrow array, ndarray or sequence, without nulls, of one type for all updates.
        times : int64[n] or timestamps
            Not below each other nor below the last of the update before; equal is fine.

        Raises
        ------
        BadArgument
            Time goes backwards (the message says where), nulls, another type than before, other
            lengths. The state is then unchanged.
        """
        array, kind = self._checked(items)
        at = as_times(times, len(array))
        check_order(at, self._last)
        if len(array) == 0:
            return
        parameters = self._parameters
        settings = parameters.settings()
        first = int(at[0]) if self._first is None else self._first
        last = first if self._last is None else self._last
        phase = (first - INT64_MIN) % parameters.resolution
        for where, hashes, data, offsets in self._chunks(array):
            clock = Clock(last, phase, int(self._aligned))
            self._aligned = bool(
                update_hyper_calm(
                    self._words,
                    self._stamps,
                    self._recorder,
                    self._tables,
                    settings,
                    clock,
                    hashes,
                    at[where],
                    data,
                    offsets,
                )
            )
            last = int(at[where][-1])
        self._items = kind
        self._events += len(array)
        self._first, self._last = first, last

    def pause(self) -> None:
        """Events are missing between the last and the next: no interval is measured across them."""
        self._words[:] = 0
        self._stamps[:] = 0
        self._recorder = self._parameters.make_recorder()

    def top(self, k: int | None = None) -> pa.Table:
        """The pairs of highest periodicity.

        Parameters
        ----------
        k : int, optional
            At most so many, and at most the summary's own k (the default).

        Returns
        -------
        pyarrow.Table
            Highest periodicity first, then by item and interval:

            - `item`, as it was given;
            - `interval_low`, `interval_high`: the range of intervals that the pair stands for,
              the upper end excluded;
            - `periodicity`: how often the interval came, with `lower` and `upper`;
            - `first_seen`: begin of the first batch since the pair was among the k highest;
            - `last_batch`: begin of the latest batch that came at this interval;
            - `next_expected`: when the next is due: the recent interval after the item's latest
              batch, as long as the recorder holds the item, else after `last_batch`;
            - `interval`: a mean of the pair's intervals, the recent ones weighing most.

            Times and intervals are int64, in the unit of the times.
        """
        limit = self.k if k is None else integer_in("k", k, 1, self.k)
        named, items = self._named()
        low, high = self._parameters.edges(named[:, INTERVAL] & LOW, self._aligned)
        usual = (named[:, INTERVAL] >> 32) * self._parameters.resolution
        periodicity = named[:, COUNTED]
        elapsed = min((self._last or 0) - (self._first or 0), INT64_MAX)
        shortest = np.maximum(low, self._parameters.gap + 1)
        last = named[:, LAST]
        latest = np.maximum(last, self._last_batches(items))
        table = pa.table(
            {
                "item": items,
                "interval_low": low,
                "interval_high": high,
                "periodicity": periodicity,
                "lower": periodicity - (named[:, ERROR_PLACE] >> 32),
                "upper": np.maximum(periodicity, elapsed // shortest),
                "first_seen": named[:, FIRST],
                "last_batch": last,
                "next_expected": latest + np.minimum(usual, INT64_MAX - np.maximum(latest, 0)),
                "interval": usual,
            }
        )
        return table.sort_by(_ORDER).slice(0, limit)

    def _last_batches(self, items: pa.Array) -> np.ndarray:
        """When the recorder saw each item's latest batch begin, to a tick; the first time: never.

        A beat that was missed or late is no batch of the pair, but the item came.
        """
        if self._first is None or self._last is None:
            return np.empty(0, np.int64)
        tick = self._parameters.resolution
        now = (self._last - INT64_MIN) // tick
        ages = np.empty(len(items), np.int64)
        hashes = hash_items(items, self._parameters.seed)
        batch_ages(self._recorder, read_only(hashes), np.uint64(now), ages)
        phase = (self._first - INT64_MIN) % tick if self._aligned else 0
        here = now * tick + phase + INT64_MIN  # at most the last time
        return np.where(ages < 0, self._first, here - np.maximum(ages, 0) * tick)

    @staticmethod
    def merged_top(shards: Sequence[HyperCalm], k: int) -> pa.Table:
        """The top of several HyperCalms that saw disjoint sets of items.

        Parameters
        ----------
        shards : sequence of HyperCalm
            One for each shard of the items, with the same gap, interval unit and way of counting.
        k : int
            How many pairs; each shard should have been made for as many.

        Raises
        ------
        IncompatibleSummary
            The shards' parameters differ.
        BadArgument
            No shards, or k out of range.
        """
        shards = to_merge(HyperCalm, shards)
        alike = ("gap", "interval_unit", "consecutive", "batch_size", "bins")
        for shard in shards[1:]:
            for name in alike:
                ours = getattr(shards[0]._parameters, name)
                theirs = getattr(shard._parameters, name)
                if ours != theirs:
                    raise IncompatibleSummary(f"{name} is {ours} in one shard, {theirs} in another")
        kinds = {shard._items for shard in shards} - {None}
        if len(kinds) > 1:
            raise IncompatibleSummary(
                f"items of different types in shards: {sorted(map(str, kinds))}"
            )
        integer_in("k", k, 1, INT64_MAX)
        tables = [shard.top() for shard in shards if shard._items in kinds or not kinds]
        return pa.concat_tables(tables).sort_by(_ORDER).slice(0, k)

    @property
    def first_time(self) -> int | None:
        """Time of the first event; None before it."""
        return self._first

    @property
    def last_time(self) -> int | None:
        """Time of the last event; the next must not be earlier. None before the first."""
        return self._last

    def to_bytes(self) -> bytes:
        """The whole state, sealed; the same stream gives the same bytes however it was cut."""
        clock = {"aligned": self._aligned, "first": self._first, "last": self._last}
        parts = [self._words.astype("<u8"), self._stamps.astype("<u4")]
        parts += [part.astype("<u4") for part in self._recorder]
        body = b"".join((*(part.tobytes() for part in parts), encode(self._tables)))
        return self._sealed(clock, body)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """What `to_bytes` wrote, with its own memory; `CorruptSummary` for anything else."""
        made, fields, body = cls._unsealed(data, HyperCalmParameters)
        made._aligned = fields.choice("aligned", [True, False])
        if made._events:
            made._first = fields.integer("first", INT64_MIN, INT64_MAX)
            made._last = fields.integer("last", made._first, INT64_MAX)
        else:
            made._first, made._last = (fields.choice(name, [None]) for name in ("first", "last"))
        fields.done()
        made._check_clock()
        parameters = made._parameters
        blocks, sizes = parameters.bloom_blocks, parameters.recorder_sizes()
        made._words = aligned_copy(body.array("<u8", blocks * 8))
        made._stamps = body.array("<u4", blocks)
        made._recorder = Recorder(*(aligned_copy(body.array("<u4", size)) for size in sizes))
        tables = body.rest()
        made._tables = decode(cls.kind, tables, parameters.shape, made._items, parameters.promote)
        made._check_recorder()
        made._check_named()
        return made

    def _check_clock(self) -> None:
        first, last, tick = self._first, self._last, self._parameters.resolution
        apart = 0 if first is None or last is None else (last - first) % tick
        if (self._aligned and apart) or (not self._aligned and (tick == 1 or self._events < 2)):
            raise CorruptSummary(f"{self.kind}: aligned is {self._aligned}, which cannot be")

    def _check_recorder(self) -> None:
        recorder, batch_size = self._recorder, self._parameters.batch_size
        lines = recorder.lines.reshape(-1, 2 * WAYS)
        free = lines[:, :WAYS].ravel() == 0
        for part in (lines[:, WAYS:].ravel(), *recorder[1:]):
            if len(part) and part[free].any():
                raise CorruptSummary(f"{self.kind}: a free place of the recorder is not empty")
        sizes = recorder.sizes
        if len(sizes) and ((sizes > batch_size).any() or (sizes[~free] == 0).any()):
            raise CorruptSummary(f"{self.kind}: a batch of the recorder has an impossible size")
        if not self._events and (self._words.any() or self._stamps.any() or not free.all()):
            raise CorruptSummary(f"{self.kind}: items are followed, but no event was taken")

    def _check_named(self) -> None:
        named = self._tables.slots[named_slots(self._tables)]
        usual = named[:, INTERVAL] >> 32
        good = (named[:, INTERVAL] >= 0) & (usual >= 1) & (named[:, LAST] <= (self._last or 0))
        if good.all():
            longest = int(HALF_TICKS) * self._parameters.resolution
            low, _ = self._parameters.edges(named[:, INTERVAL] & LOW, aligned=True)
            good = low < longest
        if not good.all():
            raise CorruptSummary(f"{self.kind}: a named pair with impossible times")
