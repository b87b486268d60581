"""Summaries of values and of items beside all that they were given, whatever is done to them."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections import Counter
from copy import copy, deepcopy
from fractions import Fraction
from typing import Any

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, multiple, rule

from muntin.errors import MuntinError
from muntin.summaries import KLL, REQ, CountMin, Distinct, DyadicQDigest, SpaceSaving
from muntin.summaries.order_maps import FloatOrder

SIZES = st.sampled_from([0, 1, 5, 60, 700])
VALUES_MAX = 20_000
SEEDS = st.integers(0, 2**32)
QUANTILES: dict[str, Any] = {
    "kll": lambda seed: KLL(8, seed),
    "integers": lambda seed: KLL(20, seed, "int64"),
    "req": lambda seed: REQ(4, seed),
    "digest": lambda seed: DyadicQDigest(k=20, domain=FloatOrder()),
}
ITEMS: dict[str, Any] = {
    "count_min": lambda seed: CountMin(64, 3, track=3),
    "int32": lambda seed: CountMin(300, 2, cells="int32"),
    "conservative": lambda seed: CountMin(64, 2, conservative=True),
    "space_saving": lambda seed: SpaceSaving(4),
    "distinct": lambda seed: Distinct(6),
}


class Walk(RuleBasedStateMachine):
    """Each of `summaries` is a pair: a summary, and what it was given."""

    kinds: dict[str, Any]
    summaries = Bundle("summaries")

    @initialize(target=summaries, data=st.data(), seed=SEEDS)
    def begin(self, data: Any, seed: int) -> Any:
        make = self.kinds[data.draw(st.sampled_from(sorted(self.kinds)))]
        return multiple(*((make(seed + i), []) for i in range(2)))

    @rule(pair=summaries, form=st.integers(0, 5), n=SIZES, seed=SEEDS)
    def update(self, pair: Any, form: int, n: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        values = (
            np.arange(n), np.arange(n)[::-1], np.full(n, 7), rng.integers(-3, 4, n),
            rng.integers(-(2**40), 2**40, n), np.where(rng.random(n) < 0.5, 0, np.arange(n)),
        )[form]  # fmt: skip
        pair[0].update(values)
        pair[1].extend(values.tolist())
        self.check(*pair)

    @rule(pair=summaries, other=summaries)
    def merge(self, pair: Any, other: Any) -> None:
        if len(pair[1]) + len(other[1]) > VALUES_MAX:
            return
        before = other[0].to_bytes()
        pair[0].merge(other[0])
        pair[1].extend(list(other[1]))
        if pair[0] is not other[0]:
            assert other[0].to_bytes() == before
        self.check(*pair)

    @rule(target=summaries, pair=summaries, way=st.sampled_from([copy, deepcopy]))
    def copied(self, pair: Any, way: Any) -> Any:
        return way(pair[0]), list(pair[1])

    @rule(target=summaries, pair=summaries)
    def written(self, pair: Any) -> Any:
        again = type(pair[0]).from_bytes(pair[0].to_bytes())
        assert again.to_bytes() == pair[0].to_bytes()
        self.check(again, pair[1])
        return again, list(pair[1])

    @rule(pair=summaries, wrong=st.sampled_from([[1, None], [[1]], [math.nan], [1, "a"]]))
    def refused(self, pair: Any, wrong: Any) -> None:
        before = pair[0].to_bytes()
        try:
            pair[0].update(wrong)
        except MuntinError:
            assert pair[0].to_bytes() == before
        else:
            raise AssertionError(f"{wrong} was taken")

    @abstractmethod
    def check(self, summary: Any, given: list[int]) -> None:
        """Its answers beside those of the values themselves."""


class Quantiles(Walk):
    kinds = QUANTILES

    def check(self, summary: Any, given: list[int]) -> None:
        ordered, n = np.sort(given), len(given)
        assert summary.count == n
        if not n:
            assert not len(summary.quantile(0.5).value)
            return
        whole = 1 if isinstance(summary, DyadicQDigest) else n
        asked = ordered[:: n // 5 + 1]
        for inclusive, side in ((True, "right"), (False, "left")):
            found = summary.rank(asked, inclusive=inclusive)
            below = np.searchsorted(ordered, asked, side) / whole
            self.within(found, below, 1e-12 * n)
        fractions = [0, 0.1, 0.5, 0.7, 1]
        places = [max(1, math.ceil(Fraction(str(q)) * n)) - 1 for q in fractions]
        self.within(summary.quantile(fractions), ordered[places], 0)
        if not isinstance(summary, DyadicQDigest):
            assert (summary.min, summary.max) == (ordered[0], ordered[-1])

    def within(self, found: Any, truth: np.ndarray, rounding: float) -> None:
        assert (found.lower <= found.value).all()
        assert (found.value <= found.upper).all()
        if found.confidence == 1:
            assert (found.lower - rounding <= truth).all()
            assert (truth <= found.upper + rounding).all()


class Items(Walk):
    kinds = ITEMS

    def check(self, summary: Any, given: list[int]) -> None:
        weights = Counter(given)
        assert summary.count == len(given)
        if isinstance(summary, Distinct):
            found = summary.estimate()
            assert found.lower[0] <= found.value[0] <= found.upper[0]
            assert found.lower[0] >= min(1, len(weights))
            return
        asked = [*list(weights)[:9], 2**50]
        truth = np.array([weights[item] for item in asked])
        found = summary.estimate(asked)
        assert (truth <= found.upper).all()
        assert found.confidence < 1 or (found.lower <= truth).all()
        if isinstance(summary, CountMin) and not summary.track:
            return
        for k in (1, 3, None):
            for row in summary.top(k).to_pylist():
                weight = weights[row["item"]]
                assert row["lower"] <= weight <= row["upper"]
                heavier = sum(other > weight for other in weights.values())
                assert not row["guaranteed"] or heavier < (k or len(weights))


TestQuantiles = Quantiles.TestCase
TestItems = Items.TestCase
TestQuantiles.settings = TestItems.settings = settings(
    max_examples=40, stateful_step_count=12, deadline=None
)
