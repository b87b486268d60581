"""What stored results of a standing query, and closed windows, do not show themselves.

A result is as true as it was when it was stored. A late event makes a new one, unless the query,
or its summary, had been taken out by then; and another statement of the same name leaves those of
before as they are.
"""

import json
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.arrow import pc
from muntin.errors import how_many
from muntin.reading import absences
from muntin.reading.extent import Layout
from muntin.reading.pieces import Pieces
from muntin.reading.results import Results
from muntin.reading.snapshot import Known
from muntin.reading.stored_results import EXACT, digest
from muntin.select.catalog import LoadedTable, Note
from muntin.select.result import WindowRead


def overtaken(
    pieces: Pieces, known: Known, query: str, results: Results, span: tuple[int | None, int | None]
) -> tuple[dict[str, Any], tuple[Note, ...]]:
    """Bounds and notes on results of which some are not what they would be now. `span`: starts of
    the windows that were asked for."""
    about = results.about
    read = about.filter(about["said"].is_valid())  # of those that did not fail
    if not len(read):
        return {}, ()
    bounds: dict[str, Any] = {}
    notes: list[Note] = []
    mine = digest(known.pipeline.queries[query].select)
    is_mine = pc.equal(about["of"].cast(pa.binary()), mine)
    if other := pc.sum(pc.invert(is_mine)).as_py():
        said = f"{other:,} of {len(about):,} are of an earlier statement"
        notes.append(_note(query, said))
    summaries = known.pipeline.summaries
    sources = [each["source"] for each in json.loads(read["windows"][-1].as_py())]
    sources = [name for name in sources if name in summaries]
    followed = next((name for name in sources if summaries[name].window is not None), None)
    if followed is not None:
        old, none = pieces.view.unanswered(query, followed, *span)
        if old:
            notes.append(_note(query, f"{old:,} lack late events, which came while it was away"))
        if none:
            notes.append(_note(query, f"{none:,} are missing: windows that closed without it"))
    if behind := _behind(pieces, known, about["counted"].filter(is_mine).drop_null()):
        lack = "lack late events in panes that they read, of which no revision tells"
        notes.append(_note(query, f"{behind:,} {lack}"))
    for name in dict.fromkeys(sources):
        lacking = _lacking(pieces, known, name, read)
        if lacking:
            bounds.setdefault("uncounted", {})[name] = lacking
            lack = how_many(lacking, "event")
            said = f"{query}: {name} was not there all the time: they lack at most {lack}"
            notes.append(Note("uncounted", query, said))
    return bounds, tuple(notes)


def unrevised(pieces: Pieces, layout: Layout, windows: LoadedTable) -> tuple[Note, ...]:
    """What to say of closed windows whose summary has none any more: nothing revises them."""
    if layout.spec.window is not None or windows.covered is None:
        return ()
    starts, ends = (
        windows.table[name].cast(pa.int64()).to_numpy() for name in ("window_start", "window_end")
    )
    now = pieces.slices(layout, layout.pane, *windows.covered).counts(starts, ends)
    gone = pieces.extent(layout).dropped
    unknown = starts < (starts[0] if gone is None else gone)
    behind = int(((now > windows.table["events"].to_numpy()) | unknown).sum())
    if not behind:
        return ()
    said = f"it has no windows any more, and {behind:,} of these may lack late events"
    return (Note("outdated", layout.name, f"{layout.name}: {said}"),)


def _behind(pieces: Pieces, known: Known, counted: pa.ChunkedArray) -> int:
    """Of how many results the panes that they read hold more events now. Where retention has
    dropped some of these panes, and rollups do not hold them, nobody can tell."""
    read: dict[str, list[tuple[int, int, int, int]]] = {}
    for number, each in enumerate(_parsed(counted)):
        for source, start, end, events in each:
            read.setdefault(source, []).append((number, start, end, events))
    behind: set[int] = set()
    for source, counted in read.items():
        spec: Any = known.pipeline.summaries[source]
        layout = Layout(source, spec, known.pipeline.pane, known.pipeline.rungs)
        extent = pieces.extent(layout)
        numbers, starts, ends, events = np.array(counted, np.int64).T
        dropped = extent.dropped or 0
        panes = pieces.slices(layout, layout.pane, max(int(starts.min()), dropped), int(ends.max()))
        now = panes.counts(np.maximum(starts, dropped), ends)
        across = (starts < dropped) & (dropped <= ends)
        for start in np.unique(starts[across]).tolist():
            if extent.reach(start, dropped).whole:
                now[across & (starts == start)] += pieces.events(layout, start, dropped)
        behind.update(numbers[now > events].tolist())
    return len(behind)


def _lacking(pieces: Pieces, known: Known, name: str, results: pa.Table) -> int:
    """Events that came to what exact results cover while their summary was away, at most."""
    spec: Any = known.pipeline.summaries[name]
    if spec.sequential or absences.absence(known.info.spec, name) is None:
        return 0
    exact = pc.starts_with(results["said"].cast(pa.binary()), EXACT)
    covered = [
        window.covered
        for said in _parsed(results["windows"].filter(exact))
        for window in map(WindowRead.of, said)
        if window.source == name and window.covered is not None
    ]
    if not covered:
        return 0
    span = min(start for start, _ in covered), max(end for _, end in covered)
    pipeline = known.pipeline
    layout = Layout(name, spec, pipeline.pane, pipeline.rungs)
    return absences.of_windows(pieces, known, layout, span)


def _parsed(texts: pa.ChunkedArray) -> list[Any]:
    return json.loads(b"[" + b",".join(texts.to_pylist()) + b"]")


def _note(query: str, said: str) -> Note:
    return Note("outdated", query, f"{query}: of its results, {said}")
