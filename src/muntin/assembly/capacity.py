"""How many bytes and cores a pipeline will take: a few of its panes are made, and counted up.

Events are drawn at random: each text column has so many different values, all as frequent; whole
numbers are from 0 to 1000, floats all different. Data that repeat compress better, and data that do
not, worse.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from muntin.errors import BadArgument
from muntin.kinds import SegmentSpec
from muntin.kinds.base import SummarySpec
from muntin.segments.building import merge
from muntin.segments.codec import encode
from muntin.segments.table import Segment
from muntin.spec import Pipeline
from muntin.times import US_PER_SECOND

EVENTS_DRAWN_MAX = 400_000  # of one length; longer slices are taken to hold no more keys than these
SLICES_DRAWN_MAX = 16  # which share their texts, as those of one piece do
VALUES = 1_000


@dataclass(frozen=True, slots=True)
class Line:
    """What one summary takes, at one length of slices.

    `length_us`: of a slice: the pane, or a rollup's.
    `slices`: how many are kept.
    `slice_bytes`: of one slice, compressed.
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

    `window_bytes`: summary -> bytes in memory of one of its windows (or of a pane, where it has
      none).
    `fold_seconds`: of one core, for a second's events: what the workers do beside reading them.
    """

    lines: tuple[Line, ...]
    window_bytes: Mapping[str, int]
    fold_seconds: float

    @property
    def ledger_bytes(self) -> int:
        return sum(line.nbytes for line in self.lines)


def capacity(pipeline: Pipeline, rate: float, keys: Mapping[str, int], kept_us: int) -> Capacity:
    """What a pipeline takes once it has run for as long as it keeps anything.

    `rate`: events a second.
    `keys`: column -> how many different values it has; where it is not there 1,000, but of floats
      no two alike.
    `kept_us`: microseconds for which panes and rollups are kept that the retention does not name.
    """
    rng = np.random.default_rng(0)
    keep = pipeline.retention
    lines, windows, seconds = [], {}, 0.0
    for name, spec in pipeline.summaries.items():
        if not isinstance(spec, SegmentSpec):
            continue  # its memory is an entry of the file
        if spec.sketch_columns():
            raise BadArgument(
                f"{name}: merge: column takes sketches, which cannot be made up here: leave it out "
                "of the file whose capacity you ask"
            )
        for length in (pipeline.pane, *pipeline.rungs):
            kept = (keep.panes if length == pipeline.pane else keep.rollups) or kept_us
            made, took, events = _drawn(spec, rate * length / US_PER_SECOND, keys, rng)
            count = made.slices[-1] + 1
            lines.append(Line(name, length, kept // length, len(encode(made)) / count))
            if length == pipeline.pane:
                seconds += rate * took / max(events, 1)
        window = spec.window.length if spec.window else pipeline.pane
        made, _, _ = _drawn(spec, rate * window / US_PER_SECOND, keys, rng, most=1)
        windows[name] = made.nbytes
    return Capacity(tuple(lines), windows, seconds)


def _drawn(
    spec: SegmentSpec,
    events: float,
    keys: Mapping[str, int],
    rng: np.random.Generator,
    most: int = SLICES_DRAWN_MAX,
) -> tuple[Segment, float, int]:
    """Some slices of so many events each; the seconds that they took, and their events."""
    events = max(1, min(round(events), EVENTS_DRAWN_MAX))
    count = int(np.clip(EVENTS_DRAWN_MAX // events, 1, most))
    batch = _batch(spec, events * count, keys, rng)
    spec.segment(batch.slice(0, 1), np.zeros(1, np.int64))  # kernels are compiled before the clock
    began = time.process_time()
    made = spec.segment(batch, np.repeat(np.arange(count), events))
    took = time.process_time() - began
    return merge([made]), took, events * count


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
