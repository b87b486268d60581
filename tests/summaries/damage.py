"""Ways to damage sealed bytes, and golden files: shared by the tests of summaries."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from muntin.errors import CorruptSummary
from muntin.summaries.envelope import FAMILIES, seal, unseal

GOLDEN = Path(__file__).parents[1] / "golden"


def golden(name: str, make: Callable[[], bytes]) -> bytes:
    """Bytes of a golden file, which is written the first time and never again."""
    path = GOLDEN / f"{name}.bin"
    if not path.exists():
        path.write_bytes(make())
    return path.read_bytes()


def damaged(data: bytes, cases: int, seed: int = 1) -> Iterator[bytes]:
    """Flips, cuts, insertions; and as many that are sealed again with a right checksum."""
    rng = random.Random(seed)
    kind, parameters, body = _opened(data)
    for case in range(cases):
        if case % 4 == 0:
            yield _hurt(data, rng)
        elif case % 4 == 1 and parameters:
            yield seal(kind, _hurt_parameters(parameters, rng), body)
        else:
            yield seal(kind, parameters, _hurt(body, rng))


def readable(kind: Any, blobs: Iterable[bytes]) -> Iterator[tuple[bytes, Any]]:
    """Those that are a summary all the same, with what it is; the others must be CorruptSummary."""
    for blob in blobs:
        try:
            found = kind.from_bytes(blob)
        except CorruptSummary:
            continue
        yield blob, found


def spoilt(data: bytes, cases: int, rng: random.Random) -> Iterator[bytes]:
    """Flips and cuts, which the checksum tells."""
    for case in range(cases):
        out = bytearray(data)
        if case % 2:
            del out[rng.randrange(len(out)) :]
        else:
            out[rng.randrange(len(out))] ^= 1 << rng.randrange(8)
        yield bytes(out)


def resealed(data: bytes, cases: int, rng: random.Random, tail: int) -> Iterator[bytes]:
    """An attacker's: parameters or body changed, checksum right; in a body mostly the last `tail`
    bytes, where a store and its links are."""
    kind, described, body = _opened(data)
    for _ in range(cases):
        parameters, out = dict(described), bytearray(body)
        way = rng.randrange(4)
        if way == 0:
            name = rng.choice(sorted(parameters))
            parameters[name] = rng.choice([0, -1, 1, 3, 1 << 40, 1 << 70, None, True, "x", 1.5, [],
                                           parameters[name], "string", "int64"])  # fmt: skip
        elif way == 1:
            del out[rng.randrange(len(out) + 1) :]
        else:
            for _ in range(rng.randrange(1, 4)):
                end = rng.choice([len(out), tail])
                out[len(out) - 1 - rng.randrange(end)] = rng.choice([0, 1, 127, 255])
        yield seal(kind, parameters, bytes(out))


def _opened(data: bytes) -> tuple[str, dict, bytes]:
    (kind,) = [name for name, family in FAMILIES.items() if family.code == data[5]]
    parameters, body = unseal(data, kind)
    return kind, parameters, bytes(body)


def _hurt(data: bytes, rng: random.Random) -> bytes:
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 8))):
        way = rng.randrange(6)
        at = rng.randrange(len(out)) if out else 0
        if way == 0 and out:
            out[at] ^= 1 << rng.randrange(8)
        elif way == 1:
            del out[at:]
        elif way == 2:
            out[at:at] = rng.randbytes(rng.choice((1, 4, 8)))
        elif way == 3:
            out[at : at + 8] = rng.choice((bytes(8), b"\xff" * 8, (1 << 62).to_bytes(8, "little")))
        elif way == 4:
            del out[at : at + rng.choice((1, 4, 8))]
        else:
            out[at : at + 4] = rng.randbytes(4)
    return bytes(out)


def _hurt_parameters(parameters: dict, rng: random.Random) -> dict:
    out = json.loads(json.dumps(parameters))
    name = rng.choice(sorted(out))
    way = rng.randrange(4)
    if way == 0:
        del out[name]
    elif way == 1:
        out["other"] = 1
    else:
        out[name] = rng.choice((None, -1, 0, 1, 2**40, 2**70, 1.5, 0.5, 1e-300, "x", [], {}, True))
    return out
