"""A summary's windows or panes out of a ledger, each revision of them once."""

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from muntin.errors import BadArgument, UnknownName, did_you_mean, how_many, needs
from muntin.exporting.rows import Unit, batches, schema_of
from muntin.exporting.target import ABOUT, Overtaken, Target, done, told
from muntin.kinds import SegmentSpec
from muntin.ledger.base import Ledger
from muntin.reading.absences import absence
from muntin.reading.extent import Layout
from muntin.reading.pieces import Pieces, SegmentCache, pieces_of
from muntin.reading.snapshot import Known, Snapshot
from muntin.segments.building import merge, relabelled
from muntin.segments.exchange import check_exchanged
from muntin.times import instant_text

COMMIT_BYTES = 64 << 20  # of segments in memory, about, whose rows are committed together
PANES_READ = 256  # at once, however little they hold
WINDOWS_READ = 1_000
_LOG = logging.getLogger("muntin")

Done = Mapping[tuple[int, int], tuple[int, int]]
"""Start and revision of what a table has already; its end and its events."""


@dataclass(slots=True)
class Exported:
    """What an export did."""

    units: int = 0
    """Windows or panes, each revision of them."""
    rows: int = 0
    commits: int = 0
    waiting: int = 0
    """Windows to which late events came: they go out once their next revision is stored."""
    dropped: int = 0
    """Windows of which retention has dropped panes before they went out."""
    dropped_before: int | None = None
    """Retention has dropped windows or panes before this time, and not all of them were out."""
    lost: int = 0
    """Events of what is out and was dropped that no row has, such as those that came late to it
    before that, and after the last run: as far as what is stored tells."""
    lacking_before: int | None = None
    """What begins before this time may lack events: the summary was not there all the time."""

    def leave_out(self, summary: str, before: int) -> None:
        """Said before the next commit, after which no other run would find it."""
        if before != self.dropped_before:
            shown = instant_text(before)
            _LOG.warning(
                "%s before %s left out: retention dropped what was not out", summary, shown
            )
        self.dropped_before = before


def windows(
    ledger: Ledger, layout: Layout, known: Known, done: Done, said: Exported
) -> Iterator[list[Unit]]:
    """Closed windows in their newest revision, oldest first; one list is one commit."""
    after, window, gone = None, layout.spec.window, 0
    every = window and window.every  # of windows that lie apart: their length
    seen = dict(done)
    while True:
        group, size = [], 0
        with pieces_of(ledger, SegmentCache(0)) as pieces:
            found = pieces.view.windows(layout.name, start=after, limit=WINDOWS_READ)
            if gone != (gone := pieces.view.closings_dropped()):
                state = (pieces.view.assembler(known.info.name) or {}).get(layout.name, {})
                before = [w.end - (every or w.end - w.start) for w in found[:1]]
                # where nothing is said, it was of another pipeline, or summary
                dropped = min([state.get("history_dropped", 0), *before])
                _left(pieces, layout, dropped, seen, said)
                if not every:  # else an event may be in several
                    said.lost = _lost(pieces, layout, dropped, seen)
            for window in found:
                after = window.start + 1
                seen[window.start, window.revision] = window.end, window.events
                if _is_there(done, window.start, window.revision, window.end, window.events):
                    continue
                reach = pieces.extent(layout).reach(window.start, window.end)
                merged = pieces.merged_runs(layout, reach)
                if not reach.whole:
                    said.dropped += 1
                elif merged.events != window.events:
                    said.waiting += 1
                elif merged.segment is not None:
                    row = (window.start, window.end, window.revision, window.events, window.late)
                    group.append(Unit(merged.segment, np.array([row])))
                    size += merged.segment.nbytes
                if size > COMMIT_BYTES:
                    break
        if group:
            yield group
        if not found:
            return


def panes(
    ledger: Ledger, layout: Layout, sealed: int | None, done: Done, said: Exported
) -> Iterator[list[Unit]]:
    """Panes that end at `sealed` or before, oldest first, and again those that got late events."""
    with pieces_of(ledger, SegmentCache(0)) as pieces:
        _left(pieces, layout, pieces.extent(layout).dropped, done, said)
        said.lost = _lost(pieces, layout, pieces.extent(layout).dropped, done, layout.rungs)
        bounds = pieces.view.bounds(layout.name, layout.pane)
        if bounds is None or sealed is None:
            return
        starts = _panes(pieces, layout, bounds[0], sealed, done)[:, 0]
    group: list[Unit] = []
    while len(starts):
        start = int(starts[0])
        end = min(start + PANES_READ * layout.pane, sealed)
        starts = starts[np.searchsorted(starts, end) :]
        with pieces_of(ledger, SegmentCache(0)) as pieces:
            spans = _panes(pieces, layout, start, end, done)
            if start < (dropped := pieces.extent(layout).dropped or 0):  # it came before us
                said.leave_out(layout.name, dropped)
            if len(spans):
                whole = merge(pieces.segments(layout, layout.pane, start, end))
                at = np.searchsorted(whole.slices, spans[:, 0] // layout.pane)
                group.append(Unit(relabelled(whole, whole.slices[at], at), spans))
        if group and (not len(starts) or sum(u.segment.nbytes for u in group) > COMMIT_BYTES):
            yield group
            group = []


def _left(pieces: Pieces, layout: Layout, dropped: int | None, done: Done, said: Exported) -> None:
    """Say what retention has dropped before it was out: what rollups hold since where the table
    ends is not in it, or they do not tell."""
    extent = pieces.extent(layout)
    first = extent.bounds[0] if extent.bounds and not extent.since else 0
    out = max((end for end, _ in done.values()), default=first)
    if dropped is None or out >= dropped:
        return
    around = extent.around(out, dropped)
    if around is None or _events_out(_newest(done), around[1], None) != pieces.events(
        layout, *around[1:]
    ):
        said.leave_out(layout.name, dropped)


def _lost(
    pieces: Pieces, layout: Layout, dropped: int | None, done: Done, rungs: Sequence[int] = ()
) -> int:
    """How many more events are stored of what is out, and was dropped, than are out. `rungs`: of
    rollups, of which one tells where what is out may be cut."""
    newest = _newest(done)
    ends = [end for end, _ in newest.values() if dropped is not None and end <= dropped]
    if not ends:
        return 0
    first, last = min(newest), max(ends)
    spans = [(-(-first // length) * length, last // length * length) for length in rungs]
    for span in [(first, last), *spans]:
        if span[0] < span[1] and pieces.extent(layout).reach(*span).whole:
            return max(0, pieces.events(layout, *span) - _events_out(newest, *span))
    return 0


def _newest(done: Done) -> dict[int, tuple[int, int]]:
    """End and events of the newest revision of what starts then."""
    return {start: about for (start, _), about in sorted(done.items())}


def _events_out(newest: Mapping[int, tuple[int, int]], start: int, end: int | None) -> int:
    """Of what begins in [start, end)."""
    found = (n for at, (_, n) in newest.items() if start <= at and (end is None or at < end))
    return sum(found)


def _panes(pieces: Pieces, layout: Layout, start: int, end: int, done: Done) -> np.ndarray:
    """Those of [start, end) that are not out yet, see `Unit`; `end` is the end of a pane."""
    start = max(start, pieces.extent(layout).dropped or start)  # before, late events at most
    there = pieces.slices(layout, layout.pane, start, end - layout.pane + 1)
    columns = (there.starts, there.starts + layout.pane, there.late, there.events, there.late)
    spans = np.stack(columns, axis=1)
    new = [
        not _is_there(done, at, late, end, events) for at, end, late, events, _ in spans.tolist()
    ]
    return spans[np.array(new, bool)]


def _is_there(done: Done, start: int, revision: int, end: int, events: int) -> bool:
    """Whether it is out already. Raises BadArgument: with other events, or another end: the table
    holds what another run has counted."""
    found = done.get((start, revision))
    if found is None:
        return False
    there, counted = found
    if found != (end, events):
        raise BadArgument(
            f"what starts at {instant_text(start)} is in the table until {instant_text(there)} "
            f"with {how_many(counted, 'event')}, and in the ledger until {instant_text(end)} "
            f"with {events:,}: the pipeline was reset, or it is another one's table; export into "
            "another place"
        )
    return True


Form = Literal["parquet", "delta", "iceberg"]
TRIES = 5


def export(
    ledger: Ledger,
    summary: str,
    to: Form,
    place: str,
    *,
    of: Literal["windows", "panes"] = "windows",
    catalog: str = "default",
) -> Exported:
    """Append what a table does not have yet of a summary's closed windows, or sealed panes.

    Each revision of a window goes out once, and so does each pane, and again when late events have
    come to it (its `revision` says how many). What was interrupted, or ran twice at once, has
    written whole windows and panes, none of them twice.

    Parameters
    ----------
    summary : str
        Of kind quantiles or distinct.
    to : {"parquet", "delta", "iceberg"}
        The last two need muntin[export].
    place : str
        A folder; a folder or URL of a Delta Lake table; or "namespace.table" of an Iceberg catalog.
    catalog : str
        Of Iceberg, by PyIceberg's name for it.

    Returns
    -------
    Exported

    Raises
    ------
    UnknownName
        No such summary.
    BadArgument
        A kind that DataSketches has no sketch of, or a table that holds something else: of another
        summary, panes where windows are to go out, or another ledger's. Or a summary without
        windows.
    MissingExtra
        A package is missing that this form needs.
    SourceError
        The place, or the catalog, cannot be reached, read or written.

    Examples
    --------
    >>> import muntin
    >>> from muntin.exporting import export
    >>> with muntin.open("sqlite:///flights.db") as session:  # doctest: +SKIP
    ...     export(session.ledger, "delays", "parquet", "delays_sketches")
    """
    if of not in ("windows", "panes"):
        raise BadArgument(f"of={of!r}: give windows or panes")
    layout, known = _of(ledger, summary)
    away = absence(known.info.spec, summary)
    check_exchanged(layout.spec.algebra())
    if of == "windows" and layout.spec.window is None and not ledger.windows(summary, limit=1):
        raise BadArgument(
            f"{summary} has no windows that close: give it one in the pipeline file, or export its "
            'panes by of="panes" (--panes)'
        )
    stored = {"kind": layout.spec.kind, **layout.spec.stored_as()}
    about = {"of": of, "summary": summary, "pipeline": known.info.name, **stored}
    if not place:
        raise BadArgument("place='': name a folder, or a table")
    with told(place):
        target = _target(to, place, catalog)
    said = Exported(lacking_before=None if away is None else away.since(layout.pane))
    for _ in range(TRIES):
        said.waiting, said.dropped, said.dropped_before, said.lost = 0, 0, None, 0
        with told(place):
            there = done(target)
        _check_same(target, about, place, empty=not there)
        if of == "windows":
            groups = windows(ledger, layout, known, there, said)
        else:
            watermark = known.info.watermark
            sealed = None if watermark is None else watermark // layout.pane * layout.pane
            groups = panes(ledger, layout, sealed, there, said)
        with suppress(Overtaken):
            _append(target, place, layout, groups, said, about)
            return said
    raise BadArgument(
        f"{place}: other exports wrote into it {TRIES} times while this one tried: let one be done "
        "before the next"
    )


def _check_same(target: Target, about: Mapping[str, Any], place: str, *, empty: bool) -> None:
    """A table holds the windows, or the panes, of one summary of one pipeline."""
    said = target.about()
    if said is None and empty:
        return
    there: Any = None
    with suppress(ValueError):
        there = json.loads(said or "")
    if there == about:
        return
    what = "rows that do not say of what they are"
    if isinstance(there, dict) and {"of", "summary"} <= there.keys():
        other = {name for name in (*there, *about) if there.get(name) != about.get(name)}
        more = ", ".join(f"{name} {there[name]}" for name in there if name in other - {"of"})
        what = f"{there['of']} of {there['summary']}" + (f" ({more})" if more else "")
    raise BadArgument(
        f"{place} holds {what}, and {about['of']} of {about['summary']} are to go into it: export "
        "into another place"
    )


def _append(
    target: Target,
    place: str,
    layout: Layout,
    groups: Iterator[list[Unit]],
    said: Exported,
    about: Mapping[str, Any],
) -> None:
    schema, by = target.schema(), [*chain.from_iterable(layout.spec.tables())]
    metadata = {ABOUT: json.dumps(about)}
    for units in groups:
        segments = [unit.segment for unit in units]
        own = schema_of(by, segments)
        schema = (own if schema is None else _united(schema, own)).with_metadata(metadata)
        found = chain.from_iterable(batches(unit, schema) for unit in units)
        rows = pa.RecordBatchReader.from_batches(schema, found)
        with told(place):
            target.append(rows)
        said.commits += 1
        said.units += sum(len(unit.spans) for unit in units)
        said.rows += sum(segment.rows for segment in segments)


def _united(there: pa.Schema, own: pa.Schema) -> pa.Schema:
    """The table's own columns, where these rows fit it."""
    if there.names != own.names:
        raise BadArgument(
            f"the table has columns {', '.join(there.names)}, and {', '.join(own.names)} are to go "
            "into it: export into another place"
        )
    return pa.schema([own.field(name).with_type(there.field(name).type) for name in own.names])


def _of(ledger: Ledger, summary: str) -> tuple[Layout, Known]:
    """How a summary lies in the ledger, and its pipeline."""
    with ledger.snapshot() as view:
        pipelines = Snapshot.read(view, None).pipelines
    names = []
    for known in pipelines.values():
        pipeline = known.pipeline
        names += pipeline.summaries
        spec = pipeline.summaries.get(summary)
        if isinstance(spec, SegmentSpec):
            return Layout(summary, spec, pipeline.pane, pipeline.rungs), known
        if spec is not None:
            raise BadArgument(
                f"{summary} is of kind {spec.kind}, which follows the whole stream: quantiles and "
                "distinct can be exported"
            )
    if any(summary in known.pipeline.queries for known in pipelines.values()):
        raise UnknownName(
            f"{summary} is a standing query, and no summary: muntin query writes trend({summary})"
        )
    raise UnknownName(f"no summary '{summary}' in this ledger; {did_you_mean(summary, names)}")


def _target(to: Form, place: str, catalog: str) -> Target:
    if to == "parquet":
        from muntin.exporting.parquet import ParquetFolder

        return ParquetFolder(place)
    if to == "delta":
        needs("export", "export to Delta Lake", "deltalake")
        from muntin.exporting.delta import DeltaLake

        return DeltaLake(place)
    if to == "iceberg":
        needs("export", "export to Iceberg", "pyiceberg")
        from muntin.exporting.iceberg import Iceberg

        return Iceberg(place, catalog)
    raise BadArgument(f"to={to!r}: give parquet, delta or iceberg")
