"""Streams of events for the tests of segments, and what may be done to them."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from muntin.segments.algebra import Algebra
from muntin.segments.building import build, merge
from muntin.segments.codec import decode, encode
from muntin.segments.table import Segment

KEY_TYPES = {
    "text": (pa.string(), st.sampled_from(["", "a", "JFK", "Zürich", "a" * 40, "東京"])),
    "number": (pa.int64(), st.sampled_from([0, -1, 7, 2**63 - 1, -(2**63)])),
    "flag": (pa.bool_(), st.booleans()),
    "day": (pa.date32(), st.dates(dt.date(1999, 12, 30), dt.date(2000, 1, 2))),
    "time": (
        pa.timestamp("us", "UTC"),
        st.datetimes(
            dt.datetime(2000, 1, 1), dt.datetime(2000, 1, 1, 0, 0, 1), timezones=st.just(dt.UTC)
        ),
    ),
    "nothing": (pa.null(), st.none()),
}


@dataclass
class Stream:
    """Events in rows: slices, key columns, and the values that the kind takes."""

    slices: list[int]
    columns: dict[str, tuple[pa.DataType, list[Any]]]
    values: list[tuple[pa.DataType, list[Any]]]

    def __len__(self) -> int:
        return len(self.slices)

    def rows(self, at: Any) -> Stream:
        at = list(at)

        def taken(column: tuple[pa.DataType, list[Any]]) -> tuple[pa.DataType, list[Any]]:
            return column[0], [column[1][i] for i in at]

        return Stream(
            [self.slices[i] for i in at],
            {name: taken(column) for name, column in self.columns.items()},
            [taken(column) for column in self.values],
        )

    def build(self, algebra: Algebra, keys: Any = ((),), limit: int | None = None) -> Segment:
        return build(
            algebra,
            np.array(self.slices, np.int64),
            [pa.array(values, kind) for kind, values in self.values],
            keys,
            {name: pa.array(values, kind) for name, (kind, values) in self.columns.items()},
            limit,
        )


@st.composite
def streams(
    draw: Any, *values: Any, rows_min: int = 1, rows_max: int = 40, keys: Any = ("text", "number")
) -> Stream:
    """`values`: pairs (Arrow type, strategy); each may be null."""
    n = draw(st.integers(rows_min, rows_max))

    def column(strategy: Any) -> list[Any]:
        return draw(st.lists(st.none() | strategy, min_size=n, max_size=n))

    base = draw(st.sampled_from([0, -7, 10**12]))
    return Stream(
        [base + s for s in draw(st.lists(st.integers(0, 9), min_size=n, max_size=n))],
        {name: (KEY_TYPES[name][0], column(KEY_TYPES[name][1])) for name in keys},
        [(kind, column(strategy)) for kind, strategy in values],
    )


@st.composite
def spread(draw: Any, stream: Stream) -> list[Stream]:
    """The same events in another order, in one to four parts."""
    order = draw(st.permutations(range(len(stream))))
    cuts = sorted(draw(st.lists(st.integers(0, len(order)), max_size=3)))
    edges = [0, *cuts, len(order)]
    parts = [stream.rows(order[a:b]) for a, b in pairwise(edges)]
    return [part for part in parts if len(part)]


def by_bytes(segment: Segment) -> Segment:
    """The segment after a round trip; it has the same bytes then."""
    data = encode(segment)
    read = decode(data)
    assert data == encode(read)
    return read


def rows_of(segment: Segment, by: Any, question: Any = None) -> dict[Any, list[dict[str, Any]]]:
    """(slice, key ...) -> rows of the answer; the rest of the keys has the key "rest"."""
    table = segment.table(by)
    if table is None:
        return {}
    keys = list(zip(*(column.to_pylist() for column in table.key_arrays()), strict=True))
    keys = keys or [()] * len(table)
    rest = table.is_rest().tolist()
    slices = table.slice_of_row.tolist()
    found: dict[Any, list[dict[str, Any]]] = {}
    for row in segment.algebra.answer(table, question).to_pylist():
        at = row.pop("row")
        name = (slices[at], "rest") if rest[at] and by else (slices[at], *keys[at])
        found.setdefault(name, []).append(row)
    return found


def merged_once(parts: list[Segment]) -> Segment:
    return by_bytes(merge(parts))
