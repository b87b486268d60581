"""Each public class of summary: its copies are independent, and what it refuses or reads."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from muntin import summaries
from muntin.errors import (
    BadArgument,
    CorruptSummary,
    IncompatibleSummary,
    MuntinError,
    SummaryOverflow,
)
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
from muntin.summaries.order_maps import FloatOrder, IntegerRange


def _plain(summary: Any, values: np.ndarray) -> None:
    summary.update(values)


def _timed(summary: Any, values: np.ndarray) -> None:
    summary.update(values, np.sort(values) + 1_000 * summary.count)


def _of_shard(summary: Any, values: np.ndarray) -> None:
    times = values + 1_000 * summary.count
    summary.update(values, times, until=int(times.min()) + 5)


def _of_shard_again(until: int) -> None:
    shard = PeriodicShard(HyperCalm(200_000, 10, 5, 10), ["item"])
    shard.update([1, 2], [6, 7], until=9)
    shard.update([1], [5], until=until)


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


@pytest.mark.parametrize("kind", [*MAKERS, None])
def test_what_is_merged_again_and_again_is_refused_before_it_cannot_be_written(kind: Any) -> None:
    """Twice as many events each time. Past what it counts, REQ ended the process."""
    if kind is None:
        summary: Any = Fingerprint(100, domain=FloatOrder())
        summary.update(np.arange(300), np.arange(300))
    else:
        make, update = MAKERS[kind]
        summary = make()
        update(summary, np.arange(300))
    for _ in range(80):
        before = summary.to_bytes()
        assert type(summary).from_bytes(before).to_bytes() == before
        try:
            summary.merge(summary.copy())
        except (BadArgument, IncompatibleSummary, SummaryOverflow):
            break
    else:
        pytest.fail("never refused")
    assert summary.to_bytes() == before


@pytest.mark.parametrize("kind", MAKERS)
def test_bytes_are_read_from_memory_with_gaps(kind: type) -> None:
    make, update = MAKERS[kind]
    summary = make()
    update(summary, np.arange(300))
    data = summary.to_bytes()
    apart = bytearray(2 * len(data))
    apart[::2] = data
    assert summary.from_bytes(memoryview(apart)[::2]).to_bytes() == data


@pytest.mark.parametrize(("step", "remedy"), [(1, "upgrade Muntin"), (-1, "make it anew")])
@pytest.mark.parametrize("kind", MAKERS)
def test_bytes_of_another_version_say_what_to_do(kind: type, step: int, remedy: str) -> None:
    make, _ = MAKERS[kind]
    data = bytearray(make().to_bytes())
    data[6] += step
    with pytest.raises(CorruptSummary, match=f"version {data[6]}, .* reads .*: {remedy}"):
        make().from_bytes(bytes(data))


@pytest.mark.parametrize("kind", [KLL, REQ, DyadicQDigest, FixedWindowQuantiles])
@pytest.mark.parametrize("flags", [[True, False, True], pa.array([False, True, True])])
def test_a_boolean_is_0_or_1(kind: type, flags: Any) -> None:
    summary = MAKERS[kind][0]()
    summary.update(flags)
    summary.update(True)
    assert summary.quantile([0.1, 0.9]).value.tolist() == [0, 1]
    ranks = summary.rank([False, True]).value
    assert (ranks / ranks[1]).tolist() == [0.25, 1]


@pytest.mark.parametrize("kind", [KLL, REQ, DyadicQDigest, FixedWindowQuantiles])
def test_a_decimal_is_the_nearest_float(kind: type) -> None:
    summary = DyadicQDigest(domain=FloatOrder()) if kind is DyadicQDigest else MAKERS[kind][0]()
    decimals = [Decimal("0.1"), Decimal("2.5")]
    summary.update(decimals)
    summary.update(pa.array(decimals))
    floats = summary.rank([0.1, 2.5]).value.tolist()
    for same in (decimals, tuple(decimals), np.array(decimals), pa.array(decimals)):
        assert summary.rank(same).value.tolist() == floats
    assert summary.rank(Decimal("0.1")).value.tolist() == floats[:1]


@pytest.mark.parametrize("kind", [KLL, REQ, FixedWindowQuantiles])
@pytest.mark.parametrize("of", [pa.float16(), pa.float32(), pa.int8(), pa.decimal128(3, 1)])
def test_each_chunk_may_have_a_dictionary_of_its_own(kind: type, of: pa.DataType) -> None:
    chunks = [pa.array(part, of).dictionary_encode() for part in ([2, 4], [4, 3])]
    summary = MAKERS[kind][0]()
    summary.update(pa.chunked_array(chunks))
    assert summary.quantile([0.2, 0.4, 0.6, 0.8]).value.tolist() == [2, 3, 4, 4]


@pytest.mark.parametrize(
    "make",
    [
        lambda: KLL(dtype="int64"),
        lambda: REQ(dtype="int64"),
        lambda: FixedWindowQuantiles(100, dtype="int64"),
        lambda: DyadicQDigest(domain=IntegerRange(62)),
    ],
)
def test_a_decimal_asked_of_integers_is_what_it_says(make: Callable[[], Any]) -> None:
    summary = make()
    summary.update([2**60 + i for i in range(4)])  # a float holds each 256th
    asked = [Decimal(2**60 + 1), Decimal("1152921504606846978.5"), Decimal("Infinity")]
    below = [Decimal("-1e999999"), Decimal("1e-999999")]
    for same in (asked, np.array(asked), pa.array(asked[:2]), pd.Series(asked)):
        assert (summary.rank(same).value * 4 / summary.rank(2**61).value).tolist()[:2] == [2, 3]
        less = summary.rank(same, inclusive=False).value
        assert (less * 4 / summary.rank(2**61).value).tolist()[:2] == [1, 3]
    assert summary.rank(asked[2]).value == summary.rank(2**61).value
    assert summary.rank(below).value.tolist() == [0, 0]
    if isinstance(summary, KLL):
        assert summary.cdf(asked[:1]).value.tolist() == [0.5, 1]
        near = [Decimal(2**60 + 1), Decimal(2**60 + 2)]  # of one nearest float
        assert summary.cdf(near).value.tolist() == [0.5, 0.75, 1]
        assert summary.pmf(pa.array(near)).value.tolist() == [0.5, 0.25, 0.25]
        with pytest.raises(MuntinError, match=rf"point {2**60 + 1} at position 1: .* increase"):
            summary.cdf(near[::-1])
    with pytest.raises(MuntinError, match="position 1 is NaN"):
        summary.rank([Decimal(1), Decimal("NaN")])


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: REQ(k=None), "k must be an integer, got None"),
        (lambda: REQ(seed=1.5), "seed must be an integer, got 1.5"),
        (lambda: REQ(dtype="\ud800"), "use one of float64"),
        (lambda: KLL(dtype="\ud800"), "use one of float64"),
        (lambda: KLL(seed=np.timedelta64(1, "D")), "seed"),
        (lambda: CountMin(depth=np.timedelta64(1, "D")), "depth must be an integer"),
        (lambda: SketchedMatrix(["k"], ["x"], track=None), "track must be an integer"),
        (lambda: SketchedMatrix(["k"], {"x": "f"}), "give 'int64', 'float64' or None; for sums"),
        (lambda: SketchedMatrix(["k"], {"x": "decimal(2)"}), "as floats, give 'float64'"),
        (lambda: CountMin.for_error(None, 0.1), "epsilon must lie between 0 and 1, got None"),
        (lambda: DyadicQDigest(domain=5), "domain=5: give a map"),
        (lambda: HyperCalm.for_stream([1, 1], [1, 2], seed=-1), "seed=-1 is out of range"),
        (lambda: KLL().rank(10**400), "beyond float64"),
        (lambda: REQ().rank(10**400), "beyond float64"),
        (lambda: KLL().rank(1, inclusive="no"), "inclusive must be True or False, got 'no'"),
        (lambda: REQ().rank(1, inclusive=[1]), "inclusive must be True or False"),
        (lambda: DyadicQDigest().rank(1, inclusive=0), "inclusive must be True or False, got 0"),
        (lambda: KLL().update([Decimal("1e999")]), "value at position 0 is beyond float64"),
        (lambda: CountMin(conservative="no"), "conservative must be True or False, got 'no'"),
        (lambda: CountMin().update(["\ud800"]), "surrogates not allowed"),
        (lambda: SpaceSaving().update(np.array(["\ud800"])), "surrogate"),
        (lambda: PeriodicShard(HyperCalm(200_000, 10, 5, 10), ["\ud800"]), "is not Unicode text"),
        (
            lambda: PeriodicShard(HyperCalm(200_000, 10, 5, 10), ["item"], 1, 3).update(
                [1, 2, 3, 4, 5, 6], [1] * 6, until=0
            ),
            "is of shard [02], and this is shard 1 of 3",
        ),
        (lambda: _of_shard_again(until=3), "until=3, and events up to 7 were folded already"),
        (lambda: KLL.merged(None), "cannot merge a NoneType: give a list of KLL"),
        (lambda: KLL.merged([]), "no KLL to merge"),
        (lambda: KLL.merged(["a"]), "cannot merge a str into a KLL"),
        (lambda: REQ.merged([[]]), "cannot merge a list into a REQ"),
        (lambda: FixedWindowQuantiles.merged("a"), "cannot merge a str"),
        (lambda: VectorMatrix.merged(None), "cannot merge a NoneType"),
        (lambda: HyperCalm.merged_top([1], 3), "cannot merge a int into a HyperCalm"),
        (lambda: Distinct.from_datasketches(8), "is bytes, got int"),
        (lambda: TimeWindowQuantiles(100).advance(pd.NaT), "times must be"),
        (lambda: TimeWindowQuantiles(100).update([1], ["\ud800"]), "times must be"),
        (lambda: CalmSpaceSaving(100_000, 10).update([1, 2], [[1], [2, 3]]), "of one type"),
    ],
)
def test_what_makes_no_sense_is_named(call: Callable[[], Any], said: str) -> None:
    with pytest.raises(MuntinError, match=said):
        call()


@pytest.mark.parametrize("kind", [KLL, DyadicQDigest, CountMin, SpaceSaving])
def test_one_weight_stands_for_all_also_for_none(kind: type) -> None:
    summary = MAKERS[kind][0]()
    summary.update([], 5)
    assert summary.to_bytes() == MAKERS[kind][0]().to_bytes()


def test_numbers_and_instants_of_numpy_are_as_those_of_python() -> None:
    for plain, given in (
        (SketchedMatrix(["key"], ["x"], depth=3), SketchedMatrix(["key"], ["x"], depth=np.int8(3))),
        (CalmSpaceSaving(100_000, 10), CalmSpaceSaving(np.uint64(100_000), np.int8(10))),
        (HyperCalm(200_000, 10, 5, 10), HyperCalm(200_000, np.int64(10), np.int8(5), np.int8(10))),
        (DyadicQDigest(10, 20), DyadicQDigest(np.int64(10), np.uint64(20))),
    ):
        for summary in (plain, given):
            MAKERS[type(summary)][1](summary, np.arange(300))
        assert given.to_bytes() == plain.to_bytes()
    instant = np.datetime64("2020-01-01", "ms")
    made = [HyperBloom(10_000, 10) for _ in range(2)]
    made[0].update(["a", "b"], instant)
    made[1].update(["a", "b"], np.array([instant, instant]))
    assert made[0].to_bytes() == made[1].to_bytes()
