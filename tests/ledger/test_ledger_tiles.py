"""Rollups tile a window exactly, with slices that are held, and few of them."""

from hypothesis import given
from hypothesis import strategies as st

from muntin.ledger.rollups import Rollups

LENGTHS = (60, 600, 3600)
edges = st.integers(0, 3000).map(lambda number: number * 10)
reaches = st.dictionaries(
    st.sampled_from(LENGTHS), st.tuples(st.integers(0, 100), st.integers(0, 100)), max_size=3
)


def _rollups(reaches, horizon):
    covered = {n: (min(reach) * n, max(reach) * n) for n, reach in reaches.items()}
    return Rollups(10, covered, {} if horizon is None else {10: horizon})


@given(edges, edges, reaches, st.none() | edges)
def test_tiles_follow_each_other_and_are_held(a, b, reaches, horizon):
    start, end = min(a, b), max(a, b)
    rollups = _rollups(reaches, horizon)
    at = start
    for length, first, until in rollups.tiles(start, end):
        assert first == at
        assert first < until
        at = until
        if length is None:  # nobody holds it: no panes, and no rollup that lies in it whole
            assert until <= horizon
            for longer, (covers_from, covers_until) in rollups.covered.items():
                low = -(-max(first, covers_from) // longer) * longer
                assert low + longer > min(until, covers_until)
        elif length == 10:
            assert horizon is None or first >= horizon
        else:
            assert first % length == until % length == 0
            assert rollups.covered[length][0] <= first
            assert until <= rollups.covered[length][1]
    assert at == max(start, end) or start >= end


@given(edges, edges)
def test_few_slices_where_all_rollups_stand(a, b):
    start, end = min(a, b), max(a, b)
    rollups = Rollups(10, dict.fromkeys(LENGTHS, (0, 360_000)))
    tiles = rollups.tiles(start, end)
    slices = sum((until - first) // length for length, first, until in tiles if length < 3600)
    assert slices <= 2 * (5 + 9 + 5)


def test_panes_that_a_longer_rollup_will_be_made_from_stay():
    covered = {20: (120, 200), 40: (120, 200), 80: (0, 80)}
    assert Rollups(10, dict(covered)).cut(10, 160, 200) == 80  # only panes hold 80 to 120
    assert Rollups(10, covered | {40: (80, 200)}).cut(10, 160, 200) == 160


@given(st.lists(edges, min_size=1, max_size=9), edges, reaches, st.none() | edges)
def test_what_windows_read_is_what_each_reads(starts, until, reaches, horizon):
    rollups = _rollups(reaches, horizon)
    first: dict[int, int] = {}
    for start in starts:
        for length, begin, _ in rollups.tiles(start, until):
            if length is not None:
                first[length] = min(begin, first.get(length, begin))
    assert rollups.read_by(sorted(starts), until) == first
