"""Bytes of windows: damage and forgery."""

from __future__ import annotations

import contextlib
import json
import random
import struct

import google_crc32c
import numpy as np
import pytest
from quantile_checks import damaged, forged

from muntin.errors import CorruptSummary, MuntinError
from muntin.summaries.window_quantiles import FixedWindowQuantiles, TimeWindowQuantiles

METHODS = ("ring", "strict")
Window = FixedWindowQuantiles | TimeWindowQuantiles


def windows() -> list[Window]:
    rng, made = np.random.default_rng(0), []
    for method in METHODS:
        for n, dtype in ((0, "float64"), (30, "float32"), (900, "int64"), (900, "float64")):
            values = (rng.normal(size=n) * 100).astype(dtype)
            fixed = FixedWindowQuantiles(400, 4, 8, method=method, dtype=dtype)
            timed = TimeWindowQuantiles(400, 4, 8, method=method, dtype=dtype, tolerance=9)
            for at in range(0, n, 170):
                fixed.update(values[at : at + 170])
                timed.update(values[at : at + 170], np.arange(at, min(at + 170, n)))
            made += [fixed, timed]
    return made


def use(window: Window) -> None:
    window.quantile([0.0, 0.5, 1.0])
    window.rank([0, 1])
    copied = window.copy()
    if isinstance(window, FixedWindowQuantiles):
        for _ in range(3):
            window.update([1, 2, 3] * 30)
    else:
        for step in range(3):
            window.update([1, 2, 3] * 30, (window.end or 0) + step)
        window.advance((window.end or 0) + 50)
    window.quantile(0.5)
    if window.count:
        assert int(window._engine.view()[0][1][-1]) == window.count
    window.to_bytes()
    window.merge(copied)
    window.quantile(0.5)


def test_damaged_envelopes_are_refused():
    rng, blobs = random.Random(1), [window.to_bytes() for window in windows()]
    for _ in range(5_000):
        data = rng.choice(blobs)
        broken = damaged(data, rng)
        for kind in (FixedWindowQuantiles, TimeWindowQuantiles):
            if broken != data:
                with pytest.raises(CorruptSummary):
                    kind.from_bytes(broken)


def changed_number(data: bytes, rng: random.Random) -> bytes:
    """The same envelope with one parameter, or one number inside of one, changed."""
    size = struct.unpack_from("<I", data, 8)[0]
    parameters = json.loads(data[20 : 20 + size])
    holder, key = parameters, rng.choice(list(parameters))
    while isinstance(holder[key], list) and holder[key] and rng.random() < 0.9:
        holder = holder[key]
        key = rng.randrange(len(holder))
    old = holder[key]
    numbers = [0, 1, -1, 2**31, 2**62, 2**63, None, True, "x", [], [0], 1.5]
    if type(old) is int:
        numbers += [old + 1, old - 1, old * 2, old + 8] * 4
    holder[key] = rng.choice(numbers)
    text = json.dumps(parameters, sort_keys=True, separators=(",", ":")).encode()
    body = data[20 + size : -4]
    sealed = data[:8] + struct.pack("<IQ", len(text), len(body)) + text + body
    return sealed + struct.pack("<I", google_crc32c.value(sealed))


def test_forged_envelopes_are_refused_or_whole():
    rng, made = random.Random(2), windows()
    blobs = [(type(window), window.to_bytes()) for window in made]
    accepted = 0
    for turn in range(3_000):
        kind, data = rng.choice(blobs)
        broken = forged(data, rng) if turn % 3 == 0 else changed_number(data, rng)
        try:
            window = kind.from_bytes(broken)
        except CorruptSummary:
            continue
        assert window.to_bytes() == broken
        accepted += 1
        with contextlib.suppress(MuntinError):  # strict windows do not merge, counts end at 2^60
            use(window)
    assert accepted > 100


def test_not_bytes():
    for kind in (FixedWindowQuantiles, TimeWindowQuantiles):
        for wrong in (None, "text", 5, b"", b"MNTN"):
            with pytest.raises(CorruptSummary):
                kind.from_bytes(wrong)
    with pytest.raises(CorruptSummary, match="expected a time_window_quantiles"):
        TimeWindowQuantiles.from_bytes(FixedWindowQuantiles(5).to_bytes())
