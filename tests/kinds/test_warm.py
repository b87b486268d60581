"""After the made-up rows of `warm`, real ones find every kernel compiled."""

import sys

import numpy as np
import pyarrow as pa
import pytest

from muntin.reading.warm import warm
from muntin.segments import WHOLE, decode, encode, merge
from muntin.spec import Pipeline

SUMMARIES = {
    "matrix": {"keys": ["origin", "dest", ["origin", "dest"]], "indicators": ["delay", "seats"]},
    "quantiles by": {"kind": "quantiles", "value": "delay", "by": "origin"},
    "frequency": {"kind": "frequency", "item": "dest", "weight": "seats"},
    "top_k": {"kind": "top_k", "item": "dest", "capacity": 50},
    "distinct": {"kind": "distinct", "item": "dest", "by": "origin"},
}


def compiled():
    """Every kernel with every signature for which this process has it."""
    return {
        (name, called, str(signature))
        for name, module in list(sys.modules.items())
        if name.startswith(("muntin.summaries.kernels.", "muntin.segments.kernels."))
        for called, kernel in vars(module).items()
        if hasattr(kernel, "py_func")
        for signature in kernel.signatures
    }


def received(batch):
    """The batch as a Python worker gets it from Spark: in memory that cannot be written."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return pa.ipc.open_stream(sink.getvalue()).read_next_batch()


def events(n, *, nulls):
    rng = np.random.default_rng(n)
    numbers = rng.integers(0, 700, (4, n))
    absent = (np.arange(n) % 7 == 3) & nulls
    return pa.record_batch(
        {
            "origin": pa.array([f"o{i % 5}" for i in numbers[0]], mask=absent),
            "dest": pa.array([f"a rather long name, {i}" for i in numbers[1]]),
            "delay": pa.array(numbers[2], mask=absent),
            "seats": pa.array(numbers[3]),
        }
    )


@pytest.mark.parametrize("entry", SUMMARIES.values(), ids=SUMMARIES)
def test_real_rows_compile_nothing(entry):
    pipeline = Pipeline.of(
        {"name": "p", "time": "time", "pane": "10 seconds", "summaries": {"s": entry}}
    )
    spec = pipeline.summaries["s"]
    warm(pipeline)
    before = compiled()
    assert before
    for n in (40, 800, 3000):  # the last is too many to be sorted at once
        for nulls in (False, True) if entry is SUMMARIES["matrix"] else (False,):
            batch = events(n, nulls=nulls)
            panes = np.arange(n) // (100 if n < 1000 else 5000)  # many of a key, too
            parts = [spec.segment(rows, panes) for rows in (batch, received(batch))]
            parts.append(spec.segment(batch.slice(5), panes[5:]))
            whole = merge([decode(encode(merge(parts))), *parts])
            encode(merge([whole], WHOLE))
            encode(merge([whole], 3))
    assert compiled() == before
