"""Rollups tile a window exactly, with slices that may be used, and few of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muntin.errors import BadArgument
from muntin.windows.cover import SECOND, checked_ladder, cover, ladder

LENGTHS = (10, 60, 600, 3600)
edges = st.integers(0, 3000).map(lambda i: i * 10)


@given(edges, edges, st.sets(st.tuples(st.sampled_from(LENGTHS[1:]), st.integers(0, 100))))
def test_slices_tile_the_window(a, b, unusable):
    start, end = min(a, b), max(a, b)
    barred = {(length, number * length) for length, number in unusable}
    runs = list(cover(start, end, LENGTHS, lambda length, at: (length, at) not in barred))
    at = start
    for length, first, until in runs:
        assert first == at
        assert first < until
        assert first % length == until % length == 0
        assert length == 10 or all((length, s) not in barred for s in range(first, until, length))
        at = until
    assert at == max(start, end) or start >= end


@given(edges, edges)
def test_few_slices_where_all_rollups_stand(a, b):
    start, end = min(a, b), max(a, b)
    runs = cover(start, end, LENGTHS, lambda length, at: True)
    slices = sum((until - first) // length for length, first, until in runs if length < 3600)
    assert slices <= 2 * (5 + 9 + 5)


def test_ladders():
    assert ladder(10 * SECOND)[:3] == (60 * SECOND, 600 * SECOND, 3600 * SECOND)
    assert checked_ladder(10, (60, 600)) == (60, 600)
    with pytest.raises(BadArgument, match="not a multiple"):
        checked_ladder(10, (60, 90))
