"""Compile a pipeline's kernels before somebody waits: for workers, or for clients."""

from __future__ import annotations

import pyarrow as pa

from muntin.kinds import SequentialSpec
from muntin.spec import Pipeline
from muntin.summaries.items import hash_items

_TEXT = ("a", "b", "b")


def warm(pipeline: Pipeline) -> None:
    """Run each summary once on three made-up rows: update, merge, bytes of both kinds."""
    for spec in pipeline.summaries.values():
        if isinstance(spec, SequentialSpec):
            _warm_sequence(spec)
            continue
        texts = spec.text_columns()
        batch = pa.record_batch(
            {column: pa.array(_TEXT if column in texts else [1, 2, 2]) for column in spec.columns()}
        )
        for encoded in (batch, _dictionary(batch)):
            summary = spec.new()
            spec.update(summary, encoded)
            whole = spec.merged([spec.read(summary.to_bytes()), summary])
            if (quick := spec.provisional(whole)) is not None:
                spec.merged([spec.read(quick), whole])


def _warm_sequence(spec: SequentialSpec) -> None:
    for values in (pa.array(_TEXT), pa.array([1, 2, 2])):
        items = spec.items(pa.record_batch(dict.fromkeys(spec.columns(), values)))
        hash_items(items)
        shard = spec.new_shard(0)
        shard.update(items, [1, 2, 3], until=3, late_before=0)
        spec.answering([shard])


def _dictionary(batch: pa.RecordBatch) -> pa.RecordBatch:
    arrays = [
        column.dictionary_encode() if pa.types.is_string(column.type) else column
        for column in batch.columns
    ]
    return pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)
