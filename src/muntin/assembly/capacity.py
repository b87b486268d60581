"""How many bytes and cores a pipeline will take: a few of its panes are made, and counted up.

Events are drawn at random: each text column has so many different values, all as frequent; whole
numbers are from 0 to 1000, floats all different. Data that repeat compress better, and data that do
not, worse.
"""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import pyarrow as pa

from muntin.assembly.capacity_windows import ClosedLine, closed_lines
from muntin.assembly.maintenance import shrinks
from muntin.errors import BadArgument
from muntin.kinds import FingerprintSpec, SegmentSpec
from muntin.kinds.base import SummarySpec
from muntin.segments.building import merge
from muntin.segments.codec import encode
from muntin.segments.table import Segment
from muntin.spec import Pipeline
from muntin.times import US_PER_SECOND

EVENTS_DRAWN_MAX = 400_000  # of one length; the rows of those beyond are worked out
SLICES_DRAWN = 16  # which share their texts, as those of one piece do
EVENTS_DRAWN = 2_000  # more slices, where these are of fewer: they share what a piece costs, too
VALUES = 1_000
LOOSE = 2  # slices as dear as a piece each: the newest, not merged yet (as ledgers were measured)
KEYS_DRAWN = 16  # at least, where there are as many


@dataclass(frozen=True, slots=True)
class Line:
    """What one summary takes, at one length of slices.

    `length_us`: of a slice: the pane, or a rollup's.
    `slices`: how many are kept that hold an event.
    `slice_bytes`: of one slice, compressed, with its share of what its piece costs.
    """

    summary: str
    length_us: int
    slices: int
    slice_bytes: float

    @property
    def nbytes(self) -> int:
        return round(self.slices * self.slice_bytes)


@dataclass(frozen=True, slots=True)
class Capacity:
    """What a pipeline will take.

    `closed`: windows, and what standing queries give for them.
    `window_bytes`: summary -> bytes in memory of one of its windows (or of a pane, where it has
      none).
    `fold_seconds`: of one core, for a second's events: what the workers do beside reading them.
    """

    lines: tuple[Line, ...]
    closed: tuple[ClosedLine, ...]
    window_bytes: Mapping[str, int]
    fold_seconds: float

    @property
    def ledger_bytes(self) -> int:
        return sum(line.nbytes for line in (*self.lines, *self.closed))


def capacity(pipeline: Pipeline, rate: float, keys: Mapping[str, int], kept_us: int) -> Capacity:
    """What a pipeline takes once it has run for as long as it keeps anything.

    `rate`: events a second.
    `keys`: column -> how many different values it has; where it is not there 1,000, but of floats
      no two alike.
    `kept_us`: microseconds for which what the retention does not name is kept.
    """
    rng = np.random.default_rng(0)
    keep = pipeline.retention
    lines, windows, seconds = [], {}, 0.0

    @cache
    def drawn(name: str, length: int) -> tuple[Segment, float]:
        spec, expected = pipeline.summaries[name], rate * length / US_PER_SECOND
        assert isinstance(spec, SegmentSpec)  # noqa: S101 (others have no windows)
        made, _, _, grown = _drawn(spec, expected / -math.expm1(-expected), keys, rng, 1)
        return made, grown

    for name, spec in pipeline.summaries.items():
        if not isinstance(spec, SegmentSpec):
            continue  # its memory is an entry of the file
        if spec.sketch_columns():
            raise BadArgument(
                f"{name}: merge: column takes sketches, which cannot be made up here: leave it out "
                "of the file whose capacity you ask"
            )
        window = spec.window.length if spec.window else pipeline.pane
        below = 0.0  # bytes of memory a microsecond, of what rollups are made of
        for length in (pipeline.pane, *pipeline.rungs):
            kept = (keep.panes if length == pipeline.pane else keep.rollups) or kept_us
            if length == pipeline.pane:
                kept = max(kept, window)  # what an open one reads stays
            expected = rate * length / US_PER_SECOND
            filled = -math.expm1(-expected)  # the share of slices in which an event falls
            slices = round(kept // length * filled)
            many = max(SLICES_DRAWN, round(EVENTS_DRAWN * filled / expected))
            made, took, events, grown = _drawn(spec, expected / filled, keys, rng, many)
            memory = grown * made.nbytes / (made.slices[-1] + 1) * filled / length
            is_rolled_up = length != pipeline.pane and keep.panes is None
            if is_rolled_up and not shrinks(below, memory):
                continue
            below = memory
            nbytes = grown * len(encode(made)) / (made.slices[-1] + 1)
            alone, _, _, grown = _drawn(spec, expected / filled, keys, rng, 1)
            loose = min(LOOSE, slices) / max(slices, 1)
            nbytes += loose * (grown * len(encode(alone)) - nbytes)
            lines.append(Line(name, length, slices, nbytes))
            if length == pipeline.pane:
                seconds += rate * took / max(events, 1)
        made, grown = drawn(name, window)
        windows[name] = round(grown * made.nbytes)
    closed = closed_lines(pipeline, rate, keys, VALUES, kept_us, drawn)
    return Capacity(tuple(lines), tuple(closed), windows, seconds)


def _drawn(
    spec: SegmentSpec, events: float, keys: Mapping[str, int], rng: np.random.Generator, most: int
) -> tuple[Segment, float, int, float]:
    """Some slices of so many events each; the seconds that they took, and their events; and how
    many times its size a slice has where it is of more events than were drawn."""
    drawn = max(1, min(round(events), EVENTS_DRAWN_MAX))
    count = int(np.clip(EVENTS_DRAWN_MAX // drawn, 1, most))
    of_drawn = _of_drawn(spec, keys, drawn / events)
    batch = _batch(spec, drawn * count, of_drawn, rng)
    spec.segment(batch.slice(0, 1), np.zeros(1, np.int64))  # kernels are compiled before the clock
    began = time.process_time()
    made = spec.segment(batch, np.repeat(np.arange(count), drawn))
    took = time.process_time() - began
    made = merge([made])
    return made, took, drawn * count, _growth(spec, made, keys, of_drawn, drawn, events)


def _of_drawn(spec: SegmentSpec, keys: Mapping[str, int], share: float) -> Mapping[str, int]:
    """Values of columns, where a share of the events is drawn: a row grows with its events, so that
    each key drawn has as many as it will have."""
    by = getattr(spec, "by", ())
    if share >= 1 or not by:
        return keys
    widest = max(by, key=lambda name: keys.get(name, VALUES))
    values = keys.get(widest, VALUES)
    return {**keys, widest: max(min(values, KEYS_DRAWN), round(values * share))}


def _growth(
    spec: SegmentSpec,
    made: Segment,
    keys: Mapping[str, int],
    of_drawn: Mapping[str, int],
    drawn: int,
    events: float,
) -> float:
    """How many times the rows of a slice of the `drawn` events those of all its events are."""
    if events <= drawn:
        return 1.0
    rows = {table.by: len(table) for table in made.tables if table.by}
    if isinstance(spec, FingerprintSpec):  # its one row grows with them
        rows = {(spec.key,): drawn}
    fewer = more = 0.0
    for by, there in rows.items():
        first, all_ = (
            -values * math.expm1(-each / values)
            for each, given in ((drawn, of_drawn), (events, keys))
            for values in [math.prod(given.get(name, VALUES) for name in by)]
        )
        found = min(there, first)
        fewer += found
        limited = found < 0.9 * first  # to some rows, or to the one of a sketch
        more += found if limited else min(all_, spec.keys_max or all_)
    return more / fewer if fewer else 1.0


def _batch(
    spec: SummarySpec, events: int, keys: Mapping[str, int], rng: np.random.Generator
) -> pa.RecordBatch:
    texts, floats = set(spec.text_columns()), set(_floats(spec))
    columns: dict[str, pa.Array] = {}
    for name in spec.columns():
        many = keys.get(name, VALUES)
        if name in floats and name not in keys:
            columns[name] = pa.array(rng.random(events) * VALUES)
            continue
        if name not in texts:
            columns[name] = pa.array(rng.integers(0, many, events))
            continue
        names = pa.array([f"{name}-{n}" for n in range(many)])
        columns[name] = names.take(pa.array(rng.integers(0, many, events)))
    return pa.record_batch(columns)


def missing(pipeline: Pipeline, keys: Mapping[str, int]) -> tuple[Sequence[str], Sequence[str]]:
    """Columns of text, and of floats, whose number of values nobody has given."""
    specs = [spec for spec in pipeline.summaries.values() if isinstance(spec, SegmentSpec)]
    texts = dict.fromkeys(name for spec in specs for name in spec.text_columns())
    floats = dict.fromkeys(name for spec in specs for name in _floats(spec))
    return [n for n in texts if n not in keys], [n for n in floats if n not in keys]


def _floats(spec: SummarySpec) -> Sequence[str]:
    return spec.float_columns() if getattr(spec, "type", None) != "int64" else ()
