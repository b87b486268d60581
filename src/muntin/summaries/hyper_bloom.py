"""HyperBloom: which items of a stream begin a batch, from a few bits an item.

========== =====================================================================================
State      words: uint64[blocks, 8], eight arrays of 32 cells in a 64-byte line; a cell is two
           bits, "seen in this slice" and "seen in the slice before"; stamps: uint32[blocks],
           eighths of a slice at a block's last visit (without them: the slice modulo three)
Error      one-sided: never a false start. A start is missed where (a) its gap is between T and
           (1 + 1/8) T, with probability 1 - 8 (gap / T - 1); (b) others refreshed all eight
           cells: about (1 - exp(-g / m))^8 for g distinct items in 1.5 T and m cells an array
Merge      refused: the state follows one stream in time order (shard by item instead)
Duplicates an item twice at one time is the same as once
Source     HyperCalm Sketch, ICDE 2023 (HyperBloomFilter); the stamps are ours
Limits     memory 68 bytes (64 without stamps) to 256 GiB; gap 1 to 2^59
========== =====================================================================================

A batch of an item is a run of occurrences with gaps of at most T (`gap`). Array i cuts time into
slices of length T that begin i/8 T early, so that a gap a little over T is seen by most arrays.
"""

from typing import Any, ClassVar, Self

import numpy as np

from muntin.errors import CorruptSummary
from muntin.summaries.aligned import aligned_zeros
from muntin.summaries.base import OfOneStream
from muntin.summaries.checks import INT64_MAX, INT64_MIN, boolean, check_seed, integer_in
from muntin.summaries.envelope import opened, seal
from muntin.summaries.items import as_items, hash_items
from muntin.summaries.kernels.hyper_bloom import update_bloom, update_published
from muntin.summaries.times import as_times, check_order

BLOCK_BYTES, STAMP_BYTES = 64, 4
MEMORY_BYTES_MAX = 1 << 38
GAP_MAX = 1 << 59
CHUNK = 1 << 16  # hashes at once: 512 KiB, which the second-level cache holds


class HyperBloom(OfOneStream):
    """Tells which items begin a batch: the first, or more than `gap` after the item's last.

    Parameters
    ----------
    memory : int
        Bytes of the state, at least 68 (64 where not stamped).
    gap : int
        Longest gap inside a batch, in the unit of the times (microseconds for timestamps).
    seed : int
        Seed of the hash, 0 to 2^64 - 1.
    stamped : bool
        A stamp for each block removes what the paper's form (False) cannot see: cells so old that
        their slice looks fresh again, the more the larger the memory.

    Raises
    ------
    BadArgument
        A parameter is out of range.
    """

    kind: ClassVar[str] = "hyper_bloom"
    instead_of_merging: ClassVar[str] = (
        "its cells go by time order. Give each shard of the items its own"
    )

    def __init__(self, memory: int, gap: int, seed: int = 0, stamped: bool = True) -> None:
        self.stamped = boolean("stamped", stamped)
        block = BLOCK_BYTES + STAMP_BYTES * self.stamped
        self.memory = integer_in("memory", memory, block, MEMORY_BYTES_MAX, "bytes")
        self.gap = integer_in("gap", gap, 1, GAP_MAX)
        self.seed = check_seed(seed)
        blocks = self.memory // block
        self._words = aligned_zeros(blocks * 8, np.uint64)
        self._stamps = np.zeros(blocks if stamped else 0, np.uint32)
        self._events = 0
        self._last: int | None = None

    def update(self, items: Any, times: Any) -> np.ndarray:
        """Take events in time order and tell which begin a batch.

        Parameters
        ----------
        items : strings, binary or integers [n]
            Arrow array, ndarray or sequence, without nulls.
        times : int64[n] or timestamps
            Not below each other nor below the last of the update before; equal is fine.

        Returns
        -------
        ndarray
            bool[n]. A true entry is certain; see the module for what can be missed.

        Raises
        ------
        BadArgument
            Time goes backwards (the message says where), nulls, other lengths or types. The
            state is then unchanged.
        """
        array = as_items(items)
        at = as_times(times, len(array))
        check_order(at, self._last)
        starts = np.empty(len(array), np.bool_)
        last = self._last
        for begin in range(0, len(array), CHUNK):
            chunk = slice(begin, min(begin + CHUNK, len(array)))
            hashes = hash_items(array[chunk], self.seed)
            if self.stamped:
                before = int(at[begin]) if last is None else last
                update_bloom(
                    self._words, self._stamps, hashes, at[chunk], before, self.gap, starts[chunk]
                )
            else:
                update_published(self._words, hashes, at[chunk], self.gap, False, starts[chunk])
            last = int(at[chunk][-1])
        if len(array):
            self._last = int(at[-1])
            self._events += len(array)
        return starts

    def to_bytes(self) -> bytes:
        """The whole state, sealed; the same events in the same order give the same bytes."""
        parameters = {
            "count": self._events,
            "gap": self.gap,
            "last": self._last,
            "memory": self.memory,
            "seed": self.seed,
        } | ({} if self.stamped else {"stamped": False})
        body = self._words.astype("<u8").tobytes() + self._stamps.astype("<u4").tobytes()
        return seal(self.kind, parameters, body)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """What `to_bytes` wrote, with its own memory; `CorruptSummary` for anything else."""
        fields, body = opened(data, cls.kind)
        stamped = fields.choice("stamped", [False]) if fields.has("stamped") else True
        block = BLOCK_BYTES + STAMP_BYTES * stamped
        memory = fields.integer("memory", block, MEMORY_BYTES_MAX)
        gap, seed = fields.integer("gap", 1, GAP_MAX), fields.seed()
        count = fields.integer("count", 0, INT64_MAX)
        last = (
            fields.integer("last", INT64_MIN, INT64_MAX) if count else fields.choice("last", [None])
        )
        fields.done()
        if body.left != memory // block * block:
            raise CorruptSummary(f"hyper_bloom: {body.left} bytes of state for memory {memory}")
        made = cls(memory, gap, seed, stamped)
        made._words[:] = body.array("<u8", len(made._words))
        made._stamps[:] = body.array("<u4", len(made._stamps))
        made._events, made._last = count, last
        if last is None and (made._words.any() or made._stamps.any()):
            raise CorruptSummary("hyper_bloom: cells are set, but no event was taken")
        return made
