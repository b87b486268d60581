"""Sets of numbers as arrays."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from muntin.sets import as_set

NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3)


@given(st.lists(NUMBERS))
def test_each_number_once_in_order(numbers):
    given_numbers = np.array(numbers, np.int64)
    assert as_set(given_numbers).tolist() == sorted(set(numbers))
    assert given_numbers.tolist() == numbers
