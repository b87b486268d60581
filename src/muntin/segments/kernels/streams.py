"""Numbers in the fewest bytes, each byte's place in a row of its own, which compresses better."""

import numpy as np

from muntin.summaries.kernels import inlined, kernel
from muntin.summaries.kernels.compaction import GOLDEN
from muntin.summaries.kernels.order_keys import key_of
from muntin.summaries.kernels.sorting import sort_pairs

CODED_SHARE = 8  # items for each different one, at least, where they are written as codes
CODED_MAX = 1 << 16  # different items: two bytes each
PROBES_MAX = 8  # for an item, in the mean
CODE_BITS = 32


@kernel()
def narrowed(values, starts, raw, spare):
    """Of each stream i, values[starts[i]:starts[i + 1]] (int64): the smallest, the bytes that each
    needs beyond it, how many there are, and the planes, behind those of the stream before: byte b
    of value i less the smallest (wrapping) at place b * n + i.

    raw : bool[streams]
        Bytes, which stay so.
    spare : bool[streams]
        None where all are zeros.
    """
    streams = starts.shape[0] - 1
    bases, widths = np.zeros(streams, np.int64), np.empty(streams, np.int64)
    counts = np.empty(streams, np.int64)
    size = 0
    for stream in range(streams):
        some = values[starts[stream] : starts[stream + 1]]
        base, width = np.int64(0), 1
        if not raw[stream]:
            base, width = base_and_width(some)
        bases[stream] = base
        widths[stream] = width
        counts[stream] = 0 if spare[stream] and base == 0 and width == 0 else some.shape[0]
        size += width * some.shape[0]
    planes = np.empty(size, np.uint8)
    at = 0
    for stream in range(streams):
        some = values[starts[stream] : starts[stream + 1]]
        for b in range(widths[stream]):
            plane_of(some, bases[stream], b, planes[at : at + some.shape[0]])
            at += some.shape[0]
    return bases, widths, counts, planes


@inlined()
def plane_of(values, base, b, plane):
    """Byte b of each value less the base (wrapping)."""
    shift = np.uint64(8 * b)
    for i in range(values.shape[0]):
        plane[i] = np.uint8((np.uint64(values[i]) - np.uint64(base)) >> shift)


@inlined()
def base_and_width(values):
    """The smallest value, 0 where there is none, and the bytes that the others need beyond it."""
    low = high = np.int64(0)
    if values.shape[0]:
        low = high = values[0]
    for i in range(values.shape[0]):
        low = min(low, values[i])
        high = max(high, values[i])
    spread = np.uint64(high) - np.uint64(low)
    if spread > np.uint64(0xFFFFFFFF):
        return low, 8
    if spread > np.uint64(0xFFFF):
        return low, 4
    if spread > np.uint64(0xFF):
        return low, 2
    return low, 1 if spread > np.uint64(0) else 0


@kernel()
def widen(planes, base, width, out):
    """The inverse of `narrowed`."""
    n = out.shape[0]
    for i in range(n):
        out[i] = base
    for b in range(width):
        shift = np.uint64(8 * b)
        at = b * n
        for i in range(n):
            out[i] = np.int64(np.uint64(out[i]) + (np.uint64(planes[at + i]) << shift))


@kernel()
def widen_streams(payload, forms, widths, compressed, coded, bases, counts, stored, starts, out):
    """`widen` for each stream of a directory, at out[starts[i]:starts[i + 1]]; nothing there for
    those that are compressed, or not as long as they should be.

    The directory is not checked yet, but for this: `out` has room for the numbers of all streams
    that are not compressed, which are so few that no product here wraps.
    """
    at = filled = np.uint64(0)
    for i in range(counts.shape[0]):
        starts[i] = np.int64(filled)
        size, count, width = stored[i], counts[i], np.uint64(widths[i])
        if size > np.uint64(payload.shape[0]) - at:
            starts[i + 1 :] = starts[i]
            return
        if not compressed[i] and width <= np.uint64(8) and size == count * width:
            planes = payload[at : at + size]
            widen(planes, bases[i], np.int64(width), out[filled : filled + count])
            filled += count
        at += size
    starts[counts.shape[0]] = np.int64(filled)


@kernel()
def to_halves(plane, halves):
    """Two numbers below 16 a byte."""
    for i in range(plane.shape[0] // 2):
        halves[i] = plane[2 * i] | (plane[2 * i + 1] << 4)
    if plane.shape[0] % 2:
        halves[-1] = plane[-1]


@kernel()
def from_halves(halves, count, planes):
    """The inverse for the last `count` of all bytes; those before are as they are."""
    first = planes.shape[0] - count
    planes[:first] = halves[:first]
    for i in range(count):
        planes[first + i] = (halves[first + i // 2] >> (4 * (i % 2))) & 15


@kernel()
def split_lists(starts, items, firsts, steps):
    """The first item of each list, and each later one less the one before (wrapping)."""
    lists = 0
    filled = 0
    for i in range(starts.shape[0] - 1):
        if starts[i] == starts[i + 1]:
            continue
        firsts[lists] = items[starts[i]]
        lists += 1
        for j in range(starts[i] + 1, starts[i + 1]):
            steps[filled] = items[j] - items[j - 1]
            filled += 1
    return lists


@kernel()
def coded(items, firsts, steps, codes):
    """The different items, ascending, and which of them each is (`codes`, int64[n]); none where
    that would not be shorter.

    firsts, steps : of the items themselves, which two bytes each are enough for as they are.

    Real streams bring the same items again and again, pane by pane: a number of two bytes stands
    for each, in place of a hash of eight.
    """
    limit = min(items.shape[0] // CODED_SHARE, CODED_MAX)
    values = np.empty(limit, np.int64)
    if limit == 0 or max(base_and_width(firsts)[1], base_and_width(steps)[1]) <= 2:
        return values[:0]
    bits = 1
    while 1 << bits < 2 * limit:
        bits += 1
    slots = np.zeros(1 << bits, np.int32)  # number + 1 of a value
    last = np.uint64(slots.shape[0] - 1)
    left = PROBES_MAX * items.shape[0]  # items may be made to meet in one place: then as they are
    found = 0
    for i in range(items.shape[0]):
        item = items[i]
        at = (np.uint64(item) * GOLDEN) >> np.uint64(64 - bits)
        while slots[at] and values[slots[at] - 1] != item:
            at = (at + np.uint64(1)) & last
            left -= 1
        if left < 0:
            return values[:0]
        if slots[at] == 0:
            if found == limit:
                return values[:0]
            values[found] = item
            found += 1
            slots[at] = found
        codes[i] = slots[at] - 1
    values = values[:found].copy()
    places = np.arange(found)
    sort_pairs(values, places)
    rank = np.empty(found, np.int64)
    for j in range(found):
        rank[places[j]] = j
    for i in range(codes.shape[0]):  # from the order of coming to that of the values
        codes[i] = rank[codes[i]]
    return values


@kernel()
def coded_by_key(codes, starts, key_of, sizes, numbers):
    """Codes in place of codes: each as its place in a list that its key has of its own.

    key_of : int64[lists], the key of each
    sizes : int64[keys], of the keys' lists
    numbers : int64[most], those lists, one after the other. What comes often is in front, so that
      few bytes are used often; of what comes about as often (to a factor of two), the lesser code

    Returns the length of all; -1 where they are more than `numbers` holds, and nothing has changed.
    """
    n = codes.shape[0]
    pairs = np.empty(n, np.int64)
    places = np.arange(n)
    for i in range(key_of.shape[0]):
        for j in range(starts[i], starts[i + 1]):
            pairs[j] = (key_of[i] << CODE_BITS) | codes[j]
    sort_pairs(pairs, places)
    begins = np.empty(numbers.shape[0] + 1, np.int64)
    runs = 0
    for i in range(n):
        if i == 0 or pairs[i] != pairs[i - 1]:
            if runs == numbers.shape[0]:
                return -1
            begins[runs] = i
            runs += 1
    begins[runs] = n
    sizes[:] = 0
    first = filled = 0
    while first < runs:
        key = pairs[begins[first]] >> CODE_BITS
        start, end, most = filled, first, 1
        while end < runs and pairs[begins[end]] >> CODE_BITS == key:
            most = max(most, begins[end + 1] - begins[end])
            end += 1
        least = 1
        while 2 * least <= most:
            least *= 2
        while least:
            for run in range(first, end):
                if least <= begins[run + 1] - begins[run] < 2 * least:
                    numbers[filled] = pairs[begins[run]] & ((1 << CODE_BITS) - 1)
                    for i in range(begins[run], begins[run + 1]):
                        codes[places[i]] = filled - start
                    filled += 1
            least >>= 1
        sizes[key] = filled - start
        first = end
    return filled


@kernel()
def decoded_by_key(starts, key_of, key_starts, values, codes, items):
    """The inverse, by the values of each key's list: values[key_starts[k]:key_starts[k + 1]]; False
    where a code is none of its key's."""
    keys = np.uint64(key_starts.shape[0] - 1)
    for i in range(key_of.shape[0]):
        if np.uint64(key_of[i]) >= keys:
            return False
        first = key_starts[key_of[i]]
        some = np.uint64(key_starts[key_of[i] + 1] - first)
        for j in range(starts[i], starts[i + 1]):
            if np.uint64(codes[j]) >= some:
                return False
            items[j] = values[first + codes[j]]
    return True


@kernel()
def decoded(values, items):
    """Items in place of their codes; False where one is the code of no value."""
    some = np.uint64(values.shape[0])
    for i in range(items.shape[0]):
        if np.uint64(items[i]) >= some:
            return False
        items[i] = values[items[i]]
    return True


@kernel()
def join_lists(starts, firsts, steps, items):
    """The inverse of `split_lists`."""
    lists = 0
    filled = 0
    for i in range(starts.shape[0] - 1):
        if starts[i] == starts[i + 1]:
            continue
        value = firsts[lists]
        lists += 1
        items[starts[i]] = value
        for j in range(starts[i] + 1, starts[i + 1]):
            value += steps[filled]
            filled += 1
            items[j] = value


@kernel()
def to_decimals(bits, keys, scale, out, doubles):
    """Doubles as integers in units of 1 / scale; False where one of them is no such number.

    bits : int64[n]
        The doubles' bits, or (`keys`) their keys of `order_keys`.
    out, doubles : int64[n], float64[n]
        The same memory.
    """
    for i in range(bits.shape[0]):
        out[i] = key_of(bits[i]) if keys else bits[i]
        bit = out[i]
        value = doubles[i]
        whole = np.rint(value * scale)
        if not abs(whole) < 9007199254740992.0:  # 2^53; nor is a NaN
            return False
        doubles[i] = whole / scale  # what will be read, to be compared bit by bit
        if out[i] != bit:
            return False
        out[i] = np.int64(whole)
    return True


@kernel()
def from_decimals(integers, keys, scale, out, doubles):
    """The inverse of `to_decimals`."""
    for i in range(integers.shape[0]):
        doubles[i] = np.float64(integers[i]) / scale
        if keys:
            out[i] = key_of(out[i])
