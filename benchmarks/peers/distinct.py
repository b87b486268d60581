"""Distinct counts beside other sketches: error at equal bytes, speed, merging.

    python benchmarks/peers/distinct.py [--short] [--keep] [--check]

Packages: benchmarks/peers/requirements.txt; ExaLogLog is a crate, built by cargo (rebuilt/sets-rs).
Integers, all different, in one stream; the error is the root mean square of the relative one over
all seeds. "Bytes x error squared" is what a sketch pays for accuracy whatever its size: less is
better; of merged ones, since panes are merged. It is an eighth of the paper's memory-variance
product: 0.459 for ExaLogLog (2, 20), whose own is 3.67.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import datasketches
import numpy as np
import pyarrow as pa
from rebuilt import sets
from ultraloglog import PyUltraLogLog

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from _record import Table, compared, main

from muntin.summaries import Distinct


class Peer(NamedTuple):
    make: Callable[[np.ndarray], Any]
    estimate: Callable[[Any], float]
    size: Callable[[Any], int]
    merge: Callable[[list[Any]], Any]
    one_by_one: bool = False
    timed: bool = True
    alone: bool = False  # merged, it is another one that is there


def ours(values: np.ndarray) -> Distinct:
    counter = Distinct(12)
    counter.update(pa.array(values))
    return counter


def hll(values: np.ndarray, kind: Any) -> Any:
    sketch = datasketches.hll_sketch(12, kind)
    for value in values.tolist():
        sketch.update(value)
    return sketch


def cpc(values: np.ndarray) -> Any:
    sketch = datasketches.cpc_sketch(11)
    for value in values.tolist():
        sketch.update(value)
    return sketch


def ultra(values: np.ndarray) -> Any:
    sketch = PyUltraLogLog(11)
    for value in values.tolist():
        sketch.add_int(value)
    return sketch


def exa(values: np.ndarray) -> sets.ExaLogLog:
    sketch = sets.ExaLogLog(9)
    sketch.update(values)
    return sketch


def martingale(sketch: sets.ExaLogLog) -> float:
    """As long as nothing was merged, which ends it."""
    seen = sketch.martingale()
    return sketch.estimate() if np.isnan(seen) else seen


def deflated(sketch: sets.ExaLogLog) -> int:
    return min(
        len(compressor.compress(sketch.to_bytes()) + compressor.flush())
        for strategy in (zlib.Z_DEFAULT_STRATEGY, zlib.Z_HUFFMAN_ONLY)
        for compressor in [zlib.compressobj(9, zlib.DEFLATED, -15, 9, strategy)]
    )


def counted(sketch: Distinct) -> float:
    return float(sketch.estimate().value[0])


def merged(sketches: list[Distinct]) -> Distinct:
    total = sketches[0].copy()
    for sketch in sketches[1:]:
        total.merge(sketch)
    return total


def joined(make: Callable[[], Any]) -> Callable[[list[Any]], Any]:
    def merge(sketches: list[Any]) -> Any:
        union = make()
        for sketch in sketches:
            union.update(sketch)
        return union.get_result()

    return merge


def joined_ultra(sketches: list[Any]) -> Any:
    total = PyUltraLogLog(11)
    for sketch in sketches:
        total.merge(sketch)
    return total


def peers() -> dict[str, Peer]:
    kinds = datasketches.tgt_hll_type
    union = joined(lambda: datasketches.hll_union(12))
    every = {
        "Muntin, 2^12": Peer(ours, counted, lambda s: len(s.to_bytes()), merged),
        "Muntin, not compressed": Peer(ours, counted, lambda s: s.nbytes, merged, timed=False),
        "DataSketches HLL_8, 2^12": Peer(
            lambda v: hll(v, kinds.HLL_8),
            lambda s: s.get_estimate(),
            lambda s: len(s.serialize_compact()),
            union,
            True,
        ),
        "DataSketches HLL_4, 2^12": Peer(
            lambda v: hll(v, kinds.HLL_4),
            lambda s: s.get_estimate(),
            lambda s: len(s.serialize_compact()),
            union,
            True,
        ),
        "DataSketches CPC, 2^11": Peer(
            cpc,
            lambda s: s.get_estimate(),
            lambda s: len(s.serialize()),
            joined(lambda: datasketches.cpc_union(11)),
            True,
        ),
        "UltraLogLog (Rust), 2^11": Peer(
            ultra, lambda s: float(s.count()), lambda s: 1 << s.get_p(), joined_ultra, True
        ),
    }
    if sets.library():
        merge = sets.ExaLogLog.merged
        every |= {
            "ExaLogLog (Rust), 2^9": Peer(
                exa, lambda s: s.estimate(), lambda s: len(s.to_bytes()), merge
            ),
            "ExaLogLog (Rust), deflated": Peer(
                exa, lambda s: s.estimate(), deflated, merge, timed=False
            ),
            "ExaLogLog (Rust), martingale": Peer(
                exa, martingale, lambda s: len(s.to_bytes()), merge, timed=False, alone=True
            ),
        }
    return every


def row_of(
    name: str, peer: Peer, mine: Peer, values: np.ndarray, panes: list[np.ndarray], repeats: int
) -> list[Any]:
    few = values[: len(values) // 5] if peer.one_by_one else values
    made, held = [mine.make(pane) for pane in panes], [peer.make(pane) for pane in panes]

    def build() -> Any:
        return mine.make(few)

    def merge() -> Any:
        return mine.estimate(mine.merge(made))

    same = peer.make is mine.make
    built, seconds = compared(build, build if same else lambda: peer.make(few), repeats)
    together, _ = compared(
        merge, merge if same else lambda: peer.estimate(peer.merge(held)), repeats, often=20
    )
    return [name, built, round(1e9 * seconds / len(few), 1), together]


def measure(short: bool) -> Iterable[Table]:
    count, seeds = (20_000, 240) if short else (100_000, 240)
    table = Table(
        "error",
        f"{count:,} different integers, {seeds} seeds, in one sketch alone; then in four, merged",
        ["sketch", "alone: error, %", "bytes", "error, %", "bytes x error squared"],
    )
    for name, peer in peers().items():
        once, size, off = [], 0, []
        for seed in range(seeds):
            values = np.random.default_rng(seed).integers(0, 1 << 62, count)
            once.append(peer.estimate(peer.make(values)) / count - 1)
            sketch = peer.merge([peer.make(part) for part in np.split(values, 4)])
            off.append(peer.estimate(sketch) / count - 1)
            size = max(size, peer.size(sketch))
        first, error = (float(np.sqrt(np.mean(np.square(found)))) for found in (once, off))
        row = [size, round(100 * error, 2), round(size * error * error, 3)]
        table.rows.append([name, round(100 * first, 2), *([""] * 3 if peer.alone else row)])
    yield table
    count, repeats = (100_000, 3) if short else (1_000_000, 7)
    values = np.random.default_rng(0).integers(0, 1 << 62, count)
    panes = [np.random.default_rng(i).integers(0, 1 << 62, 5_000) for i in range(60)]
    speed = Table(
        "speed",
        f"Times as long as ours: {count:,} integers taken in; 60 sketches of 5,000 merged",
        ["sketch", "build", "ns a value", "merge"],
        note="Above 1, ours is faster. DataSketches and UltraLogLog take one Python object a call; "
        f"ExaLogLog ({sets.crate('exaloglog')}) takes whole columns, and all sketches to merge.",
    )
    every = peers()
    mine = every["Muntin, 2^12"]
    speed.rows += [
        row_of(name, peer, mine, values, panes, repeats)
        for name, peer in every.items()
        if peer.timed
    ]
    yield speed


if __name__ == "__main__":
    main("peers-distinct", measure, ["datasketches", "ultraloglog", "numpy"], __doc__)
