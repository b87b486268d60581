"""What has been sealed in a site's own ledger since one last looked, as units. Never Spark."""

from collections.abc import Callable
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa

from muntin.arrow import pc
from muntin.errors import BadArgument, did_you_mean
from muntin.kinds import SegmentSpec
from muntin.ledger.base import Ledger
from muntin.ledger.records import PipelineInfo
from muntin.reading.absences import absence
from muntin.reading.extent import Layout
from muntin.reading.pieces import Pieces, SegmentCache, pieces_of
from muntin.segments.sums import key_rows
from muntin.sites.objects import ranked
from muntin.spec import Pipeline
from muntin.spec_sites import SiteSpec
from muntin.times import instant_text
from muntin.topk import Object

CATCH_UP_UNITS_MAX = 256  # a site that is further behind takes part anew, with all of the window
CACHE_BYTES = 32 << 20  # units are read once by each site, so little is gained by keeping them
_caches: WeakKeyDictionary[Ledger, SegmentCache] = WeakKeyDictionary()  # its sites read alike
Read = tuple[list[Object], np.ndarray]
Stopped = Callable[[], bool]


@dataclass(frozen=True, slots=True)
class News:
    """Up to which unit the window may move, and the units that are new or have changed. `anew`:
    they are all of the window, and what was known before is void."""

    to: int
    units: dict[int, Read] = field(default_factory=dict)
    anew: bool = False


class PaneReader:
    """Reads sealed panes of one summary. Used by one thread at a time.

    A unit is sealed when the watermark has passed its end. What comes late for a sealed unit
    counts when it is committed, as a correction.

    `clock`: seconds, never going back; only asked where the spec has `idle`.
    """

    def __init__(
        self, ledger: Ledger, pipeline: Pipeline, spec: SiteSpec, clock: Callable[[], float]
    ) -> None:
        self._ledger = ledger
        self._pipeline = pipeline.name
        self._spec = spec
        summary = pipeline.summaries[spec.summary]
        assert isinstance(summary, SegmentSpec)  # noqa: S101 (the spec of sites has checked it)
        self._layout = Layout(spec.summary, summary, pipeline.pane, pipeline.rungs)
        stored = next(k for k in summary.asked()["keys"] if sorted(k) == sorted(spec.stored_key))
        self._key = stored
        self._cache = _caches.setdefault(ledger, SegmentCache(CACHE_BYTES))
        self._clock = clock
        self._generation: tuple[int, int] | None = None
        self._newest: int | None = None
        self._sealed = 0  # the newest unit that was, when it was read; the clock may be ahead
        self._late = 0
        self._events: dict[int, int] = {}  # of each unit in the window that holds any
        self._watermark: int | None = None
        self._moved_at = 0.0
        self.doubt: str | None = None
        """Why it may be that nothing is this site's; "" where something was, None before."""

    def look(self, stopped: Stopped = lambda: False) -> News | None:
        """What is new; None where nothing is, or nothing was ever sealed. Raises LedgerError: the
        ledger cannot be read; the next look goes on where this one began; BadArgument: sums that
        cannot be ranked, or that lack events: the key, the indicator or the summary was added
        later, and the window reaches further back."""
        with pieces_of(self._ledger, self._cache) as pieces:
            return self._look(pieces, stopped)

    def _look(self, pieces: Pieces, stopped: Stopped) -> News | None:
        """All of one moment: a batch in between may take the watermark far on, and panes away."""
        info = pieces.view.pipeline(self._pipeline)
        if info is None or info.watermark is None:
            return None
        sealed = info.watermark // self._spec.unit - 1  # the newest whose panes all are
        to = self._with_the_clock(info, sealed)
        generation = pieces.view.generation(), info.epoch
        anew = self._generation != generation or self._newest is None
        if not anew and self._newest is not None:
            to = max(to, self._newest)
            anew = to - self._newest > min(self._spec.units, CATCH_UP_UNITS_MAX)
            if to == self._newest == self._sealed and info.late == self._late:
                return None
        units = self._changed(pieces, info, to, anew, stopped)
        if units is not None:
            self._sealed = sealed
        if units is None or not (units or anew or to != self._newest):
            return None
        self._generation, self._newest, self._late = generation, to, info.late
        return News(to, units, anew)

    def _changed(
        self, pieces: Pieces, info: PipelineInfo, to: int, anew: bool, stopped: Stopped
    ) -> dict[int, Read] | None:
        """Units to read, read; None if it was stopped in between."""
        spec = self._spec
        known = {} if anew else self._events
        oldest = to - spec.units + 1
        first = oldest
        if not anew and info.late == self._late:  # no unit that was sealed has changed
            first = max(first, self._sealed + 1)
        units: dict[int, Read] = {}
        start, end = first * spec.unit, (to + 1) * spec.unit
        away = absence(info.spec, spec.summary)
        if away is not None and oldest * spec.unit < away.since(self._layout.pane):
            raise _lacks(spec.summary, away.since(self._layout.pane))
        slices = pieces.slices(self._layout, self._layout.pane, start, end).at_length(spec.unit)
        numbers, counts = (slices.starts // spec.unit).tolist(), slices.events.tolist()
        events = dict(zip(numbers, counts, strict=True))
        for unit, count in events.items():
            if known.get(unit) == count:
                continue
            if stopped():
                return None
            units[unit] = self._read(pieces, unit)
        kept = {unit: count for unit, count in known.items() if oldest <= unit < first}
        self._events = kept | events
        return units

    def _read(self, pieces: Pieces, unit: int) -> Read:
        spec = self._spec
        start = unit * spec.unit
        reach = pieces.extent(self._layout).reach(start, start + spec.unit)
        segment = pieces.merged_runs(self._layout, reach, (self._key,)).segment
        assert segment is not None  # noqa: S101 (the unit holds events)
        lacking = self._layout.spec.lacking(segment, (self._key,))
        found = segment.table(self._key)
        if found is None or self._key in lacking:
            raise _lacks(", ".join(self._key), start + spec.unit)
        if spec.value in lacking:
            raise _lacks(spec.value, start + spec.unit)
        if spec.site_column:  # before its sums: another site's may be beyond their type
            column = found.key_arrays()[found.by.index(spec.site_column)].cast(pa.string())
            belongs = pc.equal(column, spec.site_values[spec.site]).fill_null(False)
            found = found.rows_at(np.flatnonzero(belongs))
            if len(found.events):
                self.doubt = ""
            elif self.doubt is None and len(column):
                there = ["null" if v is None else v for v in pc.unique(column).to_pylist()]
                name, value = spec.site_column, spec.site_values[spec.site]
                self.doubt = f"no event so far has {name} '{value}'; {did_you_mean(value, there)}"
        table = key_rows(segment.algebra, found, (spec.value,))
        return ranked(table, spec.key, spec.value, spec.scale)

    def _with_the_clock(self, info: PipelineInfo, sealed: int) -> int:
        """The unit that the window moves to."""
        spec = self._spec
        if spec.idle is None:
            return sealed
        now = self._clock()
        if info.watermark != self._watermark:
            self._watermark, self._moved_at = info.watermark, now
        quiet = now - self._moved_at - spec.idle / 1e6
        further = int(quiet / spec.clock_unit_seconds) + 1 if quiet > 0 else 0
        return sealed + further


def _lacks(part: str, until: int) -> BadArgument:
    return BadArgument(
        f"{part} was added later and lacks events before {instant_text(until)}, which are in the "
        "window: this site takes part once the window begins after that"
    )
