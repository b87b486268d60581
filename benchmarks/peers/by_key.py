"""Quantiles of each of many keys beside sketches made for that: error at equal bytes, speed.

    python benchmarks/peers/by_key.py [--short] [--keep] [--check]

M4 (ICDE 2024, over DDSketch) and MagnifierSketch (arXiv 2511.22070), which no package has, are
rebuilt in C (rebuilt/sketches.c) with their authors' parameters. Both know no keys by name and have
fixed memory; a Magnifier knows one quantile, and has all of the memory for it. Ours is one segment
with a row a key: all keys, by name, each exact up to k values; with `type: float32` its values take
half the bytes, and k = 40 fewer than k = 16 of doubles. The error is the mean over the keys
with a thousandth of the events or more, of ranks in percent; keys without an answer are counted.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from rebuilt import Rebuilt

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from _record import Table, compared, main

from muntin.segments import build, encode
from muntin.segments.quantiles import Quantiles
from muntin.segments.ranked import QuantilesAt
from muntin.summaries.items import hash_items

SHARES = (0.5, 0.99)
KEYS = 5_000
FEW, FEW_FLOATS = 16, 40  # k
Asked = Callable[[np.ndarray, float], np.ndarray]


class Stream:
    """Keys of a Zipf distribution, values log-normal around a scale of each key's own."""

    def __init__(self, events: int) -> None:
        rng = np.random.default_rng(0)
        scale = rng.lognormal(3, 1.5, KEYS)
        rank = np.minimum(rng.zipf(1.15, events) - 1, KEYS - 1)
        self.values = scale[rank] * rng.lognormal(0, 1, events)
        names = pa.array([f"key-{i:05d}" for i in range(KEYS)])
        self.names = names.take(pa.array(rank))
        self.column = pa.array(self.values)
        counts = np.bincount(rank, minlength=KEYS)
        self.heavy = np.flatnonzero(counts >= events // 1_000).astype(np.uint64)
        self.hashes = hash_items(names.take(pa.array(self.heavy)), 0)
        order = np.lexsort((self.values, rank))
        ends = np.cumsum(counts)
        ordered = self.values[order]
        self.of_key = [ordered[ends[k] - counts[k] : ends[k]] for k in self.heavy]

    def error(self, answers: np.ndarray, share: float) -> tuple[float, int]:
        off = []
        for answer, values in zip(answers, self.of_key, strict=True):
            low, high = (np.searchsorted(values, answer, side) for side in ("left", "right"))
            off.append(max(0.0, low / len(values) - share, share - high / len(values)))
        known = ~np.isnan(answers)
        return 100 * float(np.mean(np.array(off)[known])), int(np.sum(~known))


def ours(stream: Stream, k: int, dtype: str = "float64") -> Any:
    columns = {"key": stream.names, "x": stream.column}
    slices = np.zeros(len(stream.names), np.int64)
    return build(Quantiles(k, dtype=dtype), slices, [columns["x"]], [("key",)], columns)


def answers_of(segment: Any, heavy: np.ndarray, share: float) -> np.ndarray:
    table = segment.tables[0]
    found = segment.algebra.answer(table, QuantilesAt((share,)))
    names = table.keys.columns[0].take(pa.array(table.key)).to_pylist()
    by_name = dict(zip((names[row] for row in found["row"].to_pylist()),
                       found["value"].to_pylist(), strict=True))  # fmt: skip
    return np.array([by_name[f"key-{key:05d}"] for key in heavy.tolist()])


def of_m4(stream: Stream, nbytes: int) -> Rebuilt:
    sketch = Rebuilt("m4", nbytes)
    sketch.update(hash_items(stream.names, 0), stream.values)
    return sketch


def of_magnifier(stream: Stream, nbytes: int, share: float) -> Rebuilt:
    sketch = Rebuilt("magnifier", nbytes, share, 1)
    sketch.update(hash_items(stream.names, 0), stream.values)
    return sketch


def measure(short: bool) -> Iterable[Table]:
    events, repeats = (300_000, 3) if short else (3_000_000, 7)
    stream = Stream(events)
    table = Table(
        "by-key",
        f"{events:,} values of {KEYS:,} keys: mean rank error in percent, of the "
        f"{len(stream.heavy)} keys with a thousandth of them; times as long as ours",
        ["sketch", "bytes", "p50", "p99", "without an answer", "build", "ns a value"],
        note="Above 1, ours is faster. A MagnifierSketch answers one quantile: there are two.",
    )
    for k in (FEW, 64):
        nbytes = len(encode(ours(stream, k)))

        def mine(k: int = k) -> Any:
            return ours(stream, k)

        def row(name: str, make: Callable[[], Any], ask: Callable[[float], np.ndarray],
                same: bool = False, k: int = k, nbytes: int = nbytes) -> list[Any]:  # fmt: skip
            built, seconds = compared(mine, mine if same else make, repeats)
            found = [stream.error(ask(share), share) for share in SHARES]
            errors = [round(error, 3) for error, _ in found]
            return [f"{name}, beside k = {k}" if not same else name, nbytes, *errors,
                    max(missing for _, missing in found), built,
                    round(1e9 * seconds / events, 1)]  # fmt: skip

        made = mine()
        table.rows.append(row(
            f"Muntin quantiles by key, k = {k}", mine,
            lambda share, made=made: answers_of(made, stream.heavy, share), True,
        ))  # fmt: skip
        if k == FEW:
            floats = ours(stream, FEW_FLOATS, "float32")
            table.rows.append(row(
                f"Muntin, k = {FEW_FLOATS}, float32", lambda: ours(stream, FEW_FLOATS, "float32"),
                lambda share, made=floats: answers_of(made, stream.heavy, share),
                nbytes=len(encode(floats)),
            ))  # fmt: skip
        m4 = of_m4(stream, nbytes)
        table.rows.append(row(
            "M4, DDSketch (rebuilt)", lambda nbytes=nbytes: of_m4(stream, nbytes),
            lambda share, m4=m4: m4.ask(stream.hashes, share),
        ))  # fmt: skip
        table.rows.append(row(
            "MagnifierSketch (rebuilt)", lambda nbytes=nbytes: of_magnifier(stream, nbytes, 0.5),
            lambda share, nbytes=nbytes: of_magnifier(stream, nbytes, share).ask(stream.hashes),
        ))  # fmt: skip
    yield table


if __name__ == "__main__":
    main("peers-by-key", measure, ["numpy", "numba", "pyarrow"], __doc__)
