"""How much a ledger holds: events over time, and what each summary takes."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from muntin.ledger.base import Ledger
from muntin.reading.absences import all_layouts
from muntin.reading.extent import Layout
from muntin.reading.pieces import Pieces, SegmentCache, pieces_of
from muntin.spec import AWAY, Pipeline

POINTS_MAX = 300


def events_over_time(
    ledger: Ledger, pipeline: Pipeline, start: int | None, end: int | None
) -> dict[str, Any]:
    """Events by event time, as rollups and panes tell without being opened.

    `start`, `end`: None: from the first, or to the last that is stored. What comes of it:
    `width_us`: of a point, a multiple of the pane; `points`: [start, events] of each that holds
    events, at most about `POINTS_MAX`, ascending; `from`, `to`: all that is stored.
    """
    with pieces_of(ledger, SegmentCache(0)) as pieces:
        found = _counting(pieces, pipeline)
        if not found:
            return {"width_us": pipeline.pane, "points": [], "from": None, "to": None}
        first, last = min(start for _, (start, _) in found), max(end for _, (_, end) in found)
        begin = first if start is None else max(start, first)
        until = last if end is None else min(end, last)
        lengths = (pipeline.pane, *pipeline.rungs)
        least = max(1, (until - begin) // POINTS_MAX)
        width = next((length for length in lengths if length >= least), 0)
        width = width or -(-least // lengths[-1]) * lengths[-1]
        begin, until = begin // width * width, -(-until // width) * width
        each = [_counts(pieces, layout, begin, until, width) for layout, _ in found]
        counts = np.maximum.reduce(each)
    filled = np.flatnonzero(counts)
    return {
        "width_us": width,
        "points": [[begin + n * width, int(counts[n])] for n in filled.tolist()],
        "from": first,
        "to": last,
    }


def _counts(pieces: Pieces, layout: Layout, begin: int, until: int, width: int) -> np.ndarray:
    """How many events one summary has counted in each point."""
    counts = np.zeros(max(0, (until - begin) // width), np.int64)
    for length, *run in pieces.extent(layout).rollups.tiles(begin, until, below=width + 1):
        if length is not None:
            slices = pieces.slices(layout, length, *run)
            np.add.at(counts, (slices.starts - begin) // width, slices.events)
    return counts


def _counting(pieces: Pieces, pipeline: Pipeline) -> list[tuple[Layout, tuple[int, int]]]:
    """The summary that reaches back furthest of those that were always there, each of which counts
    all events of its time; where there is none, all that the pipeline has or had."""
    specs = {info.name: info.spec for info in pieces.view.pipelines()}
    spec = specs.get(pipeline.name, {})
    found = [
        (layout, bounds)
        for layout in all_layouts(pipeline, spec)
        if (bounds := pieces.extent(layout).bounds) is not None
    ]
    always = [each for each in found if each[0].name not in spec.get(AWAY, ())]
    return [min(always, key=lambda each: each[1][0])] if always else found


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
