"""KLL against sorted arrays: bounds, laws, bad input, bytes."""

from __future__ import annotations

from decimal import Decimal
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from quantile_checks import QS, exact_quantiles, fed, rank_errors, streams

from muntin.errors import BadArgument, IncompatibleSummary, SummaryOverflow
from muntin.summaries import FixedWindowQuantiles
from muntin.summaries.kernels import sorting
from muntin.summaries.quantiles import KLL
from muntin.summaries.req import REQ

GOLDEN = Path(__file__).parent.parent / "golden"


class TestAnswers:
    @given(
        st.lists(st.floats(allow_nan=False), min_size=1, max_size=200),
        st.lists(st.floats(0, 1), min_size=1, max_size=20),
    )
    def test_small_streams_are_exact(self, values, fractions):
        sketch = KLL(k=200)
        sketch.update(values)
        ordered = np.sort(np.array(values) + 0.0)
        need = np.ceil(np.nextafter(np.array(fractions) * len(values), 0)).astype(int)
        answer = sketch.quantile(fractions)
        np.testing.assert_array_equal(answer.value, ordered[np.maximum(need, 1) - 1])
        np.testing.assert_array_equal(answer.lower, answer.value)
        np.testing.assert_array_equal(answer.upper, answer.value)
        assert answer.confidence == 1.0
        for inclusive, side in ((True, "right"), (False, "left")):
            rank = sketch.rank(ordered, inclusive=inclusive)
            expected = np.searchsorted(ordered, ordered, side) / len(ordered)
            np.testing.assert_array_equal(rank.value, expected)
            np.testing.assert_array_equal(rank.upper, expected)
        assert sketch.min == ordered[0]
        assert sketch.max == ordered[-1]
        assert sketch.count == len(values)

    @pytest.mark.parametrize("name", streams(16))
    @pytest.mark.parametrize("size", [97, 5_000, 120_000])
    def test_bound_holds(self, name, size):
        values = streams(120_000)[name]
        misses = 0
        for seed in range(5):
            sketch = fed(values, size, k=64, seed=seed)
            assert sketch.count == len(values)
            assert sketch._stack.weight == len(values)
            misses += int((rank_errors(sketch, values) > sketch.rank_error()).sum())
            inside = sketch.rank(values[:500])
            truth = np.searchsorted(np.sort(values), values[:500], "right") / len(values)
            misses += int(((truth < inside.lower) | (truth > inside.upper)).sum())
        assert misses <= 0.01 * 5 * 599

    def test_error_is_no_greater_than_that_of_datasketches(self):
        datasketches = pytest.importorskip("datasketches")
        ours, theirs = [], []
        for seed in range(8):
            values = np.random.default_rng(seed).lognormal(size=1_000_000)
            sketch = fed(values, 1 << 16, k=200, seed=seed)
            other = datasketches.kll_doubles_sketch(200)
            other.update(values)
            ordered = np.sort(values)
            for found, errors in ((sketch.quantile(QS).value, ours),
                                  (other.get_quantiles(QS), theirs)):  # fmt: skip
                errors.append(np.searchsorted(ordered, found, "right") / len(ordered) - QS)
            assert len(sketch.to_bytes()) <= 1.2 * len(other.serialize())
        rms_ours, rms_theirs = (float(np.sqrt(np.mean(np.square(e)))) for e in (ours, theirs))
        assert rms_ours <= rms_theirs
        assert rms_ours < 0.0022

    def test_quantile_bounds_hold(self):
        rng = np.random.default_rng(5)
        misses = 0
        for seed in range(20):
            values = rng.gamma(0.5, size=30_000)
            answer = fed(values, 1000, k=32, seed=seed).quantile(QS)
            assert (answer.lower <= answer.value).all()
            assert (answer.value <= answer.upper).all()
            truth = exact_quantiles(values)
            misses += int(((truth < answer.lower) | (truth > answer.upper)).sum())
        assert misses <= 0.01 * 20 * len(QS)

    def test_ends_are_exact(self):
        sketch = fed(np.random.default_rng(0).normal(size=50_000), 100, k=8)
        answer = sketch.quantile([0.0, 1.0])
        assert answer.value.tolist() == [sketch.min, sketch.max]
        assert answer.lower.tolist() == answer.upper.tolist() == [sketch.min, sketch.max]
        outside = sketch.rank([sketch.min - 1, sketch.max, sketch.max + 1])
        assert outside.value.tolist() == outside.lower.tolist() == [0.0, 1.0, 1.0]
        assert sketch.rank(sketch.min, inclusive=False).upper.tolist() == [0.0]

    def test_cdf_and_pmf(self):
        values = np.random.default_rng(0).normal(size=40_000)
        sketch = fed(values, 999, k=200)
        points = np.linspace(-2, 2, 9)
        cdf, pmf = sketch.cdf(points), sketch.pmf(points)
        assert len(cdf.value) == len(pmf.value) == 10
        assert cdf.value[-1] == 1.0
        np.testing.assert_allclose(np.cumsum(pmf.value), cdf.value, atol=1e-12)
        truth = np.diff(np.concatenate(([0], [(values <= p).mean() for p in points], [1])))
        assert ((pmf.lower <= truth) & (truth <= pmf.upper)).all()
        with pytest.raises(BadArgument, match="position 1"):
            sketch.cdf([1.0, 1.0])

    def test_rank_count(self):
        sketch = fed(np.arange(10.0))
        assert sketch.rank_count([4.0]).value.tolist() == [5.0]
        assert sketch.rank_count([4.0], inclusive=False).value.tolist() == [4.0]

    def test_empty(self):
        for dtype in ("float64", "float32", "int64"):
            sketch = KLL(dtype=dtype)
            sketch.update([])
            assert sketch.count == 0
            assert sketch.min is None
            for answer in (
                sketch.quantile([0.1, 0.2]),
                sketch.rank(3),
                sketch.cdf([1, 2]),
                sketch.pmf([1, 2]),
            ):
                assert len(answer.value) == len(answer.lower) == len(answer.upper) == 0
            assert KLL.from_bytes(sketch.to_bytes()).count == 0


class TestTypes:
    def test_int64_beyond_doubles(self):
        big = 2**62
        values = np.arange(big, big + 150)
        sketch = KLL(dtype="int64")
        sketch.update(values)
        assert sketch.quantile([0.5]).value.tolist() == [big + 74]
        assert sketch.rank(big + 74).value.tolist() == [0.5]
        assert sketch.max == big + 149
        assert KLL.from_bytes(sketch.to_bytes()).quantile([0.5]).value.dtype == np.int64

    def test_int64_between_integers(self):
        sketch = KLL(dtype="int64")
        sketch.update([1, 2, 3, 4])
        assert sketch.rank([2.5, -np.inf, np.inf]).value.tolist() == [0.5, 0.0, 1.0]
        assert sketch.rank([2.5, 2.0], inclusive=False).value.tolist() == [0.5, 0.25]

    def test_float32_rounds_as_numpy_does(self):
        values = np.random.default_rng(1).normal(size=5_000)
        wide, narrow = KLL(dtype="float32"), KLL(dtype="float32")
        wide.update(values)
        narrow.update(values.astype(np.float32))
        assert wide.to_bytes() == narrow.to_bytes()
        assert wide.quantile([0.3]).value.dtype == np.float32

    @pytest.mark.parametrize("kind", [KLL, REQ, partial(FixedWindowQuantiles, 100)])
    @given(values=st.lists(st.floats(-1e38, 1e38, allow_nan=False), min_size=1, max_size=20))
    def test_points_among_float32_are_rounded_as_the_values_were(self, kind, values):
        sketch = kind(dtype="float32")
        sketch.update(values)
        rounded = np.sort(np.array(values, np.float32))
        for inclusive, side in ((True, "right"), (False, "left")):
            counts = rounded.searchsorted(np.float32(values), side)
            found = sketch.rank(values, inclusive=inclusive)
            assert found.value.tolist() == (counts / len(values)).tolist()
        assert sketch.rank([1e300, -1e300]).value.tolist() == [1.0, 0.0]

    def test_zeros_are_one_value(self):
        sketch = KLL()
        sketch.update([-0.0, 0.0, -1.0, 1.0])
        assert sketch.rank([0.0, -0.0], inclusive=False).value.tolist() == [0.25, 0.25]
        assert sketch.rank([0.0, -0.0]).value.tolist() == [0.75, 0.75]

    def test_infinities(self):
        sketch = KLL()
        sketch.update([-np.inf, 0.0, np.inf])
        assert sketch.quantile([0, 0.5, 1]).value.tolist() == [-np.inf, 0.0, np.inf]

    @pytest.mark.parametrize("dtype", ["float64", "float32", "int64"])
    def test_arrow_numpy_and_lists_agree(self, dtype):
        values = np.random.default_rng(3).integers(-99, 99, 3_000).astype(dtype)
        chunks = pa.chunked_array([pa.array(values[:1000]), pa.array(values[1000:])])
        sketches = [KLL(dtype=dtype) for _ in range(4)]
        for sketch, given_values in zip(
            sketches, (values, pa.array(values), chunks, values.tolist()), strict=True
        ):
            sketch.update(given_values)
        assert len({sketch.to_bytes() for sketch in sketches}) == 1

    def test_strided_input_and_scalars(self):
        values = np.arange(1000.0)
        one, two = KLL(), KLL()
        one.update(values[::-2])
        two.update(values[::-2].copy())
        assert one.to_bytes() == two.to_bytes()
        one.update(3.5)
        one.update(np.float64(4))
        assert one.count == 502


class TestRefused:
    @pytest.mark.parametrize(
        ("values", "match"),
        [
            ([1.0, np.nan, np.nan], "position 1 is NaN"),
            (-np.array([1.0, np.nan]), "position 1 is NaN"),
            (pa.array([1.0, 2.0, None]), "position 2 is null"),
            (pa.chunked_array([[1.0], [None]]), "position 1 is null"),
            ([1.0, None], "position 1 is null"),
            (np.ma.masked_array([1.0, 2.0], [True, False]), "position 0 is masked"),
            (["a"], "not numbers"),
            (np.zeros((2, 2)), "shape"),
            (pd.array([1, None], "Int64"), "position 1 is null"),
            (pd.Series([0.5, None], dtype="Float64"), "position 1 is null"),
            (pl.Series([1, None]), "position 1 is null"),
            (np.array([0, "1e4000"], np.longdouble), r"1e\+4000 at position 1 is beyond float64"),
            (np.array(["2026-01-01"], "M8[us]"), "not numbers"),
            ([[1.0], [1.0, 2.0]], "must be numbers"),
        ],
    )
    def test_values(self, values, match):
        sketch = fed(np.arange(1000.0))
        before = sketch.to_bytes()
        with pytest.raises(BadArgument, match=match):
            sketch.update(values)
        assert sketch.to_bytes() == before

    def test_nan_far_inside_leaves_nothing_behind(self):
        sketch, values = KLL(), np.ones(300_000)
        values[299_999] = np.nan
        with pytest.raises(BadArgument, match="position 299999 is NaN"):
            sketch.update(values)
        assert sketch.to_bytes() == KLL().to_bytes()

    def test_types(self):
        with pytest.raises(BadArgument, match="beyond float32"):
            KLL(dtype="float32").update([1.0, 1e300])
        with pytest.raises(BadArgument, match="cast them to int64"):
            KLL(dtype="int64").update([1.5])
        with pytest.raises(BadArgument, match="beyond int64"):
            KLL(dtype="int64").update(np.array([2**63], np.uint64))

    @pytest.mark.parametrize(
        "options",
        [{"k": 7}, {"k": 65536}, {"k": 1.5}, {"k": True}, {"seed": -1}, {"seed": 1 << 64},
         {"dtype": "float16"}, {"dtype": "nonsense"}],
    )  # fmt: skip
    def test_parameters(self, options):
        with pytest.raises(BadArgument):
            KLL(**options)

    @pytest.mark.parametrize("q", [-0.1, 1.1, np.nan, [0.5, 2.0], "0.5", [b"0.5"]])
    def test_fractions(self, q):
        with pytest.raises(BadArgument, match="use 0 <= q <= 1"):
            KLL().quantile(q)

    def test_points(self):
        with pytest.raises(BadArgument, match="NaN"):
            KLL().rank([1.0, np.nan])
        with pytest.raises(BadArgument, match="not numbers"):
            KLL().rank(["x"])

    def test_merge_of_others(self):
        with pytest.raises(IncompatibleSummary, match="k 200 and 100"):
            KLL().merge(KLL(k=100))
        with pytest.raises(IncompatibleSummary, match="int64"):
            KLL().merge(KLL(dtype="int64"))
        with pytest.raises(IncompatibleSummary, match="object"):
            KLL().merge(object())
        with pytest.raises(BadArgument, match="at least one"):
            KLL.merged([])


class TestWeights:
    def test_weights_repeat_values(self):
        rng = np.random.default_rng(2)
        values, weights = rng.normal(size=20_000), rng.integers(0, 60, 20_000)
        sketch = KLL(k=200)
        sketch.update(values, weights)
        repeated = np.repeat(values, weights)
        assert sketch.count == len(repeated) == sketch._stack.weight
        assert sketch.min == repeated.min()
        assert (rank_errors(sketch, repeated) <= sketch.rank_error()).all()

    def test_one_weight_for_all(self):
        sketch = KLL()
        sketch.update([1.0, 2.0, 3.0], 5)
        assert sketch.count == 15
        assert sketch.quantile([0.5]).value.tolist() == [2.0]

    def test_huge_weights(self):
        sketch = KLL(k=8)
        sketch.update([1.0, 2.0], [1 << 58, 1 << 58])
        sketch.update(np.arange(100.0), np.full(100, 1 << 52))
        assert sketch._stack.weight == sketch.count
        assert KLL.from_bytes(sketch.to_bytes()).count == sketch.count
        with pytest.raises(SummaryOverflow, match="2\\^60"):
            sketch.update([3.0], [1 << 59])
        sketch.merge(KLL(k=8))
        with pytest.raises(SummaryOverflow):
            sketch.merge(sketch)

    def test_refused(self):
        for weights, match in (
            ([1], "1 weight for 2"), ([1, -1], "position 1"), ([0.5, 1.0], "must be integers"),
        ):  # fmt: skip
            with pytest.raises(BadArgument, match=match):
                KLL().update([1.0, 2.0], weights)
        with pytest.raises(BadArgument, match="NaN"):
            KLL().update([np.nan, 1.0], [0, 1])


def again(sketch: KLL) -> KLL:
    return KLL.from_datasketches(sketch.to_datasketches())


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int32, np.uint64, np.float16, np.float64])
def test_points_of_any_width_rank_whole_numbers(kind):
    sketch = fed(np.arange(-3, 9), k=8, dtype="int64")
    points = np.array([0, 3, 120], kind)
    for inclusive, side in ((True, "right"), (False, "left")):
        rank = KLL.from_bytes(sketch.to_bytes()).rank(points, inclusive=inclusive)
        truth = np.searchsorted(np.arange(-3, 9), points.astype(float), side) / 12
        assert (rank.lower <= truth).all()
        assert (truth <= rank.upper).all()
        assert rank.value[2] == rank.lower[2] == 1.0


def test_ranks_are_exact_where_floats_are_too_coarse():
    large = 1 << 53
    sketch = fed(np.array([large, large + 1, large + 3]), k=8, dtype="int64")
    assert sketch.rank(float(large)).value.tolist() == [1 / 3]
    assert sketch.rank(float(large + 4), inclusive=False).value.tolist() == [1.0]
    assert sketch.rank([-np.inf, np.inf]).value.tolist() == [0.0, 1.0]
    ends = fed(np.array([-(1 << 63), (1 << 63) - 1]), k=8, dtype="int64")
    assert ends.rank([-np.inf, np.inf]).value.tolist() == [0.0, 1.0]
    assert ends.rank([-np.inf, np.inf], inclusive=False).value.tolist() == [0.0, 1.0]
    assert ends.cdf([-(1 << 63), (1 << 63) - 1]).value.tolist() == [0.5, 1.0, 1.0]


@pytest.mark.parametrize("points", [np.array([5, 3], np.uint8), ["a", "b"], [1, None], [[1, 2]]])
def test_points_that_are_no_rising_numbers_are_refused(points):
    with pytest.raises(BadArgument, match="point"):
        fed(np.arange(9.0), k=8).cdf(points)


class TestLaws:
    @pytest.mark.parametrize(
        "joined",
        [
            lambda old, new: (new.merge(old), new)[1],
            lambda old, new: (new.merge(again(old)), new)[1],
            lambda old, new: KLL.merged([new, old]),
        ],
        ids=["merge", "datasketches", "merged"],
    )
    def test_new_sketches_may_take_in_all_older_ones_again_and_again(self, joined):
        """All are of one seed: were their coins tossed anew each time, errors would add up."""
        misses = []
        for seed in range(6):
            values = np.random.default_rng(seed).normal(size=60_000)
            sketch = KLL(k=20)
            for part in np.array_split(values, 200):
                sketch = joined(sketch, fed(part, k=20))
            misses.append(rank_errors(sketch, values) > sketch.rank_error())
        assert np.mean(misses) <= 0.01

    @given(
        st.integers(0, 2**32), st.lists(st.integers(0, 3_000), min_size=1, max_size=6),
        st.sampled_from([8, 33, 200]),
    )  # fmt: skip
    def test_merge_is_the_whole_within_the_bound(self, seed, sizes, k):
        rng = np.random.default_rng(seed)
        parts = [rng.normal(rng.integers(-3, 3), size=size) for size in sizes]
        whole = np.concatenate(parts)
        sketches = [fed(part, k=k, seed=i) for i, part in enumerate(parts)]
        before = [sketch.to_bytes() for sketch in sketches]
        one_by_one = KLL(k=k)
        for sketch in sketches:
            one_by_one.merge(sketch)
        at_once = KLL.merged(sketches)
        assert [sketch.to_bytes() for sketch in sketches] == before
        for merged in (one_by_one, at_once):
            assert merged.count == len(whole) == merged._stack.weight
            if len(whole):
                assert (merged.min, merged.max) == (whole.min(), whole.max())
                assert rank_errors(merged, whole).max() <= 2 * merged.rank_error()

    def test_merge_samples_all_alike(self):
        """The first sketch as well: its light items would take the place of the others'."""
        parts = [fed(np.random.default_rng(i).normal(size=2_000), seed=i) for i in range(600)]
        merged = KLL.merged(parts)
        light = merged._stack.weights() < 1 << (merged._stack.height - 1)
        assert light.sum() < 16 < len(merged)

    def test_merge_bound_over_seeds(self):
        misses = 0
        for seed in range(30):
            rng = np.random.default_rng(seed)
            parts = [rng.exponential(i + 1, 2_000) for i in range(20)]
            merged = KLL.merged([fed(p, k=64, seed=seed + i) for i, p in enumerate(parts)])
            misses += (rank_errors(merged, np.concatenate(parts)) > merged.rank_error()).sum()
        assert misses <= 0.01 * 30 * len(QS)

    @given(st.integers(0, 2**64 - 1), st.integers(1, 5_000), st.sampled_from([1, 7, 500]))
    def test_same_input_and_seed_same_bytes(self, seed, n, size):
        values = np.random.default_rng(1).normal(size=min(n, 200 * size))
        one, two = fed(values, size, k=16, seed=seed), fed(values, size, k=16, seed=seed)
        assert one.to_bytes() == two.to_bytes()

    @given(st.integers(0, 30_000), st.sampled_from(["float64", "float32", "int64"]))
    def test_round_trip(self, n, dtype):
        values = np.random.default_rng(n).normal(0, 1e6, n).astype(dtype)
        sketch = fed(values, 7_000, k=20, seed=9, dtype=dtype)
        sketch.quantile(0.5)
        data = sketch.to_bytes()
        again = KLL.from_bytes(data)
        assert again.to_bytes() == data
        for each in (sketch, again):  # the coins came along: both go on alike
            each.update(values[:500])
        assert again.to_bytes() == sketch.to_bytes()

    def test_merge_with_itself(self):
        sketch = fed(np.arange(5_000.0))
        sketch.merge(sketch)
        assert sketch.count == sketch._stack.weight == 10_000

    def test_input_is_not_touched(self):
        values = np.random.default_rng(0).normal(size=50_000)
        kept = values.copy()
        values.setflags(write=False)
        fed(values, 10_000)
        fed(values.view(np.int64), 10_000, dtype="int64")
        np.testing.assert_array_equal(values, kept)

    def test_memory_is_bounded(self):
        sketch = fed(np.random.default_rng(0).normal(size=1_000_000), 10_000)
        assert sketch.nbytes < 6_000
        assert len(sketch) < 3 * 200 + 8 * 20


def golden_sketch() -> KLL:
    sketch = KLL(k=32, seed=42)
    steps = np.arange(20_000, dtype=np.int64)
    for start in range(0, 20_000, 3_000):
        sketch.update(((steps[start : start + 3_000] * 7919) % 20_011) / 8.0)
    return sketch


def test_golden_bytes():
    data = (GOLDEN / "kll-v1.bin").read_bytes()
    assert KLL.from_bytes(data).to_bytes() == data
    assert golden_sketch().to_bytes() == data


@pytest.mark.parametrize("quick", [True, False])
@pytest.mark.parametrize("size", [0, 1, sorting.LONG - 1, sorting.LONG, 3 * sorting.LONG])
def test_keys_are_sorted_alike_by_numpy_and_by_the_kernel(quick, size, monkeypatch) -> None:
    monkeypatch.setattr(sorting, "_numpy_is_quick", lambda: quick)
    keys = np.random.default_rng(size).integers(-(2**63), 2**63 - 1, size)
    keys[::3] >>= 40  # also of small magnitudes, and some twice
    run = keys.copy()
    sorting.sort_run(run)
    assert np.array_equal(run, np.sort(keys))


def test_a_decimal_is_the_float_that_is_nearest():
    digits = pa.array([Decimal("0.3"), Decimal("0.7")], pa.decimal128(3, 1))
    for column in (digits, pa.chunked_array([digits, digits])):
        sketch = KLL()
        sketch.update(column)
        assert (sketch.min, sketch.max) == (0.3, 0.7)
