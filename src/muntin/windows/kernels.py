"""Where floating windows close: one pass over the rows of many panes."""

import numpy as np

from muntin.summaries.kernels import kernel
from muntin.summaries.kernels.copying import fill

FULL, CAPACITY = 0, 1


@kernel
def close_floating(
    panes, ends, rows, keys, keys_from, opened, length, capacity, held, sealed_until, closed, state
):  # fmt: skip
    """Boundaries of the windows that close; how many.

    `panes`, `ends` (int64[p]): starts and ends of panes that hold events, ascending. Where a window
    is open (`opened`), the first stands for all that it holds so far. `rows` (int64[tables, p +
    1]): where each table's rows of each pane begin, in `keys` (int64[n]), the number of each row's
    key. `keys_from` (int64[tables + 1]): tables have their own numbers from here: they share the
    memory of what was seen. `length`: in microseconds. `capacity`: rows a key may have, -1: any
    number. `held`: rows that it might have in what the open window holds so far.

    `closed` (int64[p + 1, 6]) is filled: start, end, reason, overflowed, the first pane here and
    the one after the last. `state` (int64[4]): in, start and overflowed of the open window; out, is
    one open, start, overflowed, and its first pane here.
    """
    tables = rows.shape[0]
    seen = np.full(keys_from[tables], -1, np.int64)  # the last pane that had a key
    count = np.zeros(tables, np.int64)  # keys of the open window
    fresh = np.zeros(tables, np.int64)  # keys of the pane that the window does not have
    number = 0
    is_open = opened == 1
    start, overflowed, first = state[0], state[1], np.int64(0)
    for pane in range(len(panes)):
        at = panes[pane]
        kept = pane == 0 and opened == 1
        end = start + length
        if is_open and not kept and end <= at:
            # after `resume` a window may hold more than its length: it ends with what it holds
            reach = max(end, ends[pane - 1])
            closed[number] = start, reach, FULL, overflowed, first, pane
            number += 1
            is_open = False
        floor = first if is_open else pane  # a key that was seen before it is none of the window
        too_many = False
        for table in range(tables):
            fresh[table] = 0
            base = keys_from[table]
            for row in range(rows[table, pane], rows[table, pane + 1]):
                if seen[base + keys[row]] < floor:
                    fresh[table] += 1
            too_many |= capacity >= 0 and count[table] + fresh[table] > capacity
        if is_open and not kept and too_many:
            closed[number] = start, at, CAPACITY, overflowed, first, pane
            number += 1
            is_open = False
            for table in range(tables):  # the window that begins here has none of them
                fresh[table] = rows[table, pane + 1] - rows[table, pane]
        if not is_open:
            is_open = True
            start, overflowed, first = at, np.int64(0), np.int64(pane)
            fill(count, 0)
        for table in range(tables):
            count[table] += fresh[table]
            if capacity >= 0 and count[table] > (held if kept else capacity):
                overflowed = np.int64(1)
            base = keys_from[table]
            for row in range(rows[table, pane], rows[table, pane + 1]):
                seen[base + keys[row]] = pane
    if is_open and start + length <= sealed_until:
        last = len(panes)
        reach = max(start + length, ends[last - 1])
        closed[number] = start, reach, FULL, overflowed, first, last
        number += 1
        is_open = False
        first = np.int64(last)
    state[0] = 1 if is_open else 0
    state[1], state[2], state[3] = start, overflowed, first
    return number
