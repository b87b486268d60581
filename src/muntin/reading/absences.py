"""What a summary has not counted that was not always part of its pipeline.

The clock is the pipeline's own counter of events: its ledger says from which count to which a
summary was away (`spec.AWAY`). What came then is in the summaries that were there, also in those
that were taken out since: what is stored of them stays.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from muntin.kinds import KINDS, SegmentSpec
from muntin.kinds.base import STORED
from muntin.reading.extent import Layout
from muntin.reading.pieces import Pieces
from muntin.reading.snapshot import Known
from muntin.select.catalog import Uncounted
from muntin.spec import AWAY, FORMER, Pipeline

TimeSpans = tuple[tuple[int, int], ...]
"""[from, to) of a pipeline's count of events, ascending, apart from each other."""
STILL = 1 << 63  # where an absence ends that has not
ALWAYS: TimeSpans = ((0, STILL),)


@dataclass(frozen=True, slots=True)
class Absence:
    """When a summary was away."""

    spans: TimeSpans
    until: int
    """Time of the newest event when it came: panes that begin after it hold all of theirs."""

    @property
    def events(self) -> int:
        """So many came meanwhile."""
        return sum(end - start for start, end in self.spans)

    def since(self, pane: int) -> int:
        """Start of the first pane that holds all of its events."""
        return (self.until // pane + 1) * pane


def absence(spec: Mapping[str, Any], name: str) -> Absence | None:
    """When a summary was away, as a stored spec tells; None: never."""
    found = spec.get(AWAY, {}).get(name)
    if found is None:
        return None
    spans = tuple((start, STILL if end is None else end) for start, end in found["counts"])
    return Absence(spans, found["until"])


def of_whole_stream(known: Known, name: str, pane: int) -> Uncounted | None:
    """What a summary of the whole stream lacks of it."""
    away = absence(known.info.spec, name)
    if away is None:
        return None
    return Uncounted(away.events, known.info.counted, away.since(pane))


def of_windows(
    pieces: Pieces, known: Known, layout: Layout, covered: tuple[int, int] | None
) -> int:
    """How many events of a time, of which closed windows are told, a summary lacks at most."""
    away = absence(known.info.spec, layout.name)
    if away is None or covered is None or covered[0] > away.until:
        return 0
    if not pieces.extent(layout).reach(*covered).whole:
        return away.events
    found = of_panes(pieces, known, layout, covered, pieces.events(layout, *covered))
    return found.events if found is not None else 0


def of_panes(
    pieces: Pieces, known: Known, layout: Layout, span: tuple[int, int] | None, own: int
) -> Uncounted | None:
    """What a summary lacks of a time, of which it has counted `own` events."""
    away = absence(known.info.spec, layout.name)
    if away is None or span is None or span[0] > away.until:
        return None
    found = sorted(_witnesses(pieces, known, layout, span, own, away.spans))
    bounds = [(away.events, True)]
    bounds += [(events, at_most) for events, at_most, of in found if not _less(away.spans, of)]
    added, any_at_most, left = 0, False, away.spans
    for events, at_most, of in found:
        apart = _less(left, of)
        if apart != left:
            any_at_most |= at_most or _less(of, left) != ()  # some of them were added before
            added, left = added + events, apart
    if not left:
        bounds.append((added, any_at_most))
    lacking, at_most = min(bounds)
    if not lacking:
        return None
    since = away.since(layout.pane)
    return Uncounted(lacking, own + lacking, since if since < span[1] else None, at_most)


def _witnesses(
    pieces: Pieces, known: Known, layout: Layout, span: tuple[int, int], own: int, away: TimeSpans
) -> Iterator[tuple[int, bool, TimeSpans]]:
    """What each other summary tells of a span: how many events of a part of an absence came there,
    whether that is too many, and which part."""
    for other in all_layouts(known.pipeline, known.info.spec):
        if other.name == layout.name:
            continue
        if not pieces.extent(other).reach(*span).whole:
            continue  # retention has dropped some
        events = pieces.events(other, *span)
        found = absence(known.info.spec, other.name)
        others = found.spans if found is not None else ()
        part = _less(away, others)
        if not _less(others, away):  # it was there whenever this one was
            yield max(0, events - own), False, part
        else:
            yield events, bool(_less(_less(ALWAYS, away), others)), part


def all_layouts(pipeline: Pipeline, spec: Mapping[str, Any]) -> Iterator[Layout]:
    """All summaries with panes that a pipeline has, or had, as its stored spec tells."""
    summaries: dict[str, Any] = dict(pipeline.summaries)
    for name, plain in spec.get(FORMER, {}).items():
        summaries.setdefault(name, KINDS[plain["kind"]].model_validate(plain, context=STORED))
    for name, each in summaries.items():
        if isinstance(each, SegmentSpec):
            yield Layout(name, each, pipeline.pane, pipeline.rungs)


def _less(some: TimeSpans, others: TimeSpans) -> TimeSpans:
    """What of some spans is in none of others."""
    left = some
    for start, end in others:
        left = tuple(
            part
            for low, high in left
            for part in ((low, min(high, start)), (max(low, end), high))
            if part[0] < part[1]
        )
    return left
