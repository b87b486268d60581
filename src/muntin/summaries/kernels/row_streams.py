"""Lists of rows as they stand in an Arrow stream: laying them out, and checking all of them.

A stream's leaves are rows of an array, `int64[leaves, 5]`: role, key, node, first buffer, and the
indicator of a sum or the part of a key. A list of rows has an entry of its own before its leaves.
Buffers begin at multiples of 8 bytes and fill up with zeros.
"""

from __future__ import annotations

import numpy as np

from muntin.summaries.kernels import inlined, kernel
from muntin.summaries.kernels.hash_table import NULL_HASH
from muntin.summaries.kernels.hashing import hash_bytes, hash_u64

LIST, NOTHING, TEXT, WIDE_TEXT, BOOL, DATE, INTEGER, COUNT, UNTYPED, SUM, FLOAT, LOW = range(12)
# What `check_frame` and `check_rows` find
FINE, MISPLACED, UNEQUAL, NULLS, LENGTHS = range(5)
PADDED, BITS, OFFSETS, HIDDEN, EMPTY_ROW, NO_TYPE, ABNORMAL, ORDER, TIED = range(5, 14)
ALL, NONE, SOME = range(3)  # rows that have an indicator
_SEED = np.uint64(0)
_PRIME_2 = np.uint64(0xC2B2AE3D27D4EB4F)
_MINUS_ZERO = np.int64(-(1 << 63))


@inlined()
def _padded(size):
    return (size + 7) & ~np.int64(7)


@kernel()
def lay_out(leaves, rows, nulls, text, nodes, places):
    """Nodes (length, nulls) and places (offset, size) of a stream; returns its bytes.

    `rows`: of each key; `nulls`: of each leaf; `text`: bytes of each leaf's strings.
    """
    at = np.int64(0)
    for leaf in range(leaves.shape[0]):
        role, key, node, buffer = (
            leaves[leaf, 0], leaves[leaf, 1], leaves[leaf, 2], leaves[leaf, 3],
        )  # fmt: skip
        size = rows[key]
        if role == LIST:
            nodes[node, 0] = 1
            nodes[node, 1] = 0
            nodes[node + 1, 0] = size
            nodes[node + 1, 1] = 0
            for b in range(3):
                places[buffer + b, 0] = at
                places[buffer + b, 1] = 8 * (b == 1)
                at += places[buffer + b, 1]
            continue
        nodes[node, 0] = size
        nodes[node, 1] = size if role == NOTHING else nulls[leaf]
        if role == NOTHING:
            continue
        places[buffer, 0] = at
        places[buffer, 1] = (size + 7) >> 3 if nulls[leaf] else 0
        at += _padded(places[buffer, 1])
        places[buffer + 1, 0] = at
        places[buffer + 1, 1] = _width(role, size)
        at += _padded(places[buffer + 1, 1])
        if role == TEXT or role == WIDE_TEXT:
            places[buffer + 2, 0] = at
            places[buffer + 2, 1] = text[leaf]
            at += _padded(text[leaf])
    return at


@inlined()
def _width(role, size):
    """Bytes of a leaf's numbers, or offsets."""
    if role == TEXT:
        return 4 * (size + 1)
    if role == WIDE_TEXT:
        return 8 * (size + 1)
    if role == BOOL:
        return (size + 7) >> 3
    if role == DATE:
        return 4 * size
    return 8 * size


@inlined()
def _misplaced(place, expected, at, room):
    return place[0] != at or place[1] != expected or expected > room - at


@kernel()
def check_frame(leaves, nodes, places, room, rows_max, rows):
    """Whether lengths fit, and buffers lie one after the other and fill the room; fills `rows`."""
    at = np.int64(0)
    rows[:] = -1
    for leaf in range(leaves.shape[0]):
        role, key, node, buffer = (
            leaves[leaf, 0], leaves[leaf, 1], leaves[leaf, 2], leaves[leaf, 3],
        )  # fmt: skip
        if role == LIST:
            size = nodes[node + 1, 0]
            if nodes[node, 0] != 1 or nodes[node, 1] != 0 or nodes[node + 1, 1] != 0:
                return UNEQUAL
            if size < 0 or size > rows_max or (rows[key] >= 0 and rows[key] != size):
                return UNEQUAL
            rows[key] = size
            for b in range(3):
                expected = np.int64(8 * (b == 1))
                if _misplaced(places[buffer + b], expected, at, room):
                    return MISPLACED
                at += expected
            continue
        size = rows[key]
        nulls = nodes[node, 1]
        if nodes[node, 0] != size or nulls < 0 or nulls > size:
            return UNEQUAL
        if role == NOTHING:
            if nulls != size:
                return NULLS
            continue
        if nulls != 0 and (role == COUNT or role == LOW):
            return NULLS
        expected = (size + 7) >> 3 if nulls else np.int64(0)
        if _misplaced(places[buffer], expected, at, room):
            return MISPLACED
        at += _padded(expected)
        expected = _width(role, size)
        if _misplaced(places[buffer + 1], expected, at, room):
            return MISPLACED
        at += _padded(expected)
        if role == TEXT or role == WIDE_TEXT:
            expected = places[buffer + 2, 1]
            if expected < 0 or _misplaced(places[buffer + 2], expected, at, room):
                return MISPLACED
            at += _padded(expected)
        if at > room:
            return MISPLACED
    if at != room:
        return LENGTHS
    return FINE


@inlined()
def _bit(data, base, i):
    return (data[base + (i >> 3)] >> np.uint8(i & 7)) & np.uint8(1) != np.uint8(0)


@inlined()
def _word32(words, base, i):
    """Element i of an int32 buffer that begins at byte `base`, a multiple of 8."""
    at = (base >> 2) + i
    word = words[at >> 1]
    if at & 1:
        return word >> 32
    return (word << 32) >> 32


@inlined()
def _tail_is_zero(data, base, size, end):
    """Whether nothing stands behind `size` bits until byte `end`."""
    at = base + (size >> 3)
    if size & 7:
        if data[at] >> np.uint8(size & 7) != np.uint8(0):
            return False
        at += 1
    while at < end:
        if data[at] != np.uint8(0):
            return False
        at += 1
    return True


@inlined()
def _bits_are_wrong(data, base, size, nulls):
    """Whether a validity bitmap marks another number of nulls, or has bits behind its end."""
    if nulls == 0:
        return False
    absent = 0
    for i in range(size):
        absent += not _bit(data, base, i)
    return absent != nulls or not _tail_is_zero(data, base, size, base + _padded((size + 7) >> 3))


@kernel()
def check_rows(data, words, leaves, nodes, places, rows, lows, presence, covered, bits, largest):
    """Whether every row is one that a summary writes; lengths and places were checked before.

    Parameters
    ----------
    data, words : uint8[bytes], int64[bytes / 8]
        The buffers, in two views of the same memory.
    leaves, nodes, places, rows, lows
        As `check_frame` saw them; `lows`: leaf of the low parts, int64[keys, indicators].
    presence : int64[indicators]
        Which rows have it: `ALL`, `NONE` or `SOME`.
    covered : int64[keys, 2]
        Out: sum of the counts' upper and lower halves.
    bits, largest : int64[indicators], float64[indicators]
        Out: OR of the magnitudes of integer sums, largest magnitude of float sums.

    Returns
    -------
    (int, bool)
        What is wrong; whether some string is not ASCII. `TIED` where nothing else is wrong, but
        rows of one hash follow each other, whose order by value is still to be checked.
    """
    most = np.int64(0)
    for k in range(rows.shape[0]):
        most = max(most, rows[k])
    hashes = np.empty(most, np.uint64)
    foreign = False
    tied = False
    for leaf in range(leaves.shape[0]):
        role, key, node, buffer, at = (
            leaves[leaf, 0], leaves[leaf, 1], leaves[leaf, 2], leaves[leaf, 3], leaves[leaf, 4],
        )  # fmt: skip
        size = rows[key]
        if role == LIST:
            if words[places[buffer + 1, 0] >> 3] != size << 32:
                return OFFSETS, foreign
            continue
        if role == NOTHING:
            for i in range(size):
                hashes[i] = _folded(hashes[i], NULL_HASH, at)
            continue
        nulls = nodes[node, 1]
        valid, base = places[buffer, 0], places[buffer + 1, 0]
        if _bits_are_wrong(data, valid, size, nulls):
            return BITS, foreign
        end = base + places[buffer + 1, 1]
        if role == BOOL:
            if not _tail_is_zero(data, base, size, base + _padded(places[buffer + 1, 1])):
                return PADDED, foreign
        elif end & 7 and _word32(words, base, (end - base) >> 2) != 0:
            return PADDED, foreign
        if role == TEXT or role == WIDE_TEXT:
            text, length = places[buffer + 2, 0], places[buffer + 2, 1]
            previous = np.int64(0)
            for i in range(size + 1):
                offset = words[(base >> 3) + i] if role == WIDE_TEXT else _word32(words, base, i)
                if offset < previous or offset > length or (i == 0 and offset != 0):
                    return OFFSETS, foreign
                if i > 0:
                    if nulls and not _bit(data, valid, i - 1):
                        if offset != previous:
                            return HIDDEN, foreign
                        h = NULL_HASH
                    else:
                        h = hash_bytes(data, text + previous, text + offset, _SEED)
                    hashes[i - 1] = _folded(hashes[i - 1], h, at)
                previous = offset
            if previous != length:
                return OFFSETS, foreign
            high = np.int64(0)
            for i in range(text >> 3, (text + _padded(length)) >> 3):
                high |= words[i]
            foreign = foreign or high & np.int64(-0x7F7F7F7F7F7F7F80) != 0
            for i in range(text + length, text + _padded(length)):
                if data[i] != np.uint8(0):
                    return PADDED, foreign
            continue
        if role == BOOL or role == DATE or role == INTEGER:
            for i in range(size):
                if role == BOOL:
                    value = np.int64(_bit(data, base, i))
                elif role == DATE:
                    value = _word32(words, base, i)
                else:
                    value = words[(base >> 3) + i]
                if nulls and not _bit(data, valid, i):
                    if value != 0:
                        return HIDDEN, foreign
                    hashes[i] = _folded(hashes[i], NULL_HASH, at)
                else:
                    hashes[i] = _folded(hashes[i], hash_u64(np.uint64(value), _SEED), at)
            continue
        sums = words[base >> 3 : (base >> 3) + size]
        if role == UNTYPED or role == SUM or role == FLOAT:
            if (presence[at] == ALL and nulls != 0) or (presence[at] == NONE and nulls != size):
                return NULLS, foreign
        if role == COUNT:
            for i in range(1, size):  # all parts of the key stand before its count
                if hashes[i] <= hashes[i - 1]:
                    if hashes[i] < hashes[i - 1]:
                        return ORDER, foreign
                    tied = True
            for i in range(size):
                if sums[i] <= 0:
                    return EMPTY_ROW, foreign
                covered[key, 0] += sums[i] >> 32
                covered[key, 1] += sums[i] & 0xFFFFFFFF
        elif role == UNTYPED:
            for i in range(size):
                if sums[i] != 0:
                    return NO_TYPE, foreign
        elif role == SUM:
            if nulls == 0:
                seen = np.int64(0)
                for i in range(size):
                    seen |= sums[i] ^ (sums[i] >> 63)
                bits[at] |= seen
            else:
                for i in range(size):
                    if sums[i] != 0 and not _bit(data, valid, i):
                        return HIDDEN, foreign
                    bits[at] |= sums[i] ^ (sums[i] >> 63)
        elif role == FLOAT:
            low_base = places[leaves[lows[key, at], 3] + 1, 0] >> 3
            low_words = words[low_base : low_base + size]
            highs, low_parts = sums.view(np.float64), low_words.view(np.float64)
            for i in range(size):
                if sums[i] == _MINUS_ZERO or low_words[i] == _MINUS_ZERO:
                    return ABNORMAL, foreign
                high, low = highs[i], low_parts[i]
                if not np.isfinite(high) or not np.isfinite(low) or high + low != high:
                    return ABNORMAL, foreign
                if nulls and (sums[i] != 0 or low_words[i] != 0) and not _bit(data, valid, i):
                    return HIDDEN, foreign
                largest[at] = max(largest[at], abs(high))
    if tied:
        return TIED, foreign
    return FINE, foreign


@inlined()
def _folded(before, h, part):
    """As `fold_hashes`; the first part's hash stands for itself."""
    if part == 0:
        return h
    return hash_u64(before * _PRIME_2 + h, _SEED)
