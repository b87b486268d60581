"""The vector matrix against plain Python: events, merges, subtraction, bytes."""

import random
from itertools import pairwise

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from vector_matrix_oracle import INDICATORS, KEYS, batch_of, check, filled, streams

from muntin.demo.taxi import INDICATORS as TAXI_INDICATORS
from muntin.demo.taxi import KEYS as TAXI_KEYS
from muntin.demo.taxi import orders
from muntin.errors import IncompatibleSummary
from muntin.summaries import VectorMatrix

INTEGERS = {"served": "int64", "time": "int64"}


@given(streams, st.lists(st.integers(0, 60)), st.randoms())
def test_any_cut_of_the_events_gives_the_same(rows, cuts, rng):
    summary = VectorMatrix(KEYS, INDICATORS)
    edges = sorted({0, len(rows), *(cut % (len(rows) + 1) for cut in cuts)})
    pieces = [rows[a:b] for a, b in pairwise(edges)] or [[]]
    rng.shuffle(pieces)
    for piece in pieces:
        summary.update(batch_of(piece))
    check(summary, rows)
    nulls = {
        "served": sum(row["served"] is None for row in rows),
        "time": sum(row["time"] is None for row in rows),
        "fare": sum(row["fare"] is None or row["fare"] != row["fare"] for row in rows),
    }
    assert summary.nulls == nulls
    again = VectorMatrix.from_bytes(summary.to_bytes())
    check(again, rows)
    assert (again.nulls, again.indicators) == (summary.nulls, summary.indicators)


@given(streams, streams, streams)
def test_merge_is_the_whole_in_any_order(a, b, c):
    whole = filled(a + b + c)
    x, y, z = filled(a), filled(b), filled(c)
    left = x.copy()
    left.merge(y)
    left.merge(z)
    right = z.copy()
    right.merge(y)
    right.merge(x)
    for merged in (left, right, VectorMatrix.merged([y, z, x])):
        check(merged, a + b + c)
        assert merged.nulls == whole.nulls
    check(x, a)
    check(y, b)


@given(streams, streams, streams)
def test_integer_bytes_depend_on_what_is_held_alone(a, b, c):
    def part(rows):
        return filled(rows, indicators=INTEGERS)

    data = part(a + b + c).to_bytes()
    merged = VectorMatrix.merged([VectorMatrix.from_bytes(part(r).to_bytes()) for r in (c, a)])
    merged.merge(part(b))
    assert merged.to_bytes() == data
    backwards = VectorMatrix(KEYS, INTEGERS)
    for row in reversed(a + b + c):
        backwards.update(batch_of([row]))
    if a + b + c:
        assert backwards.to_bytes() == data


@given(streams, streams, streams)
def test_subtracting_undoes_merging(a, b, c):
    x, y = filled(a, indicators=INTEGERS), filled(b, indicators=INTEGERS)
    before = x.to_bytes()
    x.merge(y)
    x.subtract(y)
    assert x.to_bytes() == before
    assert x.rows() == filled(a).rows()
    x.update(batch_of(c))
    assert x.to_bytes() == filled(a + c, indicators=INTEGERS).to_bytes()


@given(streams, streams)
def test_what_is_no_part_cannot_be_subtracted(a, b):
    x, y = filled(a, indicators=INTEGERS), filled([*a, *b], indicators=INTEGERS)
    before = x.to_bytes()
    if b:
        with pytest.raises(IncompatibleSummary):
            x.subtract(y)
        assert x.to_bytes() == before
    y.subtract(x)
    assert y.to_bytes() == filled(b, indicators=INTEGERS).to_bytes()


@given(streams, streams)
def test_what_was_taken_away_can_be_merged_again(a, b):
    x, y = filled(a), filled(b)
    x.merge(y)
    known = x.rows()
    x.subtract(y)
    assert VectorMatrix.merged([x, y]).rows() == known
    x.merge(x)
    check(x, a + a)


def test_what_rounding_leaves_of_no_values_is_read_back():
    values = [5.787076588082462e-10, 6.8665241046715125e-09, 764.3730549373536,
              9.091445050960844e-07, -1.5185093946021722, -31773218.37167011]  # fmt: skip
    whole, part = (VectorMatrix(["k"], {"x": "float64"}) for _ in range(2))
    whole.update(pa.table({"k": ["a"] * 6 + ["b"], "x": [*values, None]}))
    part.update(pa.table({"k": ["a"] * 6, "x": [values[i] for i in (3, 4, 5, 2, 0, 1)]}))
    whole.subtract(part)
    assert VectorMatrix.from_bytes(whole.to_bytes()).nulls == {"x": 1}


@given(streams, streams)
def test_what_was_read_from_bytes_goes_on(a, b):
    summary = VectorMatrix.from_bytes(filled(a).to_bytes())
    summary.update(batch_of(b))
    check(summary, a + b)
    copied = summary.copy()
    copied.update(batch_of(a))
    check(summary, a + b)
    check(copied, a + b + a)


@given(st.lists(st.floats(-1e300, 1e300, allow_subnormal=False), max_size=50), st.randoms())
def test_float_sums_are_rounded_once(values, rng):
    from fractions import Fraction

    def part(numbers):
        summary = VectorMatrix(["k"], {"x": "float64"})
        summary.update(
            pa.table(
                {"k": pa.array([1] * len(numbers), pa.int8()), "x": pa.array(numbers, pa.float64())}
            )
        )
        return summary

    values = [value / 64 for value in values]
    shuffled = rng.sample(values, len(values))
    merged = VectorMatrix.merged([part(shuffled[:10]), part(shuffled[10:30]), part(shuffled[30:])])
    if not values:
        return
    got = merged.table("k")["x"][0].as_py()
    exact = float(sum(map(Fraction, values)))
    # Double-double loses 2^-104 of the largest part: beyond that, only cancellation can show.
    slack = max(map(abs, values)) * len(values) * 2.0**-100
    assert abs(got - exact) <= max(np.spacing(abs(exact)), slack)


def test_a_sliding_window_forgets_what_left():
    rng = random.Random(3)
    panes = []
    for pane in range(40):
        rows = [
            {
                "driver": f"{pane}-{rng.randrange(300)}",
                "area": 1,
                "day": None,
                "hour": None,
                "served": True,
                "time": 5,
                "fare": 0.0,
            }
            for _ in range(400)
        ]
        panes.append(filled(rows, indicators=INTEGERS))
    window = VectorMatrix(KEYS, INTEGERS)
    for at, pane in enumerate(panes):
        window.merge(pane)
        if at >= 3:
            window.subtract(panes[at - 3])
        assert window.nbytes < 3_000_000
    assert window.to_bytes() == VectorMatrix.merged(panes[-3:]).to_bytes()


@pytest.mark.parametrize("seed", [1, 2])
def test_taxi_orders_as_duckdb_counts_them(seed):
    batch = orders(60_000, 3_000, seed)
    summary = VectorMatrix(TAXI_KEYS, TAXI_INDICATORS)
    summary.update(batch)
    table = pa.Table.from_batches([batch])
    connection = duckdb.connect()
    connection.register("orders", table)
    for key in TAXI_KEYS:
        names = ", ".join((key,) if isinstance(key, str) else key)
        sums = ", ".join(f"sum({name})::BIGINT AS {name}" for name in TAXI_INDICATORS)
        sql = f"SELECT {names}, count(*) AS count, {sums} FROM orders GROUP BY {names}"  # noqa: S608
        connection.register("ours", summary.table(key))
        difference = f"(FROM ({sql}) EXCEPT FROM ours) UNION ALL (FROM ours EXCEPT ({sql}))"
        assert connection.sql(difference).fetchall() == []
    data = summary.to_bytes()
    pieces = [VectorMatrix(TAXI_KEYS, TAXI_INDICATORS) for _ in range(3)]
    for at, piece in enumerate(pieces):
        piece.update(table.slice(at * 20_000, 20_000))
    assert VectorMatrix.merged(pieces[::-1]).to_bytes() == data
    assert VectorMatrix.from_bytes(data).to_bytes() == data
