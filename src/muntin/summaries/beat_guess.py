"""What a sample of a stream says about gap, interval unit and resolution for a HyperCalm."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from muntin.errors import BadArgument
from muntin.summaries.hyper_calm_plan import (
    GAP_MAX,
    GAP_TICKS,
    GAP_TICKS_MAX,
    RESOLUTION_MAX,
    UNIT_MAX,
)

_CANDIDATES = 32  # gaps that are tried, evenly on a logarithmic scale
_PLATEAU = 0.9  # of the best score: gaps that do as well
_STEADY = 8  # intervals are alike if they differ by less than one of so many parts
_STEADY_QUANTILE = 0.25  # the steadiest quarter of the items is what a user looks for
_DEVIATIONS = 12  # unit in median changes: a joined bin is sure of a quarter on each side
_BATCHES_MIN = 4  # of an item, to judge how steady it is


@dataclass(frozen=True, slots=True)
class Beat:
    """A guess, in the unit of the times."""

    gap: int
    interval_unit: int
    resolution: int


def guess_beat(items: np.ndarray, times: np.ndarray, gap: int | None = None) -> Beat:
    """Guess a beat from a sample in time order.

    The gap is the one that leaves the steadiest intervals: candidates from half the shortest to the
    longest distance of an item's occurrences are tried, and scored by how many adjacent intervals
    of an item are alike, times the share of those that are. Usually a wide range does equally
    well; its middle is taken. Where no interval repeats, it is the mean distance, as the paper's.
    The unit is twelve times the median change from one interval
    to the next of the steadiest quarter of the items, at least an eighth of the gap. The
    resolution is the largest step that a tick may be and that all times are multiples of, where
    that is fine enough.

    Parameters
    ----------
    items : uint64[n]
        Hashed items.
    times : int64[n]
        In ascending order.
    gap : int, optional
        The gap, if it is known.

    Raises
    ------
    BadArgument
        No item comes twice at different times.
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
    return Beat(chosen, min(max(unit, resolution), UNIT_MAX), resolution)


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
