"""A catalog over Arrow tables, for tests of the engine alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.errors import SelectError
from muntin.kinds import KINDS, SegmentSpec
from muntin.segments import Segment
from muntin.segments.keys import Keys
from muntin.segments.sums import Sums
from muntin.segments.table import Table
from muntin.select.catalog import (
    ForClause,
    KeyNames,
    LoadedTable,
    LoadedWindow,
    QueryInfo,
    SummaryInfo,
)
from muntin.select.result import Result

HOUR = 3_600_000_000


def result_of(table: pa.Table, **about: Any) -> Result:
    """A result of which nothing is said but what is given."""
    said: dict[str, Any] = {
        "windows": (), "watermark": None, "revision": 0, "exact": True, "bounds": {}, "notes": (),
        "late": 0, "stale": False, "seconds": 0.0,
    }  # fmt: skip
    return Result(table, **said | about)


def loaded_of(summary: Any, **about: Any) -> LoadedWindow:
    """The first hour of a summary, exact, but for what is given."""
    said: dict[str, Any] = {
        "covered": (0, HOUR), "stored": (0, HOUR), "watermark": HOUR, "revision": 0, "late": 0,
        "stale": False, "exact": True, "proven": False, "bounds": {}, "uncounted": {},
        "notes": (), "token": None, "like": None, "among": None,
    }  # fmt: skip
    return LoadedWindow(summary, **said | about)


def loaded_table(table: pa.Table) -> LoadedTable:
    """The first hour of a history, exact."""
    return LoadedTable(table, (0, HOUR), HOUR, 0, 0, False, True, {}, ())


def segment_of(kind: str, columns: Mapping[str, Any], **entry: Any) -> Segment:
    """The segment of events, as a pipeline file's entry makes it."""
    spec = KINDS[kind].model_validate({"kind": kind, **entry})
    assert isinstance(spec, SegmentSpec)
    batch = pa.record_batch(dict(columns))
    return spec.segment(batch, np.zeros(batch.num_rows, np.int64))


def matrix_of(tables: Mapping[tuple[str, ...], pa.Table]) -> Segment:
    """A vector matrix of which each key has a table: its columns, `count` and the indicators."""
    one = np.zeros(1, np.int64)
    types: dict[str, str | None] = {}
    held = []
    for names, rows in tables.items():
        keys = tuple(rows[name].combine_chunks() for name in names)
        states: dict[str, Any] = {}
        for name in rows.column_names:
            if name not in (*names, "count"):
                types[name], own = _sums(rows[name].to_pylist(), rows[name].type, rows["count"])
                states |= {f"{name}.{part}": column for part, column in own.items()}
        held.append(
            Table(
                Keys(names, keys, np.arange(len(rows), dtype=np.uint64)),
                one,
                np.array([0, len(rows)]),
                np.arange(len(rows)),
                rows["count"].to_numpy(),
                states,
            )
        )
    events = np.array([max((int(table.events.sum()) for table in held), default=0)])
    return Segment(Sums(tuple(types.items())), one, events, tuple(held))


def _sums(values: list[Any], kind: pa.DataType, count: pa.ChunkedArray) -> tuple[str | None, Any]:
    """The type and the states of sums that are null where no event could have one."""
    absent = np.array([value is None for value in values], bool)
    states: dict[str, Any] = {"nulls": None, "unseen": np.where(absent, count.to_numpy(), 0)}
    if pa.types.is_null(kind):
        return None, states
    there = [value or 0 for value in values]
    if pa.types.is_floating(kind):
        return "float64", states | {"sum": np.array(there, np.float64), "low": None}
    low = [(int(value) + 2**63) % 2**64 - 2**63 for value in there]
    beyond = [int(value) - own >> 64 for value, own in zip(there, low, strict=True)]
    wide = np.array(beyond, np.int64) if any(beyond) else None
    return "int64", states | {"sum": np.array(low, np.int64), "beyond": wide}


@dataclass
class MemoryCatalog:
    """Windows by (summary, kind); counts how often each was loaded."""

    infos: dict[str, SummaryInfo]
    held: dict[tuple[str, str], Any]
    standing: dict[str, QueryInfo] = field(default_factory=dict)
    trends: dict[str, pa.Table] = field(default_factory=dict)
    closed: dict[str, pa.Table] = field(default_factory=dict)
    loads: list[tuple[str, ForClause, KeyNames | None]] = field(default_factory=list)
    cached: bool = True

    @contextmanager
    def moment(self) -> Iterator[MemoryCatalog]:
        yield self

    def summaries(self) -> Mapping[str, SummaryInfo]:
        return self.infos

    def queries(self) -> Mapping[str, QueryInfo]:
        return self.standing

    def span_of(self, summary: str) -> tuple[int, int] | None:
        return (0, HOUR) if any(name == summary for name, _ in self.held) else None

    def load(self, summary: str, window: ForClause, keys: KeyNames | None = None) -> LoadedWindow:
        self.loads.append((summary, window, keys))
        if window.kind == "newest_window":
            raise SelectError("no window has closed yet", code="no_window")
        held = self.held.get((summary, window.kind))
        token = (summary, window) if self.cached else None
        return loaded_of(
            held,
            covered=(0, HOUR) if held is not None else None,
            revision=1 if window.kind == "window" else 0,
            late=2,
            token=token,
        )

    def trend(self, query: str, window: ForClause | None) -> LoadedTable:
        table = self.trends[query]
        return loaded_table(table if window is None else table.slice(0, 1))

    def windows(self, summary: str, window: ForClause | None) -> LoadedTable:
        return loaded_table(self.closed[summary])


def order_tables() -> dict[tuple[str, ...], pa.Table]:
    """Taxi orders: keys driver, area, (driver, area); indicators served, time, paid, tip, debt."""
    rows = [
        ("d1", 1, 3, 4, 40, 100, 1.5, 0),
        ("d1", 2, 1, 0, 10, 50, 0.0, 1),
        ("d2", 1, 2, 2, 30, 70, 2.25, 0),
        ("d3", 2, 5, 8, 90, 10, 0.5, 3),
        (None, 3, 1, 1, 7, 9, 0.25, 0),
    ]
    names = ("driver", "area", "count", "served", "time", "paid", "tip", "debt")
    both = pa.table(
        {n: list(column) for n, column in zip(names, zip(*rows, strict=True), strict=True)}
    )
    both = both.cast(
        pa.schema(
            [("driver", pa.string()), ("area", pa.int64()), ("count", pa.int64())]
            + [(n, pa.float64() if n == "tip" else pa.int64()) for n in names[3:]]
        )
    )
    return {
        ("driver",): _grouped(both, "driver", names[2:]),
        ("area",): _grouped(both, "area", names[2:]),
        ("driver", "area"): both,
    }


def _grouped(table: pa.Table, key: str, numbers: Sequence[str]) -> pa.Table:
    grouped = table.group_by(key).aggregate([(n, "sum") for n in numbers])
    return (
        grouped.rename_columns([key, *numbers])
        if grouped.column_names[0] == key
        else (grouped.select([key, *(f"{n}_sum" for n in numbers)]).rename_columns([key, *numbers]))
    )


ORDERS = SummaryInfo(
    "orders",
    "vector_matrix",
    keys=(("driver",), ("area",), ("driver", "area")),
    indicators=("served", "time", "paid", "tip", "debt"),
)


def catalog(**changes: Any) -> MemoryCatalog:
    """One vector matrix, open and over all windows."""
    moment = pa.timestamp("us", "UTC")
    trend = pa.table(
        {
            "window_start": pa.array([0, HOUR], moment),
            "window_end": pa.array([HOUR, 2 * HOUR], moment),
            "revision": [0, 1],
            "driver": ["d1", "d3"],
            "orders": [4, 5],
        }
    )
    closed = pa.table(
        {
            "window_start": pa.array([0], moment),
            "window_end": pa.array([HOUR], moment),
            "reason": ["full"],
            "revision": [0],
            "overflowed": [False],
            "events": [12],
            "late": [2],
        }
    )
    kinds = ("open", "all", "last", "range", "window")
    made = MemoryCatalog(
        {"orders": ORDERS},
        {("orders", kind): matrix_of(order_tables()) for kind in kinds},
        {
            "busiest": QueryInfo(
                "busiest",
                "SELECT driver, count AS orders FROM orders(driver) ORDER BY orders DESC LIMIT 1",
            )
        },
        {"busiest": trend},
        {"orders": closed},
    )
    for name, value in changes.items():
        setattr(made, name, value)
    return made
