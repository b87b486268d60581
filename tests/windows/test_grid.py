"""Tumbling and sliding windows hold each pane as often as they should."""

from hypothesis import given
from hypothesis import strategies as st

from muntin.windows.grid import windows_of


@given(st.integers(-100, 1000), st.integers(1, 20), st.integers(1, 20))
def test_each_pane_is_in_every_window_that_holds_it(pane, every, more):
    length = every + more - 1
    found = list(windows_of(pane, length, every))
    expected = [
        (start, start + length)
        for start in range(-2000, 2000)
        if start % every == 0 and start <= pane < start + length
    ]
    assert expected == found
