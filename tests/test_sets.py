"""Sets of numbers as arrays."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from muntin.sets import as_set, sums_of_set

NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3)


@given(st.lists(NUMBERS))
def test_each_number_once_in_order(numbers):
    given_numbers = np.array(numbers, np.int64)
    assert as_set(given_numbers).tolist() == sorted(set(numbers))
    assert given_numbers.tolist() == numbers


@given(st.lists(st.tuples(NUMBERS, st.integers(0, 2**40), st.integers(-5, 5))), st.booleans())
def test_sums_of_each_number(rows, ascending):
    rows = sorted(rows) if ascending else rows
    columns = [np.array([row[i] for row in rows], np.int64) for i in range(3)]
    found, firsts, seconds = sums_of_set(*columns)
    wanted = {number: [0, 0] for number in sorted(row[0] for row in rows)}
    for number, first, second in rows:
        wanted[number][0] += first
        wanted[number][1] += second
    assert found.tolist() == list(wanted)
    assert [list(sums) for sums in zip(firsts.tolist(), seconds.tolist(), strict=True)] == list(
        wanted.values()
    )
