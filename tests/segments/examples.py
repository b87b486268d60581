"""An example of each kind of the registry: what the tests that are generated from it use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from muntin.segments.algebra import Algebra
from muntin.segments.building import build
from muntin.segments.distinct import DistinctCount, DistinctItems
from muntin.segments.fingerprint import Contains, Fingerprints
from muntin.segments.frequency import Frequency
from muntin.segments.merged import MergedDistinct, MergedQuantiles
from muntin.segments.quantiles import Quantiles
from muntin.segments.ranked import QuantilesAt, RanksOf
from muntin.segments.sketched import Listed, SketchedSums, SumsOf
from muntin.segments.sums import Sums, Totals
from muntin.segments.table import Segment
from muntin.segments.tail import TailQuantiles
from muntin.segments.top_k import Heaviest, TopItems, WeightOf
from muntin.summaries.order_maps import FloatOrder

datasketches: Any = pytest.importorskip("datasketches")


@dataclass(frozen=True)
class Example:
    algebra: Algebra
    values: Callable[[np.random.Generator, int], list[pa.Array]]
    questions: tuple[Any, ...]


def _sums(rng: np.random.Generator, n: int) -> list[pa.Array]:
    missing = rng.random(n) < 0.1
    large = rng.integers(-(2**62), 2**62, n)
    return [pa.array(large, mask=missing), pa.array(rng.normal(0, 1e6, n))]


def _numbers(rng: np.random.Generator, n: int) -> list[pa.Array]:
    return [pa.array(np.round(rng.gamma(2, 20, n), 1), mask=rng.random(n) < 0.1)]


def _names(rng: np.random.Generator, n: int) -> list[pa.Array]:
    names = [f"item {number}" for number in (rng.pareto(1, n) * 3).astype(int)]
    return [pa.array(names, mask=rng.random(n) < 0.1)]


def _weighed(rng: np.random.Generator, n: int) -> list[pa.Array]:
    return [*_names(rng, n), pa.array(rng.integers(1, 5, n))]


def _records(rng: np.random.Generator, n: int) -> list[pa.Array]:
    return [*_names(rng, n), pa.array(rng.gamma(2, 20, n), mask=np.arange(n) % 50 == 49)]


def _klls(rng: np.random.Generator, n: int) -> list[pa.Array]:
    """Sketches of others, some of them null or empty; of so few values that no coin is thrown."""
    sketches = []
    for size in rng.integers(0, 9, n).tolist():
        sketch = datasketches.kll_doubles_sketch(8)
        sketch.update(rng.gamma(2, 20, size))
        sketches.append(sketch.serialize())
    return [pa.array(sketches, pa.binary(), mask=rng.random(n) < 0.1)]


def _hlls(rng: np.random.Generator, n: int) -> list[pa.Array]:
    sketches = []
    for size in rng.integers(0, 40, n).tolist():
        sketch = datasketches.hll_sketch(6)
        for item in rng.integers(0, 200, size).tolist():
            sketch.update(item)
        sketches.append(sketch.serialize_compact())
    return [pa.array(sketches, pa.binary(), mask=rng.random(n) < 0.1)]


EXAMPLES: dict[str, Example] = {
    "vector_matrix": Example(Sums((("i", "int64"), ("f", "float64"))), _sums, (Totals(),)),
    "distinct": Example(DistinctItems(lg_k=6), _names, (DistinctCount(),)),
    "fingerprint": Example(
        Fingerprints.over(FloatOrder(16), 0.4),
        _records,
        (Contains(("item 3", "x")), QuantilesAt((0.0, 0.5)), RanksOf((2.0, 1e9))),
    ),
    "frequency": Example(
        Frequency(width=16, depth=3, track=2), _weighed, (Heaviest(2), WeightOf(("item 3", "x")))
    ),
    "sketched_matrix": Example(
        SketchedSums((("i", "int64"), ("f", "float64")), width=16, depth=3, track=2),
        lambda rng, n: [pa.array(abs(rng.integers(0, 99, n))), pa.array(rng.gamma(2, 20, n))],
        (Listed(), Listed(2), SumsOf({"text": pa.array(["JFK", "x", None])}), Totals()),
    ),
    "top_k": Example(TopItems(capacity=4), _weighed, (Heaviest(3), WeightOf(("item 3", "x")))),
    "merged_distinct": Example(MergedDistinct(lg_k=6), _hlls, (DistinctCount(),)),
    "merged_quantiles": Example(
        MergedQuantiles(k=8), _klls, (QuantilesAt((0.0, 0.5, 1.0)), RanksOf((20.0,)))
    ),
    "quantiles": Example(
        Quantiles(k=8), _numbers, (QuantilesAt((0.0, 0.5, 1.0)), RanksOf((20.0,)))
    ),
    "tail_quantiles": Example(
        TailQuantiles(k=4), _numbers, (QuantilesAt((0.0, 0.5, 1.0)), RanksOf((20.0,)))
    ),
}


def example(kind: str, rows: int, seed: int = 1) -> Segment:
    """Rows of five slices and four keys."""
    rng = np.random.default_rng(seed)
    found = EXAMPLES[kind]
    slices = rng.integers(100, 105, rows)
    keys = pa.array(np.array(["EWR", "JFK", "LGA", "Zürich"])[rng.integers(0, 4, rows)])
    return build(found.algebra, slices, found.values(rng, rows), [("text",)], {"text": keys})
