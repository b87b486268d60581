"""Compile a pipeline's kernels before somebody waits: for workers, or for clients."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from muntin.kinds import SequentialSpec, SummarySpec
from muntin.spec import Pipeline
from muntin.summaries.items import hash_items

_TEXT = ("a", "b", "b")
_NUMBERS = (1, 2, 2)
_MANY = range(200)  # more values than a new index has room for


def warm(pipeline: Pipeline) -> None:
    """Run each summary once on made-up rows: update, merge, bytes of both kinds."""
    for spec in pipeline.summaries.values():
        if isinstance(spec, SequentialSpec):
            _warm_sequence(spec)
            continue
        few = _batch(spec, _TEXT, _NUMBERS)
        many = _batch(spec, (None, *map(str, _MANY)), (None, *_MANY))
        for batch in (few, many, _dictionary(few)):
            summary = spec.new()
            spec.update(summary, batch)
            whole = spec.merged([spec.read(summary.to_bytes()), summary])
            if (quick := spec.provisional(whole)) is not None:
                spec.merged([spec.read(quick), whole])


def _batch(
    spec: SummarySpec, texts: Sequence[str | None], numbers: Sequence[int | None]
) -> pa.RecordBatch:
    wanted = spec.text_columns()
    return pa.record_batch(
        {column: pa.array(texts if column in wanted else numbers) for column in spec.columns()}
    )


def _warm_sequence(spec: SequentialSpec) -> None:
    for values in (pa.array(_TEXT), pa.array(_NUMBERS)):
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
