"""Membership beside other filters: bits a key against the rate of false positives, probes, build.

    python benchmarks/peers/filters.py [--short] [--keep] [--check]

Packages: benchmarks/peers/requirements.txt. The least that any filter can take is log2(1 / rate)
bits a key. A fuse filter takes the fewest, and cannot be extended or merged; rbloom and ours can.
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


def peers() -> dict[str, Peer]:
    return {
        "Muntin, 1/256": ours(1 / 256),
        "binary fuse, 8 bits": fuse(Fuse8),
        "rbloom, 1/256": rust_bloom(1 / 256),
        "Muntin, 1/65536": ours(1 / 65536),
        "binary fuse, 16 bits": fuse(Fuse16),
        "rbloom, 1/65536": rust_bloom(1 / 65536),
    }


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
    mine = ours(1 / 256 if "256" in name or "8 bits" in name else 1 / 65536)
    held = mine.make(keys)

    def build() -> Any:
        return mine.make(keys)

    def probe() -> int:
        return mine.found(held, probes)

    same = name.startswith("Muntin")
    built, _ = compared(build, build if same else lambda: peer.make(keys), repeats)
    asked, _ = compared(probe, probe if same else lambda: peer.found(made, probes), repeats)
    over = round(bits / np.log2(1 / rate), 2) if rate else ""
    seen = f"1/{1 / rate:,.0f}" if rate else "0"
    return [name, round(bits, 2), seen, over, built, asked, peer.extends]


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
        note="Above 1, ours is faster. Other packages take one Python object a call.",
    )
    table.rows += [row_of(*named, keys, others, probes, repeats) for named in peers().items()]
    yield table


if __name__ == "__main__":
    main("peers-filters", measure, ["pyfusefilter", "rbloom", "numpy", "numba"], __doc__)
