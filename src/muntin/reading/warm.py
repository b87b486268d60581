"""Compile a pipeline's kernels before somebody waits: for workers, or for clients."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from muntin.arrow import read_only
from muntin.kinds import PeriodicSpec, SegmentSpec, SummarySpec
from muntin.segments import WHOLE, decode, encode, merge
from muntin.segments.kernels import streams as kernels
from muntin.spec import Pipeline
from muntin.summaries.items import hash_items
from muntin.summaries.periodic_shard import SHARD_SEED, shards_of

_TEXT = ("a", "b", "b")
_NUMBERS = (1, 2, 2)
_MANY = range(200)  # more values than a new index has space for
_FULL = range(3_000)  # more values of one key than a sketch keeps


def warm(pipeline: Pipeline) -> None:
    """Run each summary once on made-up rows: fold, merge, bytes there and back.

    From the last one on: a pipeline that begins at the same time compiles for its first batch from
    the first one on, and two that are at the same kernel compile it in turn. What only sketches of
    many values need comes at the end: it takes longest, and is asked for last.
    """
    specs = [*reversed(pipeline.summaries.values())]
    for spec in specs:
        if isinstance(spec, PeriodicSpec):
            _warm_sequence(spec)
        elif isinstance(spec, SegmentSpec):
            _warm_segments(spec)
    plane, halves = np.zeros(2, np.uint8), np.empty(1, np.uint8)
    kernels.to_halves(plane, halves)  # which only some data are shorter by
    kernels.from_halves(read_only(halves), 2, plane)
    for spec in specs:
        if isinstance(spec, SegmentSpec):
            full = spec.segment(_batch(spec, ["a"] * len(_FULL), _FULL), np.arange(len(_FULL)) % 2)
            encode(merge([full, decode(encode(full))], WHOLE))


def _warm_segments(spec: SegmentSpec) -> None:
    few = _batch(spec, _TEXT, _NUMBERS)
    many = _batch(spec, (None, *map(str, _MANY)), (None, *_MANY))
    for batch in (few, many, _dictionary(few)):
        segment = spec.segment(batch, np.arange(batch.num_rows) % 4)
        again = decode(encode(segment))
        whole = merge([merge([segment, again]), segment.between(1, 3)], 2)
        encode(merge([whole, whole.between(0, 1)], WHOLE))
        merge([whole.between(0, 1)], WHOLE)  # rows that only move


def _batch(
    spec: SummarySpec, texts: Sequence[str | None], numbers: Sequence[int | None]
) -> pa.RecordBatch:
    wanted, sketches = spec.text_columns(), spec.sketch_columns()
    columns = {
        column: pa.array(texts if column in wanted else numbers) for column in spec.columns()
    }
    none = pa.nulls(len(numbers), pa.binary())
    return pa.record_batch(columns | dict.fromkeys(sketches, none))


def _warm_sequence(spec: PeriodicSpec) -> None:
    for values in (pa.array(_TEXT), pa.array(_NUMBERS)):
        items = spec.items(pa.record_batch(dict.fromkeys(spec.columns(), values)))[1:]
        hashes = hash_items(items, SHARD_SEED)  # of one item twice: they are of one shard
        shard = spec.new_shard(int(shards_of(hashes, spec.shards)[0]))
        shard.update(items, [1, 2], until=2, late_before=0)
        shard.whole()


def _dictionary(batch: pa.RecordBatch) -> pa.RecordBatch:
    arrays = [
        column.dictionary_encode() if pa.types.is_string(column.type) else column
        for column in batch.columns
    ]
    return pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)
