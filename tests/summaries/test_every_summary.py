"""Each public class of summary: its copies are independent, and what it refuses or reads."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from muntin import summaries
from muntin.errors import IncompatibleSummary
from muntin.summaries import (
    KLL,
    REQ,
    CalmSpaceSaving,
    CountMin,
    Distinct,
    DyadicQDigest,
    DynamicBloom,
    Fingerprint,
    FixedWindowQuantiles,
    HyperBloom,
    HyperCalm,
    PeriodicShard,
    SketchedMatrix,
    SpaceSaving,
    TimeWindowQuantiles,
    VectorMatrix,
)


def _plain(summary: Any, values: np.ndarray) -> None:
    summary.update(values)


def _timed(summary: Any, values: np.ndarray) -> None:
    summary.update(values, np.sort(values) + 1_000 * summary.count)


def _of_shard(summary: Any, values: np.ndarray) -> None:
    times = values + 1_000 * summary.count
    summary.update(values, times, until=int(times.min()) + 5)


def _table(summary: Any, values: np.ndarray) -> None:
    summary.update(pa.table({"key": values, "x": values}))


MAKERS: dict[type, tuple[Callable[[], Any], Callable[[Any, np.ndarray], None]]] = {
    KLL: (KLL, _plain),
    REQ: (REQ, _plain),
    DyadicQDigest: (DyadicQDigest, _plain),
    FixedWindowQuantiles: (lambda: FixedWindowQuantiles(100), _plain),
    TimeWindowQuantiles: (lambda: TimeWindowQuantiles(10_000), _timed),
    CountMin: (lambda: CountMin(track=5), _plain),
    SpaceSaving: (lambda: SpaceSaving(10), _plain),
    Distinct: (Distinct, _plain),
    DynamicBloom: (lambda: DynamicBloom(100), _plain),
    Fingerprint: (lambda: Fingerprint(100), _plain),
    CalmSpaceSaving: (lambda: CalmSpaceSaving(100_000, 10), _plain),
    HyperBloom: (lambda: HyperBloom(10_000, 10), _timed),
    HyperCalm: (lambda: HyperCalm(200_000, 10, 5, 10), _timed),
    PeriodicShard: (lambda: PeriodicShard(HyperCalm(200_000, 10, 5, 10), ["item"]), _of_shard),
    VectorMatrix: (lambda: VectorMatrix(["key"], ["x"]), _table),
    SketchedMatrix: (lambda: SketchedMatrix(["key"], ["x"]), _table),
}


def test_each_public_summary_is_here() -> None:
    public = {getattr(summaries, name) for name in summaries.__all__}
    assert {kind for kind in public if hasattr(kind, "update")} == set(MAKERS)


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize(
    "copied",
    [
        copy.copy,
        copy.deepcopy,
        lambda one: one.copy(),
        lambda one: pickle.loads(pickle.dumps(one)),  # noqa: S301
    ],
    ids=["copy", "deepcopy", "method", "pickle"],
)
def test_a_copy_is_independent(kind: type, copied: Callable[[Any], Any]) -> None:
    make, update = MAKERS[kind]
    rng = np.random.default_rng(0)
    first, second = rng.integers(0, 200, (2, 300))
    original, expected = make(), make()
    for summary in (original, expected):
        update(summary, first)
        summary.to_bytes()  # which settles what waits to be sorted in
    twin = copied(original)
    update(twin, second)
    assert original.to_bytes() == expected.to_bytes()
    for summary in (original, expected):
        update(summary, second)
    assert twin.to_bytes() == original.to_bytes() == expected.to_bytes()


@pytest.mark.parametrize("kind", MAKERS)
def test_what_is_no_summary_is_not_taken_in(kind: type) -> None:
    make, _ = MAKERS[kind]
    with pytest.raises(IncompatibleSummary, match="NoneType"):
        make().merge(None)


@pytest.mark.parametrize("kind", MAKERS)
def test_bytes_are_read_from_memory_with_gaps(kind: type) -> None:
    make, update = MAKERS[kind]
    summary = make()
    update(summary, np.arange(300))
    data = summary.to_bytes()
    apart = bytearray(2 * len(data))
    apart[::2] = data
    assert summary.from_bytes(memoryview(apart)[::2]).to_bytes() == data


@pytest.mark.parametrize("kind", [KLL, REQ, DyadicQDigest, FixedWindowQuantiles])
@pytest.mark.parametrize("flags", [[True, False, True], pa.array([False, True, True])])
def test_a_boolean_is_0_or_1(kind: type, flags: Any) -> None:
    summary = MAKERS[kind][0]()
    summary.update(flags)
    summary.update(True)
    assert summary.quantile([0.1, 0.9]).value.tolist() == [0, 1]
    ranks = summary.rank([False, True]).value
    assert (ranks / ranks[1]).tolist() == [0.25, 1]
