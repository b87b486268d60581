"""Membership beside other filters: bits a key against the rate of false positives, probes, build.

    python benchmarks/peers/filters.py [--short] [--keep] [--check]

Packages: benchmarks/peers/requirements.txt; Ribbon is a crate, built by cargo (rebuilt/sets-rs).
BuRR (SEA 2022), which no package has, is rebuilt in C (rebuilt/burr.h). The least that any filter
can take is log2(1 / rate) bits a key. BuRR, Ribbon and fuse filters come nearest, and cannot be
extended or merged; rbloom and ours can.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyfusefilter import Fuse8, Fuse16
from rbloom import Bloom
from rebuilt import Rebuilt, sets

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from _record import Table, compared, main

from muntin.summaries import DynamicBloom


class Peer(NamedTuple):
    make: Callable[[np.ndarray], Any]
    found: Callable[[Any, np.ndarray], int]
    bits: Callable[[Any], float]
    extends: str


def ours(rate: float) -> Peer:
    def make(keys: np.ndarray) -> DynamicBloom:
        bloom = DynamicBloom(len(keys), rate, headroom=1)
        bloom.update(pa.array(keys))
        return bloom

    return Peer(
        make,
        lambda s, keys: int(s.contains(pa.array(keys)).sum()),
        lambda s: 8.0 * len(s.to_bytes()),
        "extends, merges",
    )


def rust_bloom(rate: float) -> Peer:
    def make(keys: np.ndarray) -> Bloom:
        bloom = Bloom(len(keys), rate)
        bloom.update(keys.tolist())
        return bloom

    return Peer(
        make,
        lambda s, keys: sum(key in s for key in keys.tolist()),
        lambda s: float(s.size_in_bits),
        "extends, merges",
    )


def fuse(kind: Any) -> Peer:
    return Peer(
        lambda keys: kind(keys.tolist()),
        lambda s, keys: sum(s.contains(key) for key in keys.tolist()),
        lambda s: 8.0 * s.size_in_bytes(),
        "neither",
    )


def burr(width: int, bits: int) -> Peer:
    load = {64: 0.965, 128: 0.975}[width]  # slots a key of the first layer: fewest bits in all
    return Peer(
        lambda keys: Rebuilt(f"burr{width}", keys, len(keys), bits, load),
        lambda s, keys: int(s.ask(keys, dtype=np.bool_).sum()),
        lambda s: 8.0 * s.nbytes,
        "neither",
    )


def ribbon(width: int, bits: int) -> Peer:
    return Peer(
        lambda keys: sets.Ribbon(keys, width, bits),
        lambda s, keys: int(s.ask(keys).sum()),
        lambda s: 8.0 * s.nbytes,
        "neither",
    )


def peers() -> dict[str, Peer]:
    every = {}
    for bits, kind in (8, Fuse8), (16, Fuse16):
        rate = f"1/{1 << bits}"
        every[f"Muntin, {rate}"] = ours(1 / (1 << bits))
        every[f"binary fuse, {bits} bits"] = fuse(kind)
        every[f"rbloom, {rate}"] = rust_bloom(1 / (1 << bits))
        if sets.library():
            every[f"Ribbon, homogeneous, w = 64, {bits} bits"] = ribbon(64, bits)
            every[f"Ribbon, standard, w = 128, {bits} bits"] = ribbon(128, bits)
        every[f"BuRR, w = 64, {bits} bits (rebuilt)"] = burr(64, bits)
        every[f"BuRR, w = 128, {bits} bits (rebuilt)"] = burr(128, bits)
    return every


def row_of(
    name: str,
    peer: Peer,
    keys: np.ndarray,
    others: np.ndarray,
    probes: np.ndarray,
    repeats: int,
) -> list[Any]:
    made = peer.make(keys)
    bits = peer.bits(made) / len(keys)
    rate = peer.found(made, others) / len(others)
    asked = 1 / 256 if "256" in name or " 8 bits" in name else 1 / 65536
    if peer.found(made, keys) < len(keys) or rate > asked + 6 * np.sqrt(asked / len(others)):
        raise SystemExit(f"{name}: misses a key, or finds {rate:.2g} of what is not there")
    mine = ours(asked)
    held = mine.make(keys)

    def build() -> Any:
        return mine.make(keys)

    def probe() -> int:
        return mine.found(held, probes)

    same = name.startswith("Muntin")
    built, _ = compared(build, build if same else lambda: peer.make(keys), repeats)
    probed, _ = compared(probe, probe if same else lambda: peer.found(made, probes), repeats)
    over = round(bits / np.log2(1 / rate), 2) if rate else ""
    seen = f"1/{1 / rate:,.0f}" if rate else "0"
    return [name, round(bits, 2), seen, over, built, probed, peer.extends]


def measure(short: bool) -> Iterable[Table]:
    count, repeats = (100_000, 3) if short else (1_000_000, 7)
    rng = np.random.default_rng(0)
    keys = np.unique(rng.integers(0, 1 << 62, count))
    others = rng.integers(1 << 62, (1 << 63) - 1, 4 * count if not short else count)
    probes = np.concatenate([keys[:50_000], others[:50_000]])
    table = Table(
        "filters",
        f"{len(keys):,} integers; times as long as ours: built, and asked for {len(probes):,} of "
        "which half are there",
        ["filter", "bits a key", "rate", "bits over log2(1/rate)", "build", "probe", "can do"],
        note=f"Above 1, ours is faster. Ours, Ribbon ({sets.crate('pleat')}) and BuRR take whole "
        "columns; binary fuse and rbloom take one Python object a call.",
    )
    table.rows += [row_of(*named, keys, others, probes, repeats) for named in peers().items()]
    yield table


if __name__ == "__main__":
    main("peers-filters", measure, ["pyfusefilter", "rbloom", "numpy", "numba"], __doc__)
