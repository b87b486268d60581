"""What is true of every table and segment, whatever its kind: CorruptSummary where it is not."""

import numpy as np

from muntin.errors import CorruptSummary
from muntin.segments.columns import NOTHING, Ragged, frozen
from muntin.segments.kernels import lists as kernels
from muntin.segments.keys import Keys, in_order
from muntin.segments.shards import WHOLE_KEYS, hash_range, is_first
from muntin.segments.table import Segment, Table

EVENTS_MAX = (1 << 62) - 1
_PROBLEMS = {
    kernels.NOT_THERE: "is not there",
    kernels.FALLS: "does not ascend in its slice",
    kernels.IN_NO_ROW: "is in no row",
    kernels.REST: "is of a rest that cannot be",
}


def check_table(table: Table, limit: int | None, shard: int = WHOLE_KEYS) -> None:
    """Order, keys, items and events of a table; the states are the kind's to check."""
    n, keys = len(table), len(table.keys)
    if not n or int(table.starts[-1]) != n:
        raise CorruptSummary("segment: a table has no rows")
    if not in_order(table.keys) or (table.items is not None and not in_order(table.items)):
        raise CorruptSummary("segment: keys are not in their order")
    _check_used(table.keys, table.key, table.starts, "a key", with_rest=limit is not None)
    if shard != WHOLE_KEYS:
        first, last = hash_range(shard)
        hashes = table.keys.hashes
        if len(hashes) and not first <= int(hashes[0]) <= int(hashes[-1]) <= last:
            raise CorruptSummary("segment: a key is not of its shard")
    elif limit is not None and table.by:
        rest = np.add.reduceat(table.key == keys, table.starts[:-1])
        sizes = np.diff(table.starts)
        if ((rest == 1) & (sizes != limit + 1)).any() or (sizes > limit + rest).any():
            raise CorruptSummary(f"segment: a slice does not keep to its limit of {limit} keys")
    if not kernels.are_events(frozen(table.events), EVENTS_MAX):
        raise CorruptSummary("segment: a row has no events, or there are too many")
    if table.items is not None:
        column = table.states["item"]
        numbers = column.items if isinstance(column, Ragged) else NOTHING
        _check_used(table.items, numbers, NOTHING, "an item", with_rest=False)


def _check_used(
    keys: Keys, numbers: np.ndarray, starts: np.ndarray, what: str, *, with_rest: bool
) -> None:
    """Numbers of keys, each of which is used; they ascend in the lists that begin at `starts`."""
    named = len(keys.names) > 0
    problem = kernels.problem_of_numbers(numbers, starts, len(keys), named, with_rest)
    if problem:
        raise CorruptSummary(f"segment: {what} {_PROBLEMS[problem]}")


def check_segment(segment: Segment) -> None:
    """Slices and events of a segment against those of its tables."""
    slices, events = segment.slices, segment.events
    if len({table.name(segment.algebra) for table in segment.tables}) < len(segment.tables):
        raise CorruptSummary("segment: two tables have the same key")
    tells = is_first(segment.shard)
    if not tells and events.any():
        raise CorruptSummary("segment: a shard tells events that another one tells")
    if tells and not kernels.are_events(frozen(events), EVENTS_MAX):
        raise CorruptSummary("segment: a slice has no events, or there are too many")
    for table in segment.tables:
        rows = frozen(table.slices), frozen(table.starts), frozen(table.events)
        problem = kernels.problem_of_slices(frozen(slices), frozen(events), *rows, tells)
        if problem == kernels.NOT_THERE:
            raise CorruptSummary("segment: a table has a slice that the segment has not")
        if problem:
            raise CorruptSummary("segment: a table has more events than there are")
