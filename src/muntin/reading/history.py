"""Closed windows and stored results as tables: the newest, and said where that is not all."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.cache import Cache
from muntin.ledger.base import View
from muntin.ledger.records import PipelineInfo
from muntin.reading.results import Results, read_results
from muntin.select.catalog import ForClause, LoadedTable, Note

HISTORY_MAX = 100_000  # windows or trend points in one answer
_MOMENT = pa.timestamp("us", "UTC")

AskedSpan = tuple[int | None, int | None]
FindOvertaken = Callable[[Results, AskedSpan], tuple[Mapping[str, Any], tuple[Note, ...]]]
"""See `overtaken`."""


def trend(
    view: View,
    query: str,
    asked: ForClause | None,
    info: PipelineInfo,
    cache: Cache[Any],
    overtaken: FindOvertaken,
) -> LoadedTable:
    """Results of a standing query, one after the other. `overtaken` says what they do not."""
    (start, end), most = _span(asked, info), _most(asked)
    found = view.trend_marks(query, start=start, end=end, limit=most + 1)
    found, notes = _newest(query, found, most, asked, "results")
    marks = np.array(found, np.int64).reshape(-1, 4)
    name = ("trend", query, asked)
    furthest = cache.get(cache.get(name[:2]))  # of whatever was asked, as where a time moves on
    results = shown = read_results(view, query, marks, cache.get(name) or furthest)
    cache.put(name, results, results.nbytes)
    if furthest is None or results.reach > furthest.reach:
        cache.put(name[:2], name)
    if not found:  # the newest there is says what types the columns have
        marks = np.array(view.trend_marks(query, limit=1), np.int64).reshape(-1, 4)
        shown = read_results(view, query, marks, None).without_lineage()
    bounds, more = overtaken(shown, (start, end))
    known = [(json.loads(said), times) for said, times in results.said().items()]
    said_of_them = (Note(**note) for said, _ in known for note in said["notes"])
    return LoadedTable(
        shown.table.slice(0, len(results.table)),
        covered=(int(marks[0, 0]), int(marks[:, 1].max())) if found else None,
        watermark=info.watermark,
        revision=max((revision for *_, revision, _ in found), default=0),
        late=sum(said["late"] * times for said, times in known),
        stale=False,
        exact=all(said["exact"] for said, _ in known) and not more,
        bounds={**worst([said["bounds"] for said, _ in known]), **bounds},
        notes=(*notes, *more, *dict.fromkeys(said_of_them)),
    )


def windows(view: View, summary: str, asked: ForClause | None, info: PipelineInfo) -> LoadedTable:
    """Closed windows, in their newest revision."""
    (start, end), most = _span(asked, info), _most(asked)
    found = view.windows(summary, start=start, end=end, limit=most + 1, newest_first=True)
    closed, notes = _newest(summary, found, most, asked, "windows")
    table = pa.table(
        {
            "window_start": pa.array([w.start for w in closed], _MOMENT),
            "window_end": pa.array([w.end for w in closed], _MOMENT),
            "reason": pa.array([w.reason for w in closed], pa.string()),
            "revision": pa.array([w.revision for w in closed], pa.int64()),
            "overflowed": pa.array([w.overflowed for w in closed], pa.bool_()),
            "events": pa.array([w.events for w in closed], pa.int64()),
            "late": pa.array([w.late for w in closed], pa.int64()),
        }
    )
    return LoadedTable(
        table,
        covered=(closed[0].start, max(window.end for window in closed)) if closed else None,
        watermark=info.watermark,
        revision=max((window.revision for window in closed), default=0),
        late=sum(window.late for window in closed),
        stale=False,
        exact=True,  # events of a window are counted, whatever its summary is
        bounds={},
        notes=notes,
    )


def worst(all_bounds: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Bounds that hold for each of several results: the least confidence, else the largest."""
    found: dict[str, Any] = {}
    for bounds in all_bounds:
        for name, value in bounds.items():
            known = found.get(name)
            if name not in found or value == known:
                found[name] = value
            elif isinstance(value, Mapping) and isinstance(known, Mapping):
                found[name] = worst([known, value])
            elif isinstance(value, int | float) and isinstance(known, int | float):
                found[name] = min(known, value) if name == "confidence" else max(known, value)
            else:
                found[name] = None  # they differ, and neither is worse
    return found


def _span(asked: ForClause | None, info: PipelineInfo) -> AskedSpan:
    """Starts of windows that a clause on a trend or on `windows(...)` lets through."""
    if asked is None:
        return None, None
    if asked.kind == "last":
        newest = info.max_event_time or 0
        return newest - (asked.length_us or 0), newest + 1
    if asked.kind == "window":
        return asked.start_us, (asked.start_us or 0) + 1
    return asked.start_us, asked.end_us


def _most(asked: ForClause | None) -> int:
    return 1 if asked is not None and asked.kind == "newest_window" else HISTORY_MAX


def _newest(
    source: str, found: list[Any], most: int, asked: ForClause | None, what: str
) -> tuple[list[Any], tuple[Note, ...]]:
    """The newest of what was found, oldest first, and what to say where there are more."""
    kept = found[:most][::-1]
    if len(found) <= most or (asked is not None and asked.kind == "newest_window"):
        return kept, ()
    message = (
        f"{source}: only the newest {most:,} {what} were read, and there are older ones: "
        "ask for a shorter time, FOR '<start>' TO '<end>'"
    )
    return kept, (Note("cut", source, message),)
