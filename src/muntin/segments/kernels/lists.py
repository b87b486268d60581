"""Lists in a row: list i is items[starts[i]:starts[i + 1]]."""

import numpy as np

from muntin.summaries.kernels import kernel
from muntin.summaries.kernels.copying import fill

SHORT = 48  # items, of which NumPy's sort takes longer to be called than to be waited for
NOT_THERE, FALLS, IN_NO_ROW, REST = 1, 2, 3, 4  # what `problem_of_numbers` finds
TOO_MANY = 5  # what `problem_of_slices` finds, or NOT_THERE


@kernel()
def keep_present(order, bounds, missing, kept, kept_bounds, absent):
    """The events of each group that are not missing, and how many are.

    order, bounds : int64[n], int64[groups + 1]
    missing : bool[n]
    kept, kept_bounds, absent : int64[n], int64[groups + 1], int64[groups]
    """
    filled = 0
    kept_bounds[0] = 0
    for g in range(bounds.shape[0] - 1):
        for i in range(bounds[g], bounds[g + 1]):
            if not missing[order[i]]:
                kept[filled] = order[i]
                filled += 1
        kept_bounds[g + 1] = filled
        absent[g] = bounds[g + 1] - bounds[g] - (filled - kept_bounds[g])
    return filled


@kernel()
def sum_counts(counts, order, bounds, out):
    """`out[g]` = sum of the counts of group g."""
    for g in range(bounds.shape[0] - 1):
        total = 0
        for i in range(bounds[g], bounds[g + 1]):
            total += counts[order[i]]
        out[g] = total


@kernel()
def lay_out(sizes, least, most, starts):
    """Where lists of these sizes begin; False where one has less than `least`, or all have more
    than `most`."""
    at = 0
    starts[0] = 0
    for i in range(sizes.shape[0]):
        if sizes[i] < least or sizes[i] > most - at:  # at + size might wrap
            return False
        at += sizes[i]
        starts[i + 1] = at
    return True


@kernel()
def has_ties(values):
    """Whether values that ascend have equal ones; None where they do not ascend."""
    ties = False
    for i in range(1, values.shape[0]):
        if values[i] < values[i - 1]:
            return None
        ties |= values[i] == values[i - 1]
    return ties


@kernel()
def are_events(events, most):
    """Whether each is above 0, and all together are at most `most`."""
    total = 0
    for i in range(events.shape[0]):
        if events[i] < 1 or events[i] > most - total:
            return False
        total += events[i]
    return True


@kernel()
def problem_of_slices(slices, events, own, starts, of_row, tells):
    """0, or why a table's slices `own` cannot be of a segment that has `slices`, ascending.

    tells : bool
        Whether `events` are those of each slice, which a table's rows cannot be beyond.
    """
    at = 0
    for s in range(own.shape[0]):
        while at < slices.shape[0] and slices[at] < own[s]:
            at += 1
        if at == slices.shape[0] or slices[at] != own[s]:
            return NOT_THERE
        if tells:
            left = events[at]
            for i in range(starts[s], starts[s + 1]):
                left -= of_row[i]
            if left < 0:
                return TOO_MANY
    return 0


@kernel()
def problem_of_numbers(numbers, starts, size, all_used, with_rest):
    """0, or what is wrong with numbers of 0 ... size, `size` being the rest.

    starts : int64
        Where lists begin, in which numbers must ascend.
    all_used : bool
        Whether each number below `size` must occur.
    with_rest : bool
        Whether there may be a rest.
    """
    used = np.zeros(size + 1, np.uint8)
    for i in range(numbers.shape[0]):
        if numbers[i] < 0 or numbers[i] > size:
            return NOT_THERE
        used[numbers[i]] = 1
    for s in range(starts.shape[0] - 1):
        for i in range(starts[s] + 1, starts[s + 1]):
            if numbers[i] <= numbers[i - 1]:
                return FALLS
    if all_used:
        for number in range(size):
            if used[number] == 0:
                return IN_NO_ROW
    if used[size] and not with_rest:
        return REST
    return 0


@kernel()
def renumber(numbers, used, new):
    """How many of the numbers below used.shape[0] - 1 occur; these, ascending, in `used`. Where
    not all do, `new` has the place there of each, and behind the last what was behind all."""
    size = used.shape[0] - 1
    places = np.empty(size + 1, np.int64)
    fill(places, -1)
    for i in range(numbers.shape[0]):
        places[numbers[i]] = 0
    found = 0
    for number in range(size):
        if places[number] == 0:
            used[found] = number
            places[number] = found
            found += 1
    places[size] = found
    if found < size:
        for i in range(numbers.shape[0]):
            new[i] = places[numbers[i]]
    return found


@kernel()
def sort_short_lists(items, starts, bounds):
    """Sort each list of items[starts[g]:starts[g + 1]] that is made of more than one row, and is
    short; whether another one is not."""
    others = False
    for g in range(bounds.shape[0] - 1):
        first = starts[g]
        last = starts[g + 1]
        if bounds[g + 1] - bounds[g] < 2:
            continue
        if last - first > SHORT:
            others = True
            continue
        for i in range(first + 1, last):
            item = items[i]
            j = i
            while j > first and items[j - 1] > item:
                items[j] = items[j - 1]
                j -= 1
            items[j] = item
    return others


@kernel()
def in_order_of_coming(numbers, size, codes, used):
    """Numbers below `size` as 0, 1, ... in the order in which they come; `size`, null, is 0. `used`
    takes the number that each code stands for; returns how many there are."""
    to = np.full(size, -1, np.int64)
    count = 0
    for i in range(numbers.shape[0]):
        number = numbers[i]
        if number == size:
            codes[i] = 0
            continue
        if to[number] < 0:
            to[number] = count
            used[count] = number
            count += 1
        codes[i] = to[number]
    return count
