"""UltraLogLog over many groups at once: entries (slot << 8 | register) while few, registers then.

Hash, slots and registers are those of `muntin.summaries.kernels.distinct`.
"""

import numpy as np

from muntin.summaries.kernels import kernel
from muntin.summaries.kernels.copying import append_lists, fill
from muntin.summaries.kernels.distinct import (
    ULTRA,
    VALUE_MAX,
    estimate,
    is_possible,
    joined,
    note,
    of_item,
    possible,
)
from muntin.summaries.kernels.sorting import sort_keys

REGISTER_BITS = 8
ENTRY_BYTES = 5  # what an entry counts for: rows of fewer bytes than registers keep entries


@kernel()
def entries_of(data, offsets, lg_k, out):
    """`out[i]` = entry of item i."""
    for i in range(out.shape[0]):
        slot, register = of_item(data, offsets, i, 1 << lg_k)
        out[i] = (slot << REGISTER_BITS) | register


@kernel()
def _emit(scratch, filled, dense, entries, registers):
    """Registers (`scratch`, uint8[m]) as entries, or as registers, at the end of what there is;
    clears them for the next group. Returns the new ends of both."""
    m = scratch.shape[0]
    used = 0
    for slot in range(m):
        used += scratch[slot] > 0
    if ENTRY_BYTES * used < m:  # few again, as equal items were many: bytes depend on items alone
        for slot in range(m):
            if scratch[slot]:
                entries[filled] = (slot << REGISTER_BITS) | scratch[slot]
                filled += 1
                scratch[slot] = 0
    else:
        for slot in range(m):
            registers[dense + slot] = scratch[slot]
            scratch[slot] = 0
        dense += m
    return filled, dense


@kernel()
def _unique(entries, first, filled, n, kept):
    """Entries first ... first + n in order, those of a slot as one, put to `filled`."""
    for i in range(first + 1, first + n):
        if entries[i] < entries[i - 1]:
            sort_keys(entries[first : first + n])
            break
    for i in range(first, first + n):
        slot = entries[i] >> REGISTER_BITS
        register = np.uint8(entries[i] & 255)
        if i > first and entries[filled - 1] >> REGISTER_BITS == slot:
            filled -= 1
            register = joined(np.uint8(entries[filled] & 255), register) & kept
        entries[filled] = (slot << REGISTER_BITS) | register
        filled += 1
    return filled


@kernel()
def fold_distinct(entries, bounds, m, starts, registers, register_starts):
    """Entries of groups (g is entries[bounds[g]:bounds[g + 1]]), in place, as the states of groups.
    `registers`: uint8[m * groups of at least m / 5 entries], of m registers."""
    scratch = np.zeros(m, np.uint8)
    filled = 0
    dense = 0
    starts[0] = register_starts[0] = 0
    for g in range(bounds.shape[0] - 1):
        first = bounds[g]
        n = bounds[g + 1] - first
        if ENTRY_BYTES * n < m:
            filled = _unique(entries, first, filled, n, ULTRA)
        else:
            for i in range(first, first + n):
                note(scratch, entries[i] >> REGISTER_BITS, np.uint8(entries[i] & 255), ULTRA)
            filled, dense = _emit(scratch, filled, dense, entries, registers)
        starts[g + 1] = filled
        register_starts[g + 1] = dense


@kernel()
def merge_distinct(
    starts, entries, register_starts, registers, order, bounds, m, kept,
    out_starts, out_entries, out_register_starts, out_registers,
):  # fmt: skip
    """States of groups as one each.

    `out_entries` (int64[...]): room for all of `entries`, and m / 5 + 1 for each group that may
      have registers.
    `out_registers` (uint8[m * such groups]).
    """
    scratch = np.zeros(m, np.uint8)
    filled = 0
    dense = 0
    out_starts[0] = out_register_starts[0] = 0
    for g in range(bounds.shape[0] - 1):
        rows = order[bounds[g] : bounds[g + 1]]
        if rows.shape[0] == 1:
            filled = append_lists(starts, entries, rows, out_entries, filled)
            dense = append_lists(register_starts, registers, rows, out_registers, dense)
            out_starts[g + 1] = filled
            out_register_starts[g + 1] = dense
            continue
        total = 0
        large = False
        for row in rows:
            total += starts[row + 1] - starts[row]
            large |= register_starts[row + 1] > register_starts[row]
        if not large and ENTRY_BYTES * total < m:  # few even if no two are of one register
            append_lists(starts, entries, rows, out_entries, filled)
            filled = _unique(out_entries, filled, filled, total, kept)
        else:
            for row in rows:
                for j in range(starts[row], starts[row + 1]):
                    note(scratch, entries[j] >> REGISTER_BITS, np.uint8(entries[j] & 255), kept)
                at = register_starts[row]
                for slot in range(register_starts[row + 1] - at):
                    scratch[slot] = joined(scratch[slot], registers[at + slot]) & kept
            filled, dense = _emit(scratch, filled, dense, out_entries, out_registers)
        out_starts[g + 1] = filled
        out_register_starts[g + 1] = dense


@kernel()
def estimate_distinct(starts, entries, register_starts, registers, m, kept, value, least):
    """The estimate of each row, and the least that it can be."""
    counts = np.empty(256, np.int64)
    came = np.empty(VALUE_MAX + 1)
    for row in range(value.shape[0]):
        fill(counts, 0)
        if register_starts[row + 1] > register_starts[row]:
            for i in range(register_starts[row], register_starts[row + 1]):
                counts[registers[i]] += 1
        else:
            counts[0] = m - (starts[row + 1] - starts[row])
            for i in range(starts[row], starts[row + 1]):
                counts[entries[i] & 255] += 1
        value[row], least[row] = estimate(counts, came, m, kept)


@kernel()
def check_distinct(starts, entries, register_starts, registers, counts, m, kept):
    """The first row that no items could have made, or -1."""
    for row in range(starts.shape[0] - 1):
        n = starts[row + 1] - starts[row]
        size = register_starts[row + 1] - register_starts[row]
        used = n
        if size:
            if size != m or n:
                return row
            used = possible(registers[register_starts[row] : register_starts[row + 1]], kept)
            if ENTRY_BYTES * used < m:
                return row
        elif ENTRY_BYTES * n >= m:
            return row
        for i in range(starts[row], starts[row + 1]):
            slot = entries[i] >> REGISTER_BITS
            if slot < 0 or slot >= m or not is_possible(np.uint8(entries[i] & 255), kept):
                return row
            if i > starts[row] and slot <= entries[i - 1] >> REGISTER_BITS:
                return row
        if used > counts[row] or (used == 0) != (counts[row] == 0):
            return row
    return -1
