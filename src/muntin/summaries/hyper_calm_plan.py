"""What a HyperCalm is made from, checked, or guessed, and how its memory is split.

The shares were measured on four streams (benchmarks/periodic.py): a fortieth for the HyperBloom,
which only guards the entrance (what it misses is the start of an item that is not followed yet);
of what the store of named pairs leaves, most for the recorder, since an item must be remembered
from one batch to its next, and the rest for pairs.
"""

from bisect import bisect_left
from dataclasses import dataclass

import numpy as np

from muntin.errors import BadArgument
from muntin.summaries.aligned import aligned_zeros
from muntin.summaries.checks import INT64_MAX, boolean, integer_in, one_of, with_plain_integers
from muntin.summaries.kernels.hyper_calm import WAYS, Recorder, Settings
from muntin.summaries.named_pairs import MEMORY_BYTES_MAX, CalmShape, check_store

GAP_MAX = 1 << 44  # 203 days in microseconds
RESOLUTION_MAX = 1 << 32  # 2^31 ticks are then 2^63, of which half bins must not pass 2^64
UNIT_MAX = 1 << 60
GAP_TICKS = 1 << 13  # of the default resolution: 2^31 ticks are then 262,144 gaps
GAP_TICKS_MAX = 1 << 20
BATCH_SIZE_MAX = 1 << 10
COLUMNS = 6
BLOOM_BLOCK_BYTES = 68
BLOOM_SHARE = 40  # one of so many parts of the memory
_CANDIDATES = 32  # gaps that are tried, evenly on a logarithmic scale
_PLATEAU = 0.9  # of the best score: gaps that do as well
_STEADY = 8  # intervals are alike if they differ by less than one of so many parts
_STEADY_QUANTILE = 0.25  # the steadiest quarter of the items is what a user looks for
_DEVIATIONS = 12  # unit in median changes: a joined bin is sure of a quarter on each side
_BATCHES_MIN = 4  # of an item, to judge how steady it is


def time_limits(gap: int, resolution: int) -> dict[str, tuple[int, int]]:
    """The least and the most of each parameter that is a time."""
    return {
        "gap": (1, GAP_MAX),
        "resolution": (-(-gap // GAP_TICKS_MAX), min(gap, RESOLUTION_MAX)),
        "interval_unit": (resolution, UNIT_MAX),
    }


@dataclass(frozen=True, slots=True)
class HyperCalmParameters:
    """Parameters of a `HyperCalm`; see there."""

    memory: int
    gap: int
    interval_unit: int
    k: int
    seed: int
    consecutive: bool
    batch_size: int
    bins: str
    resolution: int
    promote: int
    queue_ways: int
    recorder_percent: int
    item_bytes: int

    def __post_init__(self) -> None:
        with_plain_integers(self)
        integer_in("gap", self.gap, 1, GAP_MAX)
        for name, limits in time_limits(self.gap, self.resolution).items():
            integer_in(name, getattr(self, name), *limits)
        integer_in("seed", self.seed, 0, (1 << 64) - 1)
        boolean("consecutive", self.consecutive)
        integer_in("batch_size", self.batch_size, 1, BATCH_SIZE_MAX, "items")
        integer_in("recorder_percent", self.recorder_percent, 1, 99)
        one_of("bins", self.bins, ("joined", "floor"))
        check_store(self.k, self.promote, self.queue_ways, self.item_bytes)
        integer_in("memory", self.memory, 1, MEMORY_BYTES_MAX, "bytes")
        if not self._fits(self.memory):
            raise BadArgument(
                f"memory={self.memory} is too small for k={self.k}: "
                f"give at least {self._least_memory()} bytes"
            )

    @property
    def bloom_blocks(self) -> int:
        return self._split(self.memory)[0]

    @property
    def recorder_buckets(self) -> int:
        """Buckets of the recorder, eight items each."""
        return self._split(self.memory)[1]

    @property
    def shape(self) -> CalmShape:
        buckets = self._split(self.memory)[2]
        return CalmShape(buckets, self.queue_ways, self.k, COLUMNS, self.item_bytes, False)

    def settings(self) -> Settings:
        """The numbers that the kernel needs."""
        return Settings(
            gap=self.gap,
            resolution=self.resolution,
            unit=self.interval_unit,
            joined=int(self.bins == "joined"),
            consecutive=int(self.consecutive),
            batch_size=self.batch_size,
            promote=self.promote,
        )

    def edges(self, bins: np.ndarray, aligned: bool) -> tuple[np.ndarray, np.ndarray]:
        """First interval of each bin, and the first after it, int64 as far as it goes.

        A bin is a run of distances in ticks. Where times are not all a whole number of ticks
        apart, an interval may be almost a tick longer or shorter than its distance.
        """
        unit, tick = self.interval_unit, self.resolution
        wide = bins.astype(object)
        if self.bins == "floor":
            low, high = wide * unit, (wide + 1) * unit
        else:
            low, high = -(-(2 * wide - 1) * unit // 4), -(-(2 * wide + 3) * unit // 4)
        if not aligned:
            low, high = (-(-low // tick) - 1) * tick + 1, -(-high // tick) * tick
        return (
            np.array([max(0, edge) for edge in low], np.int64),
            np.array([min(INT64_MAX, edge) for edge in high], np.int64),
        )

    def recorder_sizes(self) -> list[int]:
        """Lengths of the recorder's arrays, in its order."""
        buckets = self.recorder_buckets
        sized = buckets * WAYS if self.batch_size > 1 else 0
        runs = buckets * WAYS if self.consecutive else 0
        return [buckets * 16, buckets * WAYS, sized, sized, runs, runs]

    def make_recorder(self) -> Recorder:
        return Recorder(*(aligned_zeros(size, np.uint32) for size in self.recorder_sizes()))

    def _split(self, memory: int) -> tuple[int, int, int]:
        blocks = max(1, memory // BLOOM_SHARE // BLOOM_BLOCK_BYTES)
        rest = memory - blocks * BLOOM_BLOCK_BYTES
        rest -= CalmShape.store_bytes(self.k, COLUMNS, self.item_bytes)
        recorder = 96 + 64 * (self.batch_size > 1) + 64 * self.consecutive
        followed = max(rest, 0) * self.recorder_percent // 100 // recorder
        pairs = (rest - followed * recorder) // CalmShape.bucket_bytes(self.queue_ways, False)
        return blocks, followed, pairs

    def _fits(self, memory: int) -> bool:
        blocks, followed, pairs = self._split(memory)
        return blocks >= 1 and followed >= 1 and pairs * WAYS >= self.k

    def _least_memory(self) -> int:
        # about so much: by rounding, a little more may fit a little less
        return bisect_left(range(MEMORY_BYTES_MAX), True, key=self._fits)


def guess_beat(items: np.ndarray, times: np.ndarray, gap: int | None = None) -> dict[str, int]:
    """Gap, interval unit and resolution for a HyperCalm, by a sample of its stream in time order.

    The gap is the one that leaves the steadiest intervals: candidates from half the shortest to the
    longest distance of an item's occurrences are tried, and scored by how many adjacent intervals
    of an item are alike, times the share of those that are. Usually a wide range does equally
    well; its middle is taken. Where no interval repeats, it is the mean distance, as the paper's.
    The unit is twelve times the median change from one interval
    to the next of the steadiest quarter of the items, at least an eighth of the gap. The
    resolution is the largest step that a tick may be and that all times are multiples of, where
    that is fine enough.

    `items` (uint64[n]): hashed. `times` (int64[n]): ascending. `gap`: where it is known. Raises
    BadArgument: no item comes twice at different times.
    """
    order = np.lexsort((np.arange(len(items)), items))
    sorted_items, sorted_times = items[order], times[order]
    same = sorted_items[1:] == sorted_items[:-1]
    distances = sorted_times[1:] - sorted_times[:-1]
    between = distances[same & (distances > 0)]
    if len(between) == 0:
        raise BadArgument("no item comes twice in the sample: give a longer one, or set the gap")
    chosen = _steadiest_gap(sorted_items, sorted_times, between) if gap is None else gap
    unit = max(_steady_unit(sorted_items, sorted_times, chosen), 1)
    step = int(np.gcd.reduce(np.diff(times))) or 1
    fine = -(-chosen // GAP_TICKS)
    resolution = fine
    if step <= chosen // 16:  # a part of the step, where that is more than a tick may be
        parts = range(-(-step // RESOLUTION_MAX), step // fine + 1)
        resolution = next((step // n for n in parts if step % n == 0), fine)
    resolution = max(resolution, -(-chosen // GAP_TICKS_MAX))
    unit = min(max(unit, resolution), UNIT_MAX)
    return {"gap": chosen, "interval_unit": unit, "resolution": resolution}


def _adjacent_intervals(
    items: np.ndarray, times: np.ndarray, gap: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Pairs of adjacent intervals of an item: whose, the former, the latter."""
    starts = np.ones(len(items), bool)
    starts[1:] = (items[1:] != items[:-1]) | (times[1:] - times[:-1] > gap)
    owner, arrival = items[starts], times[starts]
    same = owner[1:] == owner[:-1]
    interval, owner = (arrival[1:] - arrival[:-1])[same], owner[1:][same]
    alike = owner[1:] == owner[:-1]
    return owner[1:][alike], interval[:-1][alike], interval[1:][alike]


def _steadiest_gap(items: np.ndarray, times: np.ndarray, distances: np.ndarray) -> int:
    """Middle of the gaps whose intervals repeat best; the mean distance where none does."""
    least = max(distances.min() // 2, 1)  # below all distances each event is a batch
    tried = np.unique(np.geomspace(least, distances.max(), _CANDIDATES).astype(np.int64))
    scores = []
    for gap in tried.tolist():
        _, former, latter = _adjacent_intervals(items, times, gap)
        steady = np.count_nonzero(np.abs(latter - former) < former // _STEADY)
        scores.append(steady * steady / max(len(former), 1))
    best = int(np.argmax(scores))
    if scores[best] == 0:
        return int(min(max(distances.mean(), 1), GAP_MAX))
    low = high = best
    while low > 0 and scores[low - 1] >= _PLATEAU * scores[best]:
        low -= 1
    while high + 1 < len(tried) and scores[high + 1] >= _PLATEAU * scores[best]:
        high += 1
    return int(min(max(np.sqrt(float(tried[low]) * float(tried[high])), 1), GAP_MAX))


def _steady_unit(items: np.ndarray, times: np.ndarray, gap: int) -> int:
    """Twelve times the median change of interval of the steadier items, at least gap / 8."""
    least = -(-gap // 8)
    owners, former, latter = _adjacent_intervals(items, times, gap)
    changes = np.abs(latter - former)
    _, where, sizes = np.unique(owners, return_index=True, return_counts=True)
    medians = [
        np.median(changes[begin : begin + size])
        for begin, size in zip(where.tolist(), sizes.tolist(), strict=True)
        if size >= _BATCHES_MIN - 2
    ]
    if not medians:
        return gap
    return max(int(_DEVIATIONS * np.quantile(medians, _STEADY_QUANTILE)), least)
