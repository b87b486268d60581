"""Digests of all that is sent in some runs, to be compared between processes: python traced.py."""

from __future__ import annotations

import hashlib
import json
import sys

import numpy as np
from pair import Pair
from world import wander

from muntin.topk import CostModel, encode

RUNS = 12


def paired(seed: int) -> bytes:
    """All messages of a pair over objects with names, many of which tie."""
    rng = np.random.default_rng(seed)
    objective = [None, "bytes", "messages"][seed % 3]
    model = CostModel(objective, stay=5, patience=0.2) if objective else None
    pair = Pair(int(rng.integers(2, 6)), 3, hybrid=model)
    sent = b""
    for _ in range(30):
        changes = {}
        for name in pair.names:
            some = rng.integers(0, 20, 6).tolist()
            changes[name] = {f"o{item}": int(rng.integers(-2, 4)) for item in some}
        sent += b"".join(encode(message) for _, message in pair.slide(changes))
    return sent


def flown(seed: int) -> bytes:
    """All messages of a world in which they get lost."""
    return b"".join(message for _, _, message in wander(seed, 60).sent)


def digests() -> list[str]:
    """One a run."""
    return [
        hashlib.sha256(run(seed)).hexdigest() for run in (paired, flown) for seed in range(RUNS)
    ]


if __name__ == "__main__":
    sys.stdout.write(json.dumps(digests()))
