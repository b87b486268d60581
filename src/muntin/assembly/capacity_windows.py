"""How many bytes closed windows take, and what standing queries give for them: some are made.

A window is drawn as slices are (`capacity.py`), and its queries run on it. What else they read is
drawn as well: of a trend, or of other windows, nothing is there.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass

import pyarrow as pa

from muntin.assembly.standing import StandingQueries
from muntin.kinds import SegmentSpec
from muntin.ledger.records import PipelineInfo
from muntin.ledger.rules import dump
from muntin.ledger.schema import pack
from muntin.ledger.temporary import temporary
from muntin.reading.extent import Layout
from muntin.reading.liveness import Hearing
from muntin.reading.moment import LedgerMoment, loaded
from muntin.reading.pieces import Merged, SegmentCache
from muntin.reading.snapshot import Known, Snapshot
from muntin.reading.stored_results import Counted
from muntin.segments.table import Segment
from muntin.select.catalog import ForClause, KeyNames, LoadedWindow
from muntin.spec import Pipeline
from muntin.times import US_PER_SECOND, now_us

WINDOW_BYTES = 116  # its row and that of its closing, beside how full it was (as ledgers were
RESULT_BYTES, PAGES = 57, 1.08  # measured); a result's, beside its bytes, which pages do not fill

Draw = Callable[[str, int], tuple[Segment, float]]
"""Of a summary, and of so many microseconds: one slice of them, and how many times its size it has
where it is of more events than were drawn."""


@dataclass(frozen=True, slots=True)
class ClosedLine:
    """What the windows of one summary take, or the results of a standing query on them.

    `name`: of the summary, or of the query.
    `length_us`: of a window.
    `count`: how many are kept.
    `each_bytes`: of one of them.
    """

    name: str
    length_us: int
    count: int
    each_bytes: float

    @property
    def nbytes(self) -> int:
        return round(self.count * self.each_bytes)


def closed_lines(
    pipeline: Pipeline, rate: float, keys: Mapping[str, int], values: int, kept_us: int, draw: Draw
) -> Iterator[ClosedLine]:
    """Of each summary whose windows close, and of the queries on them, each in one revision.
    `rate`, `keys`, `kept_us`: see `capacity`. `values`: of columns that `keys` does not name."""
    kept = pipeline.retention.history or kept_us
    with closing(StandingQueries(pipeline, temporary())) as standing:
        for name, spec in pipeline.summaries.items():
            if not isinstance(spec, SegmentSpec) or spec.window is None:
                continue
            length = _length(pipeline, spec, rate, keys, values)
            if spec.window.kind == "floating":  # the next begins with the next event
                count = round(kept / (length + US_PER_SECOND / rate))
            else:
                filled = -math.expm1(-rate * length / US_PER_SECOND)
                count = round(kept / (spec.window.every or length) * filled)
            made, grown = draw(name, length)
            fill = len(dump(spec.fill(made), "fill of a window"))
            yield ClosedLine(name, length, count, WINDOW_BYTES + fill)
            layout = Layout(name, spec, pipeline.pane, pipeline.rungs)
            for query, followed in standing.follows.items():
                if followed == name and pipeline.queries[query].on == "window":
                    result = _result(pipeline, standing, query, layout, length, draw)
                    stored = len(pack(result)[2])
                    rows = pa.ipc.open_stream(result).read_all().num_rows
                    if rows in {len(table) for table in made.tables}:  # each key has one
                        stored = round(grown * stored)
                    yield ClosedLine(query, length, count, RESULT_BYTES + PAGES * stored)


def _result(
    pipeline: Pipeline,
    standing: StandingQueries,
    query: str,
    layout: Layout,
    length: int,
    draw: Draw,
) -> bytes:
    """What a query gives for a window."""
    start = now_us() // length * length
    info = PipelineInfo(pipeline.name)
    with temporary().snapshot() as view:
        known = Known(info, pipeline, (view.generation(), 0))
        snapshot = Snapshot(view.state(), {pipeline.name: known}, 0)
        moment = _Drawn(view, snapshot, SegmentCache(), Hearing(), start + length)
        moment.draw = draw
        whole = moment.merged(layout.name, length)
        return standing.run(query, moment, layout, start, start + length, whole)


def _length(
    pipeline: Pipeline, spec: SegmentSpec, rate: float, keys: Mapping[str, int], values: int
) -> int:
    """Of a window: a floating one closes before it has more rows of a key than it may."""
    assert spec.window is not None  # noqa: S101 (only those that have one are asked)
    length, most = spec.window.length, spec.window_capacity
    if spec.window.kind != "floating" or most is None:
        return length
    for by in getattr(spec, "keys", ()):
        there = math.prod(keys.get(column, values) for column in by)
        if most < there:
            filled = -there * math.log1p(-most / there) / rate * US_PER_SECOND
            length = min(length, max(int(filled // pipeline.pane), 1) * pipeline.pane)
    return length


class _Drawn(LedgerMoment):
    """Whatever is read of a summary is drawn."""

    draw: Draw

    def merged(self, summary: str, length: int) -> Merged:
        segment, _ = self.draw(summary, length)
        return Merged(segment, segment.count, 0, None)

    def load(self, summary: str, window: ForClause, keys: KeyNames | None = None) -> LoadedWindow:  # noqa: ARG002
        known, layout = self._find(summary)
        start, end = self._read(window)
        return loaded(
            known, layout, self.merged(summary, end - start),
            covered=(start, end), stored=(start, end), revision=0, notes=(), uncounted={},
        )  # fmt: skip

    def counted(self, summary: str, window: ForClause) -> Counted | None:
        start, end = self._read(window)
        return summary, start, end, self.merged(summary, end - start).events

    def _read(self, window: ForClause) -> tuple[int, int]:
        """That of the window at hand, where a clause names no other."""
        assert self.at_hand is not None  # noqa: S101 (a standing query runs on one)
        hand = self.at_hand[1]
        start, end = window.start_us or hand.start_us or 0, window.end_us or hand.end_us or 0
        return (end - window.length_us if window.length_us else start), end
