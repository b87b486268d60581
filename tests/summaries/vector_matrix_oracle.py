"""A plain-Python vector matrix, and batches to feed both."""

from __future__ import annotations

import datetime as dt
from fractions import Fraction
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from muntin.summaries import VectorMatrix

KEYS = ["driver", ("driver", "area"), "day", ("area", "hour", "driver")]
INDICATORS = {"served": "int64", "time": "int64", "fare": "float64"}
SCHEMA = pa.schema(
    {
        "driver": pa.string(),
        "area": pa.int32(),
        "day": pa.date32(),
        "hour": pa.timestamp("us", "UTC"),
        "served": pa.bool_(),
        "time": pa.int64(),
        "fare": pa.float64(),
    }
)
UTC = dt.UTC

events = st.fixed_dictionaries(
    {
        "driver": st.one_of(st.none(), st.sampled_from(["a", "b", "ü" * 30, "", "a\0", "c" * 9])),
        "area": st.one_of(st.none(), st.integers(-2, 2)),
        "day": st.one_of(st.none(), st.dates(dt.date(1969, 12, 30), dt.date(1970, 1, 2))),
        "hour": st.sampled_from([dt.datetime(2026, 1, 1, h, tzinfo=UTC) for h in range(3)]),
        "served": st.one_of(st.none(), st.booleans()),
        "time": st.one_of(st.none(), st.integers(-(2**40), 2**40)),
        "fare": st.one_of(
            st.none(),
            st.integers(-(10**11), 10**11).map(lambda cents: cents / 100),
            st.just(float("nan")),
        ),
    }
)
streams = st.lists(events, max_size=60)


def batch_of(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, SCHEMA)


def filled(rows: list[dict[str, Any]], keys=KEYS, indicators=INDICATORS) -> VectorMatrix:
    summary = VectorMatrix(keys, indicators)
    summary.update(batch_of(rows))
    return summary


def expected(rows: list[dict[str, Any]], key: str | tuple[str, ...]) -> dict[tuple, tuple]:
    """Key values -> (count, sum of each indicator), exactly."""
    names = (key,) if isinstance(key, str) else key
    found: dict[tuple, list] = {}
    for row in rows:
        sums = found.setdefault(tuple(row[name] for name in names), [0, 0, 0, Fraction(0)])
        sums[0] += 1
        sums[1] += int(row["served"] or 0)
        sums[2] += row["time"] or 0
        if row["fare"] is not None and row["fare"] == row["fare"]:
            sums[3] += Fraction(row["fare"])
    return {values: (*sums[:3], float(sums[3])) for values, sums in found.items()}


def rows_of(summary: VectorMatrix, key: str | tuple[str, ...] | int) -> dict[tuple, tuple]:
    """Key values -> the other columns."""
    table = summary.table(key)
    table.validate(full=True)
    width = table.schema.get_field_index("count")
    lines = list(zip(*(column.to_pylist() for column in table.columns), strict=True))
    found = {line[:width]: line[width:] for line in lines}
    assert len(found) == len(lines) == summary.rows(key)
    return found


def check(summary: VectorMatrix, rows: list[dict[str, Any]], keys=KEYS) -> None:
    assert summary.count == len(rows)
    for key in keys:
        assert rows_of(summary, key) == expected(rows, key)
        assert summary.covered(key) == len(rows)
