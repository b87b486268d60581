"""How much a ledger holds: events over time, and what each summary takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from muntin.kinds import SegmentSpec
from muntin.ledger.base import Ledger, View
from muntin.reading.extent import Layout
from muntin.reading.pieces import Pieces, SegmentCache
from muntin.spec import AWAY, Pipeline

POINTS_MAX = 300


def events_over_time(
    ledger: Ledger, pipeline: Pipeline, start: int | None, end: int | None
) -> dict[str, Any]:
    """Events by event time, as rollups and panes tell without being opened.

    Parameters
    ----------
    start, end : int or None
        Microseconds since 1970 UTC; None: from the first, or to the last that is stored.

    Returns
    -------
    dict
        `width_us`: of a point, a multiple of the pane; `points`: [start, events] of each that
        holds events, at most about `POINTS_MAX`, ascending; `from`, `to`: all that is stored.
    """
    with ledger.snapshot() as view:
        found = _longest(view, pipeline)
        if found is None:
            return {"width_us": pipeline.pane, "points": [], "from": None, "to": None}
        layout, pieces, (first, last) = found
        begin = first if start is None else max(start, first)
        until = last if end is None else min(end, last)
        lengths = (pipeline.pane, *pipeline.rungs)
        least = max(1, (until - begin) // POINTS_MAX)
        width = next((length for length in lengths if length >= least), 0)
        width = width or -(-least // lengths[-1]) * lengths[-1]
        begin, until = begin // width * width, -(-until // width) * width
        counts = np.zeros(max(0, (until - begin) // width), np.int64)
        rollups = pieces.extent(layout).rollups
        for length, *run in rollups.tiles(begin, until, below=width + 1):
            if length is not None and len(counts):
                slices = pieces.slices(layout, length, *run)
                np.add.at(counts, (slices.starts - begin) // width, slices.events)
    filled = np.flatnonzero(counts)
    return {
        "width_us": width,
        "points": [[begin + n * width, int(counts[n])] for n in filled.tolist()],
        "from": first,
        "to": last,
    }


def _longest(view: View, pipeline: Pipeline) -> tuple[Layout, Pieces, tuple[int, int]] | None:
    """The summary that reaches back furthest: each counts all events of its time, but for those
    that were not always there."""
    pieces = Pieces(view, SegmentCache(0))
    specs = {info.name: info.spec for info in view.pipelines()}
    away = specs[pipeline.name].get(AWAY, ()) if pipeline.name in specs else ()
    found = []
    for name, spec in pipeline.summaries.items():
        if isinstance(spec, SegmentSpec):
            layout = Layout(name, spec, pipeline.pane, pipeline.rungs)
            bounds = pieces.bounds(layout)
            if bounds is not None:
                found.append((name in away, bounds[0], name, layout, bounds))
    if not found:
        return None
    *_, layout, bounds = min(found, key=lambda each: each[:3])
    return layout, pieces, bounds


def catalogue(ledger: Ledger, pipelines: Mapping[str, Pipeline]) -> list[dict[str, Any]]:
    """What there is of each summary: from when to when, in how many pieces and bytes."""
    with ledger.snapshot() as view:
        sizes = view.sizes()
    rows = []
    for pipeline in pipelines.values():
        for name, spec in pipeline.summaries.items():
            pieces, size, first, last = sizes.get(name, (0, 0, None, None))
            rows.append(
                {
                    "name": name,
                    "pipeline": pipeline.name,
                    "kind": spec.kind,
                    "from": first,
                    "to": last,
                    "pieces": pieces,
                    "bytes": size,
                }
            )
    return rows
