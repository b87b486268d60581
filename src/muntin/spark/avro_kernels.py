"""Avro's binary encoding of flat records, many at once: each value's bytes are read once, and
believed only after the record has ended exactly where its bytes do."""

import numpy as np
from numba import types

from muntin.summaries.kernels import bare, inlined

BOOLEAN, INT, LONG, FLOAT, DOUBLE, TEXT, ENUM, FIXED, NULL = range(9)
ALONE = 2  # the null branch of a union of one type: none
# why a record is malformed
CUT, LEFT, BRANCH, RANGE, SYMBOL, LENGTH = range(1, 7)
HEADER_BYTES = 5  # of the registry: 0, and the schema's number as four bytes
_VARINT_BYTES_MAX = 10


@inlined()
def _varint(data, at, end):
    """Zigzag: (value, behind it), or (why, -1)."""
    bits = np.uint64(0)
    for place in range(_VARINT_BYTES_MAX):
        if at >= end:
            return types.int64(CUT), types.intp(-1)
        byte = np.uint64(data[at])
        at += 1
        if place == _VARINT_BYTES_MAX - 1 and byte > 1:
            break  # more than 64 bits
        bits |= (byte & np.uint64(0x7F)) << np.uint64(7 * place)
        if byte < 0x80:
            value = types.int64(bits >> np.uint64(1)) ^ -types.int64(bits & np.uint64(1))
            return value, types.intp(at)
    return types.int64(RANGE), types.intp(-1)


@bare()
def schema_numbers(data, offsets, numbers):
    """The number in front of each value; -1 where there is none."""
    for i in range(offsets.shape[0] - 1):
        at = types.intp(offsets[i])
        numbers[i] = -1
        if types.intp(offsets[i + 1]) - at >= HEADER_BYTES and data[at] == 0:
            number = types.int64(0)
            for b in range(1, HEADER_BYTES):
                number = number << 8 | types.int64(data[at + b])
            numbers[i] = number


@bare()
def read_records(
    data, offsets, rows, skip, kinds, nulls, sizes, numbers, lengths, valid, why, where
):
    """Field f of record `rows[i]`: `numbers[f, i]` (a number, its bits, or where its bytes begin),
    `lengths[f, i]` of bytes, `valid[f, i]`. `why[i]` is 0, or why not, and `where[i]` the field.

    `nulls[f]` is the branch of a union that is null, -1 without one; `skip` the bytes in front.
    """
    for i in range(rows.shape[0]):
        at = types.intp(offsets[rows[i]]) + skip
        end = types.intp(offsets[rows[i] + 1])
        for f in range(kinds.shape[0]):
            kind = kinds[f]
            if nulls[f] >= 0:
                branch, next_at = _varint(data, at, end)
                if next_at < 0:
                    why[i] = types.uint8(branch)
                elif branch < 0 or branch > (nulls[f] != ALONE):  # two branches, or null alone
                    why[i] = BRANCH
                if why[i]:
                    where[i] = f
                    break
                at = next_at
                if branch == nulls[f]:
                    continue
            if kind == NULL:
                continue
            value = types.int64(0)
            if kind in (BOOLEAN, FLOAT, DOUBLE, FIXED):
                size = sizes[f]
                if size > end - at:
                    why[i] = CUT
                elif kind == FIXED:
                    value, lengths[f, i] = at, size
                else:
                    for b in range(size):
                        value |= types.int64(data[at + b]) << (8 * b)
                    if kind == BOOLEAN and (value < 0 or value > 1):
                        why[i] = RANGE
                at += size
            else:
                value, next_at = _varint(data, at, end)
                if next_at < 0:
                    why[i] = types.uint8(value)
                elif kind == INT and (value < -(1 << 31) or value >= 1 << 31):
                    why[i] = RANGE
                elif kind == ENUM and (value < 0 or value >= sizes[f]):
                    why[i] = SYMBOL
                elif kind == TEXT:
                    if value < 0:
                        why[i] = LENGTH
                    elif value > end - next_at:
                        why[i] = CUT
                    else:
                        lengths[f, i] = value
                        # The bytes stay where they are: what is noted is where they begin.
                        value, next_at = types.int64(next_at), next_at + types.intp(value)
                at = next_at
            if why[i]:
                where[i] = f
                break
            numbers[f, i] = value
            valid[f, i] = 1
        if not why[i] and at != end:
            why[i] = LEFT


@bare()
def gather_bytes(data, starts, offsets, out):
    """Bytes that begin at `starts[i]` to `out[offsets[i]:offsets[i + 1]]`."""
    for i in range(starts.shape[0]):
        begin, size = offsets[i], offsets[i + 1] - offsets[i]
        for b in range(size):
            out[begin + b] = data[starts[i] + b]
