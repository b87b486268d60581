"""Shards: the rows of a segment whose keys' hashes have the same first bits.

A shard has one number, as the nodes of a binary tree have: `n + i` is the i-th of `n` equal ranges
of hashes, `n` a power of two; `WHOLE_KEYS` is not cut. Keys are in the order of their hashes, so
that a shard is a run of keys, and nothing is hashed again.

The first shard has the number of events of each slice and the others 0, so that sums are right.
"""

from dataclasses import replace

import numpy as np

from muntin.segments.columns import frozen
from muntin.segments.keys import Keys
from muntin.segments.table import Segment, Table
from muntin.sets import as_set

SHARDS_MAX = 1024
WHOLE_KEYS = 0


def is_first(shard: int) -> bool:
    """Whether it tells the events of the slices: the first of its cut, or not cut."""
    return shard & (shard - 1) == 0


def hash_range(shard: int) -> tuple[int, int]:
    """First and last hash of a shard's keys."""
    if shard == WHOLE_KEYS:
        return 0, (1 << 64) - 1
    bits = shard.bit_length() - 1
    width = 1 << (64 - bits)
    first = (shard - (1 << bits)) * width
    return first, first + width - 1


def split(segment: Segment, shards: int) -> list[Segment]:
    """The shards of a segment that have rows, and the first; the rest of the keys in the last.
    `shards` (int): a power of two, 1 ... `SHARDS_MAX`; 1 cuts nothing."""
    if shards == 1 or segment.shard != WHOLE_KEYS:
        return [segment]
    parts: list[list[Table]] = [[] for _ in range(shards)]
    for table in segment.tables:
        for number, part in _split_table(table, shards):
            parts[number].append(part)
    found = []
    for number, tables in enumerate(parts):
        if number and not tables:
            continue
        slices, events = segment.slices, segment.events
        if number:
            slices = frozen(as_set(np.concatenate([table.slices for table in tables])))
            events = frozen(np.zeros(len(slices), np.int64))
        found.append(
            replace(
                segment, slices=slices, events=events, tables=tuple(tables), shard=shards + number
            )
        )
    return found


def lowest(segment: Segment, last: np.uint64) -> Segment:
    """The rows of the keys whose hash is at most `last`, without the rest of the keys."""
    tables = []
    for table in segment.tables:
        keys = np.searchsorted(table.keys.hashes, last, side="right")
        tables.append(table.rows_at(frozen(np.flatnonzero(table.key < keys))).with_used_keys())
    return replace(segment, tables=tuple(table for table in tables if len(table)))


def _split_table(table: Table, shards: int) -> list[tuple[int, Table]]:
    firsts = [hash_range(shards + number)[0] for number in range(shards)]
    edges = np.searchsorted(table.keys.hashes, np.array(firsts, np.uint64))
    ends = [*edges[1:].tolist(), len(table.keys)]
    last = edges[1:].astype(np.int64)
    of_row = np.searchsorted(last, table.key, side="right").astype(np.int16)
    of_row[table.is_rest()] = shards - 1
    order = np.argsort(of_row, kind="stable")
    bounds = np.concatenate(([0], np.cumsum(np.bincount(of_row, minlength=shards))))
    found = []
    for number in range(shards):
        low, high = int(bounds[number]), int(bounds[number + 1])
        if low == high:
            continue
        first, end = int(edges[number]), ends[number]
        columns = tuple(column.slice(first, end - first) for column in table.keys.columns)
        keys = table.keys
        if keys.names:
            keys = Keys(keys.names, columns, keys.hashes[first:end])
        part = table.rows_at(frozen(order[low:high]))
        part = replace(part, keys=keys, key=frozen(part.key - first))
        found.append((number, part if table.items is None else part.with_used_keys()))
    return found
