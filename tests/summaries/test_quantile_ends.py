"""Ranks of points at, and beyond, the ends of the numbers that a sketch of integers takes."""

from __future__ import annotations

from decimal import Decimal
from math import inf

import numpy as np
import pyarrow as pa
import pytest

from muntin.segments import build
from muntin.segments.quantiles import Quantiles
from muntin.segments.ranked import RanksOf
from muntin.summaries import KLL, REQ, FixedWindowQuantiles

LOW, HIGH = -(2**63), 2**63 - 1
VALUES = [LOW, LOW, LOW + 1, -1, 0, 5, HIGH - 1, HIGH, HIGH]
POINTS = (
    [-inf, -(2.0**64), -(2.0**63), -0.5, 0.0, 2.0**63 - 1024, 2.0**63, 2.0**64, inf],
    [LOW, LOW + 1, 0, HIGH - 1, HIGH],
    [np.uint64(x) for x in (0, HIGH, HIGH + 1, 2**64 - 1)],
)


@pytest.mark.parametrize("inclusive", [True, False])
@pytest.mark.parametrize("make", [KLL, REQ, lambda dtype: FixedWindowQuantiles(100, dtype=dtype)])
def test_ranks_are_those_of_the_numbers_themselves(make, inclusive):
    sketch = make(dtype="int64")
    sketch.update(np.array(VALUES))
    mixed = [HIGH - 1, 0.5, HIGH, 2**70, LOW, -inf]  # as an array they would all be floats
    between = [Decimal(HIGH) + Decimal("0.5"), Decimal(LOW) - Decimal("0.5"), Decimal("0.5")]
    for points in (*POINTS, mixed, between):
        asked = [x if isinstance(x, float | Decimal) else int(x) for x in points]
        given = np.array(points) if points in POINTS else points
        found = sketch.rank(given, inclusive=inclusive)
        exact = [sum(v < x or (inclusive and v == x) for v in VALUES) / 9 for x in asked]
        assert found.value.tolist() == found.lower.tolist() == found.upper.tolist() == exact


def test_what_is_beyond_is_sure_also_where_ranks_are_not():
    ends = np.full((2, 1000), [[LOW], [HIGH]])
    column = pa.array(np.concatenate((ends[0], np.arange(100_000), ends[1])))
    (table,) = build(Quantiles(200, "int64"), np.zeros(len(column), np.int64), [column]).tables
    found = Quantiles(200, "int64").answer(table, RanksOf((-inf, 5e4, inf), inclusive=False))
    assert found["lower"].to_pylist()[::2] == found["upper"].to_pylist()[::2] == [0, 1]
    assert found["lower"][1].as_py() < 0.5 < found["upper"][1].as_py()
