"""How a stream is dealt out to shards by item, and the one order in which its events are folded."""

from __future__ import annotations

import numpy as np

SHARDS_MAX = 1 << 12
SHARD_SEED = 0x5348415244  # another hash than the tables', or a shard would use a part of them


def shards_of(hashes: np.ndarray, shards: int) -> np.ndarray:
    """The shard of each item by the high bits of its hash (seed `SHARD_SEED`): int64[n]."""
    high = hashes >> np.uint64(32)
    return ((high * np.uint64(shards)) >> np.uint64(32)).astype(np.int64)


def order_of(times: np.ndarray, hashes: np.ndarray) -> np.ndarray | None:
    """The order by (time, hash), or None where they stand in it already."""
    same = times[1:] == times[:-1]
    if ((times[1:] > times[:-1]) | (same & (hashes[1:] >= hashes[:-1]))).all():
        return None
    order = np.argsort(times, kind="stable")  # quick on what is made of sorted runs
    ranked = times[order]
    same = ranked[1:] == ranked[:-1]
    if same.any():
        tied = np.zeros(len(times), bool)
        tied[1:] = same
        tied[:-1] |= same
        among = order[tied]
        order[tied] = among[np.lexsort((hashes[among], times[among]))]
    return order
