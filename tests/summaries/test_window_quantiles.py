"""Windows of the last items against the items themselves: every method, every law."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from published_forms import PublishedItems
from quantile_checks import QS, exact_quantiles, streams

from muntin.errors import BadArgument, IncompatibleSummary
from muntin.summaries.window_quantiles import FixedWindowQuantiles, TimeWindowQuantiles

GOLDEN = Path(__file__).parent.parent / "golden"
METHODS = ("ring", "strict")
EXACT_COUNTS = ("ring", "strict")


def rank_error(window: FixedWindowQuantiles | TimeWindowQuantiles, truth: np.ndarray) -> np.ndarray:
    """Signed rank errors of 99 quantiles of a stream without ties."""
    found = window.quantile(QS).value
    return np.searchsorted(np.sort(truth), found, "right") / len(truth) - QS


def weight_of(window) -> int:
    return int(window._engine.view()[0][1][-1]) if window.count else 0


@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=40)
@given(
    st.integers(1, 300), st.lists(st.integers(0, 200), min_size=1, max_size=12),
    st.sampled_from([1, 2, 5, 8]), st.sampled_from([8, 16]), st.integers(0, 9),
)  # fmt: skip
def test_weight_is_the_count_after_every_update(method, length, sizes, panes, k, seed):
    window = FixedWindowQuantiles(length, panes, k, seed, method)
    stream = np.random.default_rng(seed).normal(size=sum(sizes))
    at = 0
    for size in sizes:
        window.update(stream[at : at + size])
        at += size
        assert window.seen == at
        assert window.count == min(at, length) == weight_of(window)
        inside = stream[max(at - length, 0) : at]
        answer, rank = window.quantile(QS), window.rank(stream[:5])
        if not len(inside):
            assert len(answer.value) == len(rank.value) == 0
            continue
        assert (answer.lower <= answer.value).all()
        assert (answer.value <= answer.upper).all()
        assert np.isin(answer.value, stream[:at]).all()
        if answer.confidence == 1.0:
            truth = exact_quantiles(inside)
            np.testing.assert_array_equal(answer.value, truth)
        if method == "strict":
            rank = window.rank(inside[:20])
            exact = np.searchsorted(np.sort(inside), inside[:20], "right") / len(inside)
            slack = 8 / k  # what KLL itself may be off on tiny streams, far beyond 99 %
            assert (exact >= rank.lower - slack).all()
            assert (exact <= rank.upper + slack).all()


@pytest.mark.parametrize("method", METHODS)
def test_small_windows_are_exact(method):
    window = FixedWindowQuantiles(20, panes=4, k=64, method=method)
    stream = np.random.default_rng(0).permutation(200).astype(float)
    for at in range(0, 200, 7):
        window.update(stream[at : at + 7])
        inside = stream[max(min(at + 7, 200) - 20, 0) : at + 7]
        np.testing.assert_array_equal(window.quantile(QS).value, exact_quantiles(inside))
        assert window.quantile(0.5).confidence == 1.0


def walk(window, stream: np.ndarray, batch: int, every: int):
    """Errors and misses of the stated interval at moments after the first fill."""
    errors, misses, last = [], 0, 0
    for at in range(0, len(stream), batch):
        window.update(stream[at : at + batch])
        end = min(at + batch, len(stream))
        if end >= window.window and end - last >= every:
            last = end
            inside = np.sort(stream[end - window.window : end])
            found = window.quantile(QS)
            errors.append(np.searchsorted(inside, found.value, "right") / len(inside) - QS)
            truth = inside[np.ceil(QS * len(inside) - 1e-9).astype(int) - 1]
            misses += int(((truth < found.lower) | (truth > found.upper)).sum())
    return np.array(errors), misses


def window_streams(windows: int, length: int, pane: int, seed: int) -> dict[str, np.ndarray]:
    """The nine kinds of stream of the benchmarks."""
    rng, t = np.random.default_rng(seed), np.arange(windows * length)
    noise = rng.normal(size=len(t))
    return {
        "iid": noise,
        "drift": noise + t / length,
        "shift": noise + 3.0 * (t // (3 * length // 2) % 2),
        "sine": 0.3 * noise + 2 * np.sin(2 * np.pi * t / (0.7 * length)),
        "sawtooth": t % (0.37 * length) / length + 0.01 * noise,
        "sorted": t.astype(float),
        "reverse": -t.astype(float),
        "lognormal": np.exp(2 * noise),
        "pane-adversarial": noise + 5.0 * (t // (pane // 2) % 2),
    }


@pytest.mark.parametrize(("panes", "k", "items", "rms"), [
    (4, 64, 962, 0.0043), (8, 64, 1707, 0.0027), (8, 128, 3257, 0.0014),
])  # fmt: skip
def test_ring_error_is_as_stated_and_flat(panes, k, items, rms):
    length, misses, asked = 12_000, 0, 0
    for name, stream in window_streams(31, length, length // panes, seed=panes).items():
        ring = FixedWindowQuantiles(length, panes, k, seed=1)
        errors, missed = walk(ring, stream, 1_009, 5_000)
        assert len(ring) <= items
        assert np.sqrt(np.mean(errors**2)) <= rms, name
        third = len(errors) // 3
        early, late = (np.sqrt(np.mean(e**2)) for e in (errors[:third], errors[-third:]))
        assert late <= max(1.6 * early, 0.5 * rms), name
        misses, asked = misses + missed, asked + errors.size
    assert misses <= 0.01 * asked


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_bounds_hold_the_extremes_too(method, dtype):
    asked, places = [0.0, 0.0005, 0.5, 0.999, 1.0], [0, 4, 4_999, 9_989, 9_999]
    for seed in range(20):
        stream = np.random.default_rng(seed).integers(-(10**6), 10**6, 20_000).astype(dtype)
        window = FixedWindowQuantiles(10_000, seed=seed, method=method, dtype=dtype)
        window.update(stream)
        truth = np.sort(stream[-10_000:])[places]
        answer = window.quantile(asked)
        assert ((answer.lower <= truth) & (truth <= answer.upper)).all()
        assert np.isin(answer.value, stream).all()


def test_ring_item_by_item():
    stream = np.random.default_rng(4).normal(size=12_000)
    ring = FixedWindowQuantiles(3_000, seed=2)
    errors, misses = walk(ring, stream, 1, 700)
    assert np.sqrt(np.mean(errors**2)) <= 0.0035
    assert misses <= 0.01 * errors.size


@pytest.mark.parametrize("name", streams(16))
def test_strict_bound_of_the_edge(name):
    """Every pattern: the oldest block is at most 1/r of what is newer, and one smallest block."""
    stream, r, k = streams(60_000)[name], 8, 16
    window = FixedWindowQuantiles(7_000, panes=r, k=k, guarantee="strict")
    for at in range(0, len(stream), 333):
        window.update(stream[at : at + 333])
        oldest, *newer = window._engine.blocks
        assert oldest.count <= sum(block.count for block in newer) / r + k
        assert weight_of(window) == window.count
    inside = np.sort(stream[-7_000:])
    edge = window._engine.end - 7_000
    left = window._engine.blocks[0].last + 1 - edge
    _, error, _ = window._engine.view()
    assert error <= 1 / (2 * r) + k / 7_000 + 3.3 * 0.5 / k
    found = window.rank(inside[::50])
    low = np.searchsorted(inside, inside[::50], "left") / 7_000
    high = np.searchsorted(inside, inside[::50], "right") / 7_000
    assert ((found.lower <= high) & (low <= found.upper)).all()
    assert 0 < left <= window._engine.blocks[0].count


def test_paper_window_is_flat_at_its_level():
    stream = np.random.default_rng(0).normal(size=16 * 20_000)
    window = PublishedItems(20_000, k=128, seed=3)
    errors, misses = walk(window, stream, 5_000, 5_000)
    rms = np.sqrt(np.mean(errors**2))
    assert 0.006 < rms < 0.03  # the published algorithm, at 4 to 5 times a KLL's 0.4 %
    assert misses <= 0.01 * errors.size
    assert len(window) < 3 * 128 + 40


class TestMerging:
    @given(st.integers(1, 500), st.integers(1, 500), st.integers(0, 2000), st.integers(0, 2000))
    def test_ring_holds_both(self, w1, w2, n1, n2):
        one, two = FixedWindowQuantiles(w1, 4, 16, 1), FixedWindowQuantiles(w2, 4, 16, 2)
        one.update(np.arange(n1, dtype=float))
        two.update(np.arange(n2, dtype=float))
        before = two.to_bytes()
        count = one.count + two.count
        one.merge(two)
        assert two.to_bytes() == before
        assert one.window == w1 + w2
        assert one.count == count == weight_of(one)
        assert FixedWindowQuantiles.from_bytes(one.to_bytes()).to_bytes() == one.to_bytes()
        for size in (1, 7, 100, w1 + w2):
            count = min(count + size, one.window)
            one.update(np.zeros(size))
            assert one.count == weight_of(one) <= one.window
        assert one.count == one.window
        assert one.rank(0.0).value.tolist() == [1.0]

    @pytest.mark.parametrize(
        ("make", "rms"), [(FixedWindowQuantiles, 0.003), (PublishedItems, 0.03)]
    )
    @pytest.mark.parametrize("nodes", [2, 3, 8])
    def test_round_robin(self, make, rms, nodes):
        """The paper's scenario: the last W/n items of n nodes are the last W of all."""
        errors = []
        for seed in range(4):
            stream = np.random.default_rng(seed).normal(size=96_000 + seed)
            parts = []
            for node in range(nodes):
                part = make(24_000 // nodes, k=128, seed=node)
                for at in range(0, len(stream), 9_000):
                    part.update(stream[at : at + 9_000][(node - at) % nodes :: nodes])
                parts.append(part)
            whole = make.merged(parts)
            assert whole.count == whole.window == 24_000 == weight_of(whole)
            errors.append(rank_error(whole, stream[-24_000:]))
        assert np.sqrt(np.mean(np.square(errors))) < rms

    def test_merged_ring_slides_on(self):
        stream = np.random.default_rng(0).normal(size=80_000)
        one, two = FixedWindowQuantiles(10_000, k=64), FixedWindowQuantiles(10_000, k=64, seed=1)
        one.update(stream[:40_000:2])
        two.update(stream[1:40_000:2])
        one.merge(two)
        errors = []
        for at in range(40_000, 80_000, 2_500):
            one.update(stream[at : at + 2_500])
            errors.append(rank_error(one, stream[at + 2_500 - 20_000 : at + 2_500]))
        assert np.sqrt(np.mean(np.square(errors))) < 0.0035

    @given(st.lists(st.tuples(st.integers(1, 40), st.integers(0, 90)), min_size=2, max_size=6),
           st.sampled_from([1, 2, 3, 8]), st.lists(st.integers(0, 60), max_size=3))  # fmt: skip
    def test_of_few_items_it_holds_just_those_of_all(self, nodes, panes, steps):
        """Windows that their edges cut in panes of other ages; what is merged slides and merges on,
        and has its bytes."""
        whole, held = None, np.empty(0)
        for number, (window, size) in enumerate(nodes):
            part, values = FixedWindowQuantiles(window, panes, 64), np.arange(size) + 100.0 * number
            for some in np.split(values, [size // 2]):
                part.update(some)
            held = np.append(held, values[-window:])
            if whole is None:
                whole = part
            else:
                whole.merge(part)
            for step in steps if len(held) + sum(steps) <= whole.window else []:
                whole.update(np.full(step, -1.0 - number))
                held = np.append(held, np.full(step, -1.0 - number))
            whole = FixedWindowQuantiles.from_bytes(whole.to_bytes())
            assert whole.count == len(held) == weight_of(whole)
            if len(held) and whole.rank_error() == 0:
                np.testing.assert_array_equal(whole.quantile(QS).value, exact_quantiles(held))

    def test_refused(self):
        ring = FixedWindowQuantiles(100)
        with pytest.raises(IncompatibleSummary, match="are more than"):
            ring.merge(FixedWindowQuantiles(2**40))
        for other in (
            FixedWindowQuantiles(100, panes=4), FixedWindowQuantiles(100, k=32),
            PublishedItems(100), FixedWindowQuantiles(100, dtype="int64"),
            TimeWindowQuantiles(100), object(),
        ):  # fmt: skip
            with pytest.raises(IncompatibleSummary):
                ring.merge(other)  # pyright: ignore[reportArgumentType]
        strict = FixedWindowQuantiles(100, guarantee="strict")
        with pytest.raises(IncompatibleSummary, match="strict windows"):
            strict.merge(strict.copy())
        paper = PublishedItems(100)
        paper.merge(paper.copy())
        with pytest.raises(BadArgument, match="cannot slide on"):
            paper.update([1.0])


class TestBytes:
    @pytest.mark.parametrize("method", METHODS)
    @given(st.integers(0, 3_000), st.sampled_from(["float64", "float32", "int64"]))
    def test_round_trip(self, method, n, dtype):
        stream = np.random.default_rng(n).normal(0, 1e5, n).astype(dtype)
        window = FixedWindowQuantiles(700, 4, 16, 9, method, dtype=dtype)
        for at in range(0, n, 450):
            window.update(stream[at : at + 450])
        data = window.to_bytes()
        again = FixedWindowQuantiles.from_bytes(data)
        assert again.to_bytes() == data
        for each in (window, again):
            each.update(stream[:451])
            each.quantile(0.5)
        assert again.to_bytes() == window.to_bytes()

    @pytest.mark.parametrize("method", METHODS)
    def test_same_input_and_seed_same_bytes_and_copies_are_free(self, method):
        stream = np.random.default_rng(0).normal(size=20_000)
        one, two = (FixedWindowQuantiles(3_000, seed=5, method=method) for _ in range(2))
        for window in (one, two):
            for start, end in pairwise(range(0, 20_001, 800)):
                window.update(stream[start:end])
        data = one.to_bytes()
        assert data == two.to_bytes()
        three = one.copy()
        three.update(stream)
        assert one.to_bytes() == data

    @pytest.mark.parametrize("method", METHODS)
    def test_golden(self, method):
        window = FixedWindowQuantiles(1_000, 4, 16, 42, method)
        steps = np.arange(5_000, dtype=np.int64) * 7919 % 20_011 / 8.0
        for at in range(0, 5_000, 300):
            window.update(steps[at : at + 300])
        golden = GOLDEN / f"fixed_window_quantiles-{method}-v1.bin"
        assert window.to_bytes() == golden.read_bytes()
        assert FixedWindowQuantiles.from_bytes(golden.read_bytes()).to_bytes() == window.to_bytes()


class TestInput:
    @pytest.mark.parametrize("method", METHODS)
    def test_a_nan_changes_nothing(self, method):
        window = FixedWindowQuantiles(100, method=method)
        window.update(np.arange(250.0))
        before = window.to_bytes()
        for wrong, match in (
            ([1.0, np.nan], "position 1 is NaN"), (pa.array([None, 1.0]), "position 0 is null"),
            (["x"], "not numbers"),
        ):  # fmt: skip
            with pytest.raises(BadArgument, match=match):
                window.update(wrong)
        assert window.to_bytes() == before

    @pytest.mark.parametrize("options", [
        {"window": 0}, {"window": 1.5}, {"panes": 0}, {"panes": 5000}, {"k": 4}, {"seed": -1},
        {"method": "magic"}, {"guarantee": "total"}, {"method": "paper"},
        {"dtype": "int8"}, {"seed": "x"},
        {"panes": 4096, "k": 512},
    ])  # fmt: skip
    def test_parameters(self, options):
        with pytest.raises(BadArgument):
            FixedWindowQuantiles(**({"window": 10} | options))

    def test_scalars_arrow_and_empty(self):
        window = FixedWindowQuantiles(4)
        assert len(window.quantile([0.5]).value) == len(window.rank([1.0]).value) == 0
        window.update([])
        window.update(pa.chunked_array([[1.0], [2.0, 3.0]]))
        window.update(5)
        window.update(np.float32(9))
        assert window.quantile([0, 0.5, 1]).value.tolist() == [2.0, 3.0, 9.0]
        assert window.rank([3, 3.5], inclusive=False).value.tolist() == [0.25, 0.5]
        assert window.seen == 5

    def test_a_batch_larger_than_the_window(self):
        for method in EXACT_COUNTS:
            window = FixedWindowQuantiles(1_000, method=method)
            window.update(np.arange(1e6))
            assert window.count == weight_of(window) == 1_000
            assert window.quantile(0).value[0] >= 999_000
            assert abs(window.quantile(0.5).value[0] - 999_500) < 20
