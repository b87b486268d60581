"""What the tests of quantile summaries share: streams, exact answers, and damage to bytes."""

from __future__ import annotations

import random
import struct

import google_crc32c
import numpy as np

from muntin.summaries.quantiles import KLL

QS = np.arange(1, 100) / 100


def rank_errors(sketch: KLL, values: np.ndarray, fractions: np.ndarray = QS) -> np.ndarray:
    """How far each quantile's true rank interval is from the fraction asked for."""
    ordered = np.sort(values)
    found = sketch.quantile(fractions).value
    low = np.searchsorted(ordered, found, "left") / len(ordered)
    high = np.searchsorted(ordered, found, "right") / len(ordered)
    return np.maximum(np.maximum(low - fractions, fractions - high), 0.0)


def fed(values: np.ndarray, size: int | None = None, **options) -> KLL:
    sketch = KLL(**options)
    size = size or max(len(values), 1)
    for start in range(0, len(values), size):
        sketch.update(values[start : start + size])
    return sketch


def streams(n: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(7)
    ramp = np.arange(n, dtype=np.float64)
    zoom = np.empty(n)  # every item falls between the last two: keeps splitting the same gap
    zoom[0::2], zoom[1::2] = ramp[: (n + 1) // 2], n - ramp[: n // 2]
    return {
        "iid": rng.normal(size=n),
        "sorted": ramp,
        "reverse": -ramp,
        "zoom": zoom,
        "lognormal": rng.lognormal(0, 3, n),
        "ties": rng.integers(0, 10, n).astype(np.float64),
        "organ pipe": np.minimum(ramp, n - ramp),
        "blocks": np.repeat(rng.normal(size=n // 16), 16),
        "signs": np.where(ramp % 2 == 0, ramp, -ramp),
    }


def damaged(data: bytes, rng: random.Random, start: int = 0) -> bytes:
    """Bytes with one to four flips, cuts, insertions, or interesting numbers written over."""
    out = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(start, len(out)) if len(out) > start else start
        what = rng.randrange(6)
        if what == 0 and at < len(out):
            out[at] ^= 1 << rng.randrange(8)
        elif what == 1 and at < len(out):
            out[at] = rng.choice((0, 1, 2, 5, 8, 15, 0x7F, 0x80, 0xFF))
        elif what == 2:
            del out[at : at + rng.randint(1, 9)]
        elif what == 3:
            out[at:at] = rng.randbytes(rng.randint(1, 9))
        elif what == 4:
            number = rng.choice((0, 1, 2**31, 2**32 - 1, 2**63, 2**64 - 1, 2**52, 7))
            out[at : at + 8] = struct.pack("<Q", number)[: max(len(out) - at, 0)]
        elif len(out) >= start + 24:  # swap two items or numbers
            other = rng.randrange(start, len(out) - 8)
            at = min(at, len(out) - 8)
            out[at : at + 8], out[other : other + 8] = out[other : other + 8], out[at : at + 8]
    return bytes(out)


def forged(data: bytes, rng: random.Random) -> bytes:
    """A damaged envelope with a valid checksum and, mostly, the right lengths."""
    broken = damaged(data[:-4], rng, start=8)
    if len(broken) >= 20 and rng.random() < 0.8:
        size = struct.unpack_from("<I", broken, 8)[0]
        if 20 + size <= len(broken):
            broken = broken[:12] + struct.pack("<Q", len(broken) - 20 - size) + broken[20:]
    return broken + struct.pack("<I", google_crc32c.value(broken))


def exact_quantiles(values):
    """The smallest value with a share of at least q at or below it; q is read as a decimal.

    NumPy's "inverted_cdf" takes 0.28 of 25 for 7.000000000000001, and so the eighth value.
    """
    at = np.ceil(np.round(QS * len(values), 9)).astype(int) - 1
    return np.sort(values)[np.maximum(at, 0)]
