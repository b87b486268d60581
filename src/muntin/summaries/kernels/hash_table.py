"""Numbering distinct values: open addressing over strings in Arrow's buffers, and over integers.

A value's number is its order of first appearance. A slot is one word: the upper half of the
value's hash, then number + 1 (0 is empty). The lower half of the hash chooses the slot; it has
nothing to do with the XXH64 that orders a segment's rows, so rows that come in that order do not
pile up in one region of the table.

Events go through in blocks: hash all and prefetch their slots, read the slots and prefetch what
they point to, then compare. The memory latencies of a block overlap. A value that is not found so
is looked up once more before it is appended: an earlier one of the block may have been the same.

Every `number_*` returns early, with the position it came to, where the next block might not fit:
the caller makes space and calls again. `state` is int64[2]: values numbered, and the number of
null (-1 while there is none).
"""

import numpy as np

from muntin.summaries.kernels import inlined, kernel
from muntin.summaries.kernels.memory import copy_bytes, load_u64, prefetch
from muntin.summaries.kernels.mixing import mix_bytes, mix_integer, mix_words, same_bytes

BLOCK = 64
CACHED_SLOTS = 4096  # a table of so many slots, and its strings, stay in the first caches
SLACK = 16  # bytes behind the last string, so that short ones are read in two loads
_LOW = np.uint64(0xFFFFFFFF)
_HIGH = np.uint64(0xFFFFFFFF00000000)
_ONE = np.uint64(1)


@inlined()
def _is_null(bits, position):
    return (bits[position >> 3] >> np.uint8(position & 7)) & np.uint8(1) == np.uint8(0)


@inlined()
def slot_of(slots, h, mask):
    """First number + 1 whose tag is that of `h`, or 0; unsigned, so that indexing is direct."""
    at = h & mask
    entry = slots[at]
    while entry != np.uint64(0) and (entry ^ h) & _HIGH != np.uint64(0):
        at = (at + _ONE) & mask
        entry = slots[at]
    return entry & _LOW


@inlined()
def _string_slowly(data, start, length, h, slots, hashes, starts, arena, state):
    """Number of a string, wherever it is; appended where it is new. Inlined: a call would pass
    seven fields of each array."""
    mask = np.uint64(slots.shape[0] - 1)
    at = h & mask
    number = np.int64(-1)
    entry = slots[at]
    while entry != np.uint64(0):
        if (entry ^ h) & _HIGH == np.uint64(0):
            known = (entry & _LOW) - _ONE
            if starts[known + _ONE] - starts[known] == length and same_bytes(
                data, start, arena, starts[known], length
            ):
                number = np.int64(known)
                break
        at = (at + _ONE) & mask
        entry = slots[at]
    if number < 0:
        number = state[0]
        to = starts[number]
        copy_bytes(arena, to, data, start, length)
        starts[number + 1] = to + length
        hashes[number] = h
        slots[at] = (h & _HIGH) | np.uint64(number + 1)
        state[0] = number + 1
    return number


@inlined()
def _are_short(edges, size, data):
    """Whether a block's strings have at most 16 bytes, and all of them 8 bytes to be loaded."""
    longest = np.int64(0)
    for j in range(size):
        longest = max(longest, np.int64(edges[j + 1]) - np.int64(edges[j]))
    return longest <= 16 and np.int64(edges[size]) + 8 <= data.shape[0]


@inlined()
def _short_words(data, start, length):
    """A string of at most 16 bytes as two words, without a branch; as `mix_bytes` takes them."""
    whole = np.uint64(0) - np.uint64(length >= 8)  # all bits, or none
    kept = whole | ((_ONE << np.uint64(8 * (length & 7))) - _ONE)
    first = load_u64(data, start) & kept  # of a shorter one, what is behind it is cut off
    last = load_u64(data, start + max(length - 8, 0)) & whole
    return first, last


@inlined()
def _is_short(first, last, length, number, starts, arena):
    """Whether a numbered string is this one."""
    at = starts[number]
    known = starts[number + _ONE] - at
    one, two = _short_words(arena, at, length)
    return (np.uint64(known ^ length) | (one ^ first) | (two ^ last)) == np.uint64(0)


@inlined()
def _number_null(starts, state):
    """Number of null: the next one, and no bytes, where there was none."""
    if state[1] < 0:
        used = state[0]
        starts[used + 1] = starts[used]
        state[1] = used
        state[0] = used + 1
    return state[1]


@kernel()
def _number_short(
    data, edges, size, bits, bit, slots, hashes, starts, arena, state, block_hashes, block_found,
    numbers,
):  # fmt: skip
    """A block of short strings; what stands under a null is looked up as well, and not used."""
    nulls = bits.shape[0] > 0
    mask = np.uint64(slots.shape[0] - 1)
    far = slots.shape[0] > CACHED_SLOTS
    if far:
        for j in range(size):
            start = np.int64(edges[j])
            length = np.int64(edges[j + 1]) - start
            first, last = _short_words(data, start, length)
            h = mix_words(first, last, length)
            block_hashes[j] = h
            prefetch(slots, np.int64(h & mask))
        for j in range(size):
            found = slot_of(slots, block_hashes[j], mask)
            block_found[j] = found
            prefetch(starts, np.int64(found))
        for j in range(size):
            prefetch(arena, starts[block_found[j]])
    for j in range(size):
        start = np.int64(edges[j])
        length = np.int64(edges[j + 1]) - start
        first, last = _short_words(data, start, length)
        h = block_hashes[j] if far else mix_words(first, last, length)
        found = block_found[j] if far else slot_of(slots, h, mask)
        if nulls and _is_null(bits, bit + j):
            numbers[j] = _number_null(starts, state)
        elif found != np.uint64(0) and _is_short(first, last, length, found - _ONE, starts, arena):
            numbers[j] = np.int64(found - _ONE)
        else:
            numbers[j] = _string_slowly(data, start, length, h, slots, hashes, starts, arena, state)


@kernel()
def number_strings(
    data, offsets, begin, end, bits, bit_offset, slots, hashes, starts, arena, state, out
):
    """`out[i - begin]` = number of string i, for i in [begin, end); new strings are appended.

    `data`, `offsets` (uint8[m], int32 or int64[n + 1]): the strings.
    `bits`, `bit_offset` (uint8[], int): Arrow's validity bitmap and the bit of string 0; empty
      where nothing is null.
    `slots`, `hashes`, `starts`, `arena`: uint64[power of two], uint64[capacity], int64[capacity +
      1], uint8[bytes]: the numbered strings; an arena ends in `SLACK` bytes that are not used.
    """
    mask = np.uint64(slots.shape[0] - 1)
    block_hashes = np.empty(BLOCK, np.uint64)
    block_found = np.empty(BLOCK, np.uint64)
    nulls = bits.shape[0] > 0
    at = begin
    while at < end:
        size = min(BLOCK, end - at)
        used = state[0]
        if used + size > hashes.shape[0]:
            return at
        if starts[used] + (offsets[at + size] - offsets[at]) + SLACK > arena.shape[0]:
            return at
        edges = offsets[at : at + size + 1]
        numbers = out[at - begin : at - begin + size]
        if _are_short(edges, size, data):
            _number_short(
                data, edges, size, bits, bit_offset + at, slots, hashes, starts, arena, state,
                block_hashes, block_found, numbers,
            )  # fmt: skip
            at += size
            continue
        for j in range(size):
            start = np.int64(edges[j])
            h = mix_bytes(data, start, np.int64(edges[j + 1]) - start)
            block_hashes[j] = h
            prefetch(slots, np.int64(h & mask))
        for j in range(size):
            found = slot_of(slots, block_hashes[j], mask)
            block_found[j] = found
            prefetch(starts, np.int64(found))
        if slots.shape[0] > CACHED_SLOTS:
            for j in range(size):
                found = block_found[j]
                prefetch(arena, starts[found])
                if found != np.uint64(0):
                    prefetch(arena, starts[found - _ONE])
        for j in range(size):
            start = np.int64(edges[j])
            length = np.int64(edges[j + 1]) - start
            found = block_found[j]
            if nulls and _is_null(bits, bit_offset + at + j):
                numbers[j] = _number_null(starts, state)
                continue
            if found != np.uint64(0):
                known = starts[found - _ONE]
                if starts[found] - known == length and same_bytes(
                    data, start, arena, known, length
                ):
                    numbers[j] = np.int64(found - _ONE)
                    continue
            numbers[j] = _string_slowly(
                data, start, length, block_hashes[j], slots, hashes, starts, arena, state
            )
        at += size
    return at


@inlined()
def _integer_slowly(value, h, slots, known, state):
    mask = np.uint64(slots.shape[0] - 1)
    at = h & mask
    number = np.int64(-1)
    entry = slots[at]
    while entry != np.uint64(0):
        if (entry ^ h) & _HIGH == np.uint64(0) and known[(entry & _LOW) - _ONE] == value:
            number = np.int64((entry & _LOW) - _ONE)
            break
        at = (at + _ONE) & mask
        entry = slots[at]
    if number < 0:
        number = state[0]
        known[number] = value
        slots[at] = (h & _HIGH) | np.uint64(number + 1)
        state[0] = number + 1
    return number


@inlined()
def _number_block(values, hashes, found, slots, known, state, out):
    """Numbers of a block of integers, none of them null; `hashes` and `found` are filled."""
    mask = np.uint64(slots.shape[0] - 1)
    size = values.shape[0]
    for j in range(size):
        h = mix_integer(values[j])
        hashes[j] = h
        prefetch(slots, np.int64(h & mask))
    for j in range(size):
        number = slot_of(slots, hashes[j], mask)
        found[j] = number
        prefetch(known, np.int64(number))
    for j in range(size):
        number = found[j]
        if number != np.uint64(0) and known[number - _ONE] == values[j]:
            out[j] = np.int64(number - _ONE)
        else:
            out[j] = _integer_slowly(values[j], hashes[j], slots, known, state)


@kernel()
def number_integers(values, begin, end, bits, bit_offset, slots, known, state, out):
    """As `number_strings`, for int64 values; `known` is int64[capacity], the numbered integers."""
    hashes = np.empty(BLOCK, np.uint64)
    found = np.empty(BLOCK, np.uint64)
    nulls = bits.shape[0] > 0
    at = begin
    while at < end:
        size = min(BLOCK, end - at)
        if state[0] + size > known.shape[0]:
            return at
        if not nulls:
            _number_block(
                values[at : at + size], hashes, found, slots, known, state,
                out[at - begin : at - begin + size],
            )  # fmt: skip
            at += size
            continue
        for i in range(at, at + size):
            if not _is_null(bits, bit_offset + i):
                h = mix_integer(values[i])
                out[i - begin] = _integer_slowly(values[i], h, slots, known, state)
                continue
            if state[1] < 0:
                used = state[0]
                known[used] = 0
                state[1] = used
                state[0] = used + 1
            out[i - begin] = state[1]
        at += size
    return at


@kernel()
def number_pairs(left, right, begin, slots, known, state, out):
    """As `number_integers`, of pairs of numbers: `out[i]` from event `begin` on, to the end."""
    packed = np.empty(BLOCK, np.int64)
    hashes = np.empty(BLOCK, np.uint64)
    found = np.empty(BLOCK, np.uint64)
    at = begin
    while at < left.shape[0]:
        size = min(BLOCK, left.shape[0] - at)
        if state[0] + size > known.shape[0]:
            return at
        for j in range(size):
            one, two = np.int64(left[at + j]), np.int64(right[at + j])
            packed[j] = (one << 32) | two
        _number_block(packed[:size], hashes, found, slots, known, state, out[at : at + size])
        at += size
    return at


@kernel()
def mix_integers(values, out):
    """What the table hashes integers to."""
    for i in range(values.shape[0]):
        out[i] = mix_integer(values[i])


@inlined()
def place(slots, h, number):
    """Put a number into the first free slot from its own; the table is never full."""
    mask = np.uint64(slots.shape[0] - 1)
    at = h & mask
    while slots[at] != np.uint64(0):
        at = (at + _ONE) & mask
    slots[at] = (h & _HIGH) | np.uint64(number + 1)


@kernel()
def fill_slots(slots, hashes, used, null):
    """Put the numbers 0 ... used - 1, except that of null, into empty slots."""
    mask = np.uint64(slots.shape[0] - 1)
    ahead = 16
    for number in range(used):
        if number + ahead < used:
            prefetch(slots, np.int64(hashes[number + ahead] & mask))
        if number != null:
            place(slots, hashes[number], number)
