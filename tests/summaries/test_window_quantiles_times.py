"""Windows of the last T of time against the items themselves."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from published_forms import PublishedTimes
from quantile_checks import QS, exact_quantiles

from muntin.errors import BadArgument, IncompatibleSummary
from muntin.summaries.window_quantiles import TimeWindowQuantiles

GOLDEN = Path(__file__).parent.parent / "golden"
METHODS = ("ring", "strict")
SECOND = 1_000_000


def weight_of(window: TimeWindowQuantiles) -> int:
    return int(window._engine.view()[0][1][-1]) if window.count else 0


def inside(window: TimeWindowQuantiles, values: np.ndarray, times: np.ndarray) -> np.ndarray:
    """The values that the window says that it covers."""
    first, last = window.covered or (0, -1)
    return values[(times >= first) & (times <= last)]


def arrivals(kind: str, n: int, rng: np.random.Generator) -> np.ndarray:
    """Ascending times of n items over about 30 windows of 1,000,000 us."""
    gaps = rng.exponential(30 * SECOND / n, n)
    if kind == "bursts":
        gaps[rng.random(n) < 0.999] *= 0.02
        gaps *= 30 * SECOND / gaps.sum()
    elif kind == "spike":
        gaps[n // 2 : n // 2 + n // 3] /= 1_900
    elif kind == "ticks":
        return np.cumsum(np.rint(gaps / 5_000).astype(np.int64) * 5_000)
    return np.cumsum(gaps).astype(np.int64)


@pytest.mark.parametrize("method", ["ring", "strict"])
@given(
    st.lists(st.tuples(st.integers(0, 120), st.integers(0, 300)), min_size=1, max_size=12),
    st.integers(1, 400), st.sampled_from([1, 3, 8]), st.sampled_from([0, 50]), st.integers(0, 9),
)  # fmt: skip
@example([(87, 0), (6, 46)], 78, 1, 50, 4)  # a block dropped, the next begins at the same time
def test_count_is_exact_for_what_is_covered(method, steps, length, panes, tolerance, seed):
    rng = np.random.default_rng(seed)
    window = TimeWindowQuantiles(
        length, panes, 8, seed, tolerance=tolerance, guarantee="strict" if method == "strict" else
        None,
    )  # fmt: skip
    values, times, now, late, latest = [], [], 0, 0, None
    for size, passed in steps:
        when = now + rng.integers(-60, 60, size) + passed
        for moment in when.tolist():  # the rule, one by one
            latest = moment if latest is None else max(latest, moment)
            if moment < latest - tolerance:
                late += 1
            else:
                times.append(moment)
                values.append(float(len(values)))
        given_values = np.full(size, -1.0)
        running = np.maximum.accumulate(np.append(window.end if window.end is not None else
                                                  -(1 << 60), when))[1:]  # fmt: skip
        kept = when >= running - tolerance
        given_values[kept] = values[len(values) - int(kept.sum()) :]
        window.update(given_values, when)
        now += passed
        assert window.late == late
        truth = inside(window, np.array(values), np.array(times))
        assert window.count == len(truth) == weight_of(window)
        assert window.seen == late + len(values)
        if window.covered:
            first, last = window.covered
            assert last == latest
            assert first <= last - length + 1
            if method == "ring":
                assert first >= last - length + 1 - window._engine.slot_us
        answer = window.quantile(QS)
        if len(truth):
            assert np.isin(answer.value, values).all()
            if answer.confidence == 1.0 and method == "ring":
                expected = exact_quantiles(truth)
                np.testing.assert_array_equal(answer.value, expected)
        else:
            assert len(answer.value) == 0


@given(
    st.lists(st.tuples(st.integers(1, 90), st.integers(0, 9)), min_size=1, max_size=30),
    st.integers(1, 40), st.sampled_from([1, 3]), st.sampled_from([0, 3, 50]), st.integers(0, 9),
)  # fmt: skip
def test_strict_count_is_exact_where_blocks_share_times(steps, length, panes, tolerance, seed):
    """Many items of one time, over block edges; what is known of them survives the bytes."""
    rng = np.random.default_rng(seed)
    window = TimeWindowQuantiles(length, panes, 8, seed, tolerance=tolerance, method="strict")
    times, now = np.empty(0, np.int64), 0
    for size, passed in steps:
        now += passed
        when = np.append(now, now - rng.integers(0, min(tolerance, 6) + 1, size))
        times = np.append(times, when)
        window.update(np.zeros(len(when)), when)
        data = window.to_bytes()
        window = TimeWindowQuantiles.from_bytes(data)
        assert window.to_bytes() == data
        assert window.late == 0
        first, last = window.covered or (0, 0)
        assert last == now
        assert first <= now - length + 1
        assert window.count == ((times >= first) & (times <= last)).sum() == weight_of(window)


@pytest.mark.parametrize("kind", ["steady", "bursts", "spike", "ticks"])
@pytest.mark.parametrize(("method", "rms", "excess"), [
    ("ring", 0.009, 1 / 1024), ("strict", 0.012, 1.0), ("paper", 0.03, 0.0),
])  # fmt: skip
def test_error_and_cover(kind, method, rms, excess):
    errors, misses = [], 0
    for seed in range(2):
        rng = np.random.default_rng(seed)
        times = arrivals(kind, 150_000, rng)
        values = rng.normal(size=len(times)) + np.sin(times / (0.3 * SECOND))
        window = (
            PublishedTimes("1 second", 64, seed)
            if method == "paper"
            else TimeWindowQuantiles("1 second", k=64, seed=seed, method=method)
        )
        for at in range(0, len(times), 1_500):
            window.update(values[at : at + 1_500], times[at : at + 1_500])
            if at < 15_000 or at % 4_500:
                continue
            first, last = window.covered or (0, 0)
            assert last == times[at : at + 1_500][-1]
            assert last - first + 1 <= SECOND * (1 + excess) + 8
            stop = at + 1_500
            truth = np.sort(inside(window, values[:stop], times[:stop]))
            if method != "paper":
                assert window.count == len(truth) == weight_of(window)
            else:
                assert abs(window.count - len(truth)) < 0.2 * len(truth) + 64
            found = window.quantile(QS)
            errors.append(np.searchsorted(truth, found.value, "right") / len(truth) - QS)
            exact = truth[np.ceil(QS * len(truth) - 1e-9).astype(int) - 1]
            misses += int(((exact < found.lower) | (exact > found.upper)).sum())
    errors = np.array(errors)
    assert np.sqrt(np.mean(errors**2)) < rms
    assert misses <= 0.01 * errors.size


def test_strict_edge_is_small_for_every_burst():
    r, k = 8, 16
    for kind in ("steady", "bursts", "spike", "ticks"):
        rng = np.random.default_rng(1)
        times = arrivals(kind, 60_000, rng)
        window = TimeWindowQuantiles(SECOND, panes=r, k=k, guarantee="strict")
        for at in range(0, len(times), 777):
            window.update(rng.normal(size=len(times[at : at + 777])), times[at : at + 777])
            oldest, *newer = window._engine.blocks
            assert oldest.count <= sum(block.count for block in newer) / r + k
            surplus = window.count - int((times[: at + 777] > times[at : at + 777][-1] - SECOND)
                                         .sum())  # fmt: skip
            if kind != "ticks":  # many items of one time are in or out together
                assert 0 <= surplus <= oldest.count / 8 + 1


@pytest.mark.parametrize("method", METHODS)
def test_out_of_order_within_the_tolerance(method):
    rng = np.random.default_rng(0)
    times = np.arange(40_000) * 50
    values = rng.normal(size=len(times)) + times / SECOND
    order = np.argsort(times + rng.uniform(0, 20_000, len(times)), kind="stable")
    window = TimeWindowQuantiles(SECOND, k=64, tolerance=20_000, method=method)
    for at in range(0, len(order), 999):
        window.update(values[order[at : at + 999]], times[order[at : at + 999]])
    assert window.late == 0
    truth = np.sort(inside(window, values, times))
    error = np.searchsorted(truth, window.quantile(QS).value, "right") / len(truth) - QS
    assert np.sqrt(np.mean(error**2)) < 0.03
    window.update([1.0, 2.0], [times[-1] - 20_000, times[-1] - 20_001])
    assert window.late == 1


def test_late_by_default_is_what_left_the_window():
    window = TimeWindowQuantiles(100)
    window.update([1.0, 2.0, 3.0], [1_000, 901, 899])
    assert (window.count, window.late) == (2, 1)


@pytest.mark.parametrize("method", METHODS)
def test_advance(method):
    window = TimeWindowQuantiles("10 seconds", method=method)
    window.advance(0)
    assert len(window.quantile(0.5).value) == 0
    window.update(np.arange(10.0), np.arange(10) * SECOND)
    window.advance(15 * SECOND)
    assert window.count == 4
    assert window.quantile([0.0]).value.tolist() == [6.0]
    window.advance(3 * SECOND)  # not backwards
    assert window.count == 4
    window.advance(datetime(1970, 1, 1, 0, 0, 18, tzinfo=UTC))
    assert window.count == 1
    window.advance(np.datetime64("1970-01-01T01:00:00"))
    assert window.count == 0
    assert len(window.quantile([0.5, 0.9]).value) == len(window.rank(1).value) == 0
    assert window.end == 3_600 * SECOND
    assert TimeWindowQuantiles.from_bytes(window.to_bytes()).to_bytes() == window.to_bytes()


class TestMerging:
    def test_three_nodes_round_robin(self):
        """The paper's scenario, section 4.3: 5 minutes, merged every 30 seconds."""
        rng = np.random.default_rng(0)
        times = np.sort(rng.integers(0, 900 * SECOND, 180_000))
        values = rng.lognormal(size=len(times)) * (1 + times / (300 * SECOND))
        errors = []
        nodes = [TimeWindowQuantiles("5 minutes", panes=10, k=64, seed=n) for n in range(3)]
        for stop in range(30 * SECOND, 901 * SECOND, 30 * SECOND):
            low, high = np.searchsorted(times, [stop - 30 * SECOND, stop])
            for n, node in enumerate(nodes):
                node.update(values[low:high][n::3], times[low:high][n::3])
            whole = TimeWindowQuantiles.merged(nodes)
            truth = np.sort(inside(whole, values[:high], times[:high]))
            assert whole.count == len(truth) == weight_of(whole)
            found = whole.quantile(QS).value
            errors.append(np.searchsorted(truth, found, "right") / len(truth) - QS)
        assert np.sqrt(np.mean(np.square(errors))) < 0.003

    @pytest.mark.parametrize("make", [TimeWindowQuantiles, PublishedTimes])
    def test_one_window_is_ahead(self, make):
        one, two = make(100), make(100, seed=1)
        one.update(np.arange(50.0), np.arange(50))
        two.update(np.arange(50.0), np.arange(100, 150))
        before = two.quantile(0.5).value.tolist()
        one.merge(two)
        assert two.quantile(0.5).value.tolist() == before
        assert (one.count, one.end, one.seen) == (50, 149, 100)
        one.update([7.0], 150)
        assert one.count == 51

    def test_refused(self):
        window = TimeWindowQuantiles(100)
        for other in (
            TimeWindowQuantiles(200), TimeWindowQuantiles(100, panes=4),
            TimeWindowQuantiles(100, tolerance=5), PublishedTimes(100),
        ):  # fmt: skip
            with pytest.raises(IncompatibleSummary):
                window.merge(other)
        with pytest.raises(BadArgument, match="at least one"):
            TimeWindowQuantiles.merged([])


class TestInput:
    def test_times_of_every_kind(self):
        start = datetime(2026, 1, 1, tzinfo=UTC)
        moments = [start + timedelta(seconds=i) for i in range(50)]
        micros = np.array([int(m.timestamp()) * SECOND for m in moments])
        kinds = [
            micros, moments, pa.array(moments, pa.timestamp("ms", "UTC")),
            pa.chunked_array([pa.array(moments[:9], pa.timestamp("us", "UTC")),
                              pa.array(moments[9:], pa.timestamp("us", "UTC"))]),
            micros.astype("M8[us]"), micros.astype("M8[us]").astype("M8[s]"),
        ]  # fmt: skip
        blobs = set()
        for kind in kinds:
            window = TimeWindowQuantiles(timedelta(seconds=20))
            window.update(np.arange(50.0), kind)
            blobs.add(window.to_bytes())
        assert len(blobs) == 1

    @pytest.mark.parametrize("method", METHODS)
    def test_refused_and_unchanged(self, method):
        window = TimeWindowQuantiles("1 minute", method=method)
        window.update([1.0, 2.0], [5, 6])
        before = window.to_bytes()
        for values, times in (
            ([1.0, np.nan], [7, 8]), ([1.0], [7, 8]), ([1.0], [1.5]), ([1.0], [1 << 62 | 1]),
            ([1.0], pa.array([None], pa.timestamp("us"))), ([1.0], np.array(["NaT"], "M8[us]")),
        ):  # fmt: skip
            with pytest.raises(BadArgument):
                window.update(values, times)
        with pytest.raises(BadArgument):
            window.advance(1 << 62 | 1)
        assert window.to_bytes() == before

    def test_parameters(self):
        for options in (
            {"window": 0}, {"window": "soon"}, {"window": 1.5}, {"tolerance": -1},
            {"tolerance": "x"},
        ):  # fmt: skip
            with pytest.raises(BadArgument):
                TimeWindowQuantiles(**({"window": "1 minute"} | options))


@pytest.mark.parametrize("method", METHODS)
@given(st.integers(0, 2_000), st.sampled_from(["float64", "int64"]), st.integers(1, 9))
def test_round_trip(method, n, dtype, rate):
    rng = np.random.default_rng(n)
    values, times = rng.integers(0, 1_000, n).astype(dtype), np.arange(n) // rate - 50
    window = TimeWindowQuantiles(150, 4, 8, 9, method=method, dtype=dtype, tolerance=20)
    for at in range(0, n, 450):
        window.update(values[at : at + 450], times[at : at + 450])
    data = window.to_bytes()
    again = TimeWindowQuantiles.from_bytes(data)
    assert again.to_bytes() == data
    for each in (window, again):
        each.update(values[:100], times[:100] + n)
    assert again.to_bytes() == window.to_bytes()
    twin = again.copy()
    twin.update([5], n + 200)
    assert again.to_bytes() == window.to_bytes()


@pytest.mark.parametrize("method", METHODS)
def test_golden(method):
    window = TimeWindowQuantiles(1_000, 4, 16, 42, method=method)
    steps = np.arange(5_000, dtype=np.int64) * 7919 % 20_011 / 8.0
    for at in range(0, 5_000, 300):
        window.update(steps[at : at + 300], np.arange(at, min(at + 300, 5_000)) // 2)
    golden = (GOLDEN / f"time_window_quantiles-{method}-v1.bin").read_bytes()
    assert window.to_bytes() == golden
    assert TimeWindowQuantiles.from_bytes(golden).to_bytes() == golden


def test_new_windows_may_take_in_all_older_ones_again_and_again():
    """All are of one seed: were their coins tossed anew each time, errors would add up."""
    misses = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        values = rng.normal(size=60_000)
        window = TimeWindowQuantiles(1_000, panes=2, k=16)
        for part in np.array_split(values, 200):
            new = TimeWindowQuantiles(1_000, panes=2, k=16)
            new.update(part, rng.integers(0, 1_000, len(part)))
            new.merge(window)
            window = new
        window.advance(999)
        points = np.quantile(values, np.arange(1, 20) / 20)
        rank, truth = window.rank(points), np.arange(1, 20) / 20
        misses.append((truth < rank.lower - 1e-4) | (rank.upper + 1e-4 < truth))
    assert np.mean(misses) <= 0.02


@pytest.mark.parametrize("mixed", [False, True])
def test_the_bound_holds_where_the_edge_cuts_the_only_pane(mixed: bool) -> None:
    wrong, n, length = 0, 700, 1200
    for seed in range(n):
        rng = np.random.default_rng(seed)
        window = TimeWindowQuantiles(length, panes=1, k=64, seed=seed)
        size = int(rng.integers(900, 2400))
        times = np.sort(rng.integers(0, 2.4 * length, size))
        if mixed:
            times = times - rng.integers(0, length // 2, size)
        values = rng.random(size)
        late = times < np.maximum.accumulate(times) - window.tolerance
        for at in range(0, size, 300):
            window.update(values[at : at + 300], times[at : at + 300])
        window.advance(int(times.max() + rng.integers(0, length)))
        asked = rng.random(1)
        truth = (inside(window, values[~late], times[~late]) <= asked).mean()
        found = window.rank(asked)
        wrong += not found.lower[0] <= truth <= found.upper[0]
    assert wrong <= 0.01 * n
