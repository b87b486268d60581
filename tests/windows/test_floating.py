"""Floating windows against a plain reading of their definition."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pane_by_pane import close_before, close_by, take

from muntin.errors import BadArgument
from muntin.windows.floating import FloatingWindow

PANE = 10


def follow(window, panes):
    """Boundaries that the state machine draws over panes {start: set of keys}."""
    found, held = [], None
    for start in sorted(panes):
        window, boundary = close_by(window, start)
        if boundary:
            found.append(boundary)
            held = None
        if held is not None:
            window, boundary = close_before(window, start, {"k": len(held | panes[start])})
            if boundary:
                found.append(boundary)
                held = None
        held = panes[start] if held is None else held | panes[start]
        window = take(window, start, {"k": len(held)})
    window, boundary = close_by(window, 10**9)
    return found + ([boundary] if boundary else [])


def by_definition(panes, length, capacity):
    """T, W and n as the definition reads, without a state machine."""
    starts, found = sorted(panes), []
    while starts:
        t = starts[0]
        held, end, reason, taken = set(), t + length, "full", 0
        for start in starts:
            if start >= t + length:
                break
            if held and len(held | panes[start]) > capacity:
                end, reason = start, "capacity"
                break
            held |= panes[start]
            taken += 1
        found.append((t, end, reason, len(held) > capacity))
        starts = starts[taken:]
    return found


panes = st.dictionaries(
    st.integers(0, 60).map(lambda i: i * PANE), st.sets(st.integers(0, 12), min_size=1), max_size=30
)


@given(panes, st.integers(1, 8).map(lambda i: i * PANE), st.integers(1, 10))
def test_boundaries_are_those_of_the_definition(panes, length, capacity):
    found = follow(FloatingWindow(length, length, capacity), panes)
    shown = [(b.start, b.end, b.reason, b.overflowed) for b in found]
    assert by_definition(panes, length, capacity) == shown


@given(panes, st.integers(1, 8).map(lambda i: i * PANE), st.integers(1, 10))
def test_every_pane_is_in_exactly_one_window(panes, length, capacity):
    found = follow(FloatingWindow(length, length, capacity), panes)
    for start in panes:
        assert sum(b.start <= start < b.end for b in found) == 1


def test_slow_down_doubles_up_to_the_limit_and_resume_restores():
    window = take(FloatingWindow(length=100, limit=300, capacity=5), 0, {"k": 1})
    assert (window.end, window.rows_max) == (100, 5)
    slower = window.slow_down()
    assert (slower.end, slower.rows_max) == (200, 10)
    assert slower.slow_down() == slower  # 400 would pass the limit
    resumed = slower.resume()
    assert (resumed.end, resumed.rows_max) == (100, 5)
    assert resumed.closed() == FloatingWindow(length=100, limit=300, capacity=5)


@pytest.mark.parametrize(("limit", "factor"), [(800, 8), (799, 4), (300, 2), (100, 1)])
def test_a_lower_limit_lowers_what_was_slowed_down(limit, factor):
    """The length and the capacity alike."""
    lowered = FloatingWindow(length=100, limit=limit, capacity=5, factor=8).within_limit()
    assert (lowered.length_now, lowered.rows_max) == (100 * factor, 5 * factor)


def test_a_pane_beyond_capacity_is_a_window_that_says_so():
    found = follow(FloatingWindow(100, 100, 2), {0: {1, 2, 3}, 10: {4}})
    assert [(b.start, b.end, b.reason, b.overflowed) for b in found] == [
        (0, 10, "capacity", True),
        (10, 110, "full", False),
    ]


def test_a_limit_below_the_length_is_refused():
    with pytest.raises(BadArgument, match="limit 5"):
        FloatingWindow(10, 5, None)
