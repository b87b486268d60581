"""One pass over many panes closes the same windows as one pane after another."""

from __future__ import annotations

from importlib.resources import files
from typing import get_args

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from pane_by_pane import close_before, close_by, take

from muntin.segments.building import build
from muntin.segments.sums import Sums
from muntin.windows.floating import Boundary, FloatingWindow, Reason, close_windows
from muntin.windows.grid import starts_of_windows, tiles_of_runs

PANE = 10


def plainly(window, panes, sealed_until):
    """The rule, pane by pane, over sets of keys."""
    runs, held, ends = [], None, []

    def close(window, boundary):
        # a window that was shortened ends with what it holds
        end = max([boundary.end, *ends]) if boundary.reason == "full" else boundary.end
        runs.append(
            (Boundary(boundary.start, end, boundary.reason, boundary.overflowed), fill(held))
        )

    for start, keys in panes:
        window, boundary = close_by(window, start)
        if boundary:
            close(window, boundary)
            held, ends = None, []
        if held is not None:
            after = [a | b for a, b in zip(held, keys, strict=True)]
            window, boundary = close_before(window, start, dict(enumerate(fill(after))))
            if boundary:
                close(window, boundary)
                held, ends = None, []
        held = keys if held is None else [a | b for a, b in zip(held, keys, strict=True)]
        ends.append(start + PANE)
        window = take(window, start, dict(enumerate(fill(held))))
    window, boundary = close_by(window, sealed_until)
    if boundary:
        close(window, boundary)
    return runs, window


def fill(held):
    return tuple(len(keys) for keys in held)


@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 5), st.integers(0, 3)), max_size=40),
    st.integers(1, 8),
    st.none() | st.integers(1, 6) | st.just(1 << 63),
    st.integers(0, 3),
    st.integers(0, 30),
)
def test_windows_close_as_pane_by_pane(events, length, capacity, more, cut):
    events.sort()
    window = FloatingWindow(length * PANE, 8 * length * PANE, capacity)
    sealed_until = (max((e[0] for e in events), default=0) + 1 + more) * PANE
    slices = np.array([e[0] for e in events], np.int64)
    columns = {
        name: pa.array([e[i] for e in events], pa.int64()) for i, name in ((1, "a"), (2, "b"))
    }
    segment = build(Sums(), slices, [], [("a",), ("b",)], columns)
    panes = [
        (s * PANE, [{e[1] for e in events if e[0] == s}, {e[2] for e in events if e[0] == s}])
        for s in segment.slices.tolist()
    ]
    expected, left = plainly(window, panes, sealed_until)
    starts = segment.slices * PANE
    runs, after, first = close_windows(window, segment, starts, starts + PANE, sealed_until)
    found = [
        (
            boundary,
            tuple(
                len(set().union(*keys)) for keys in zip(*(k for _, k in panes[a:b]), strict=True)
            ),
        )
        for boundary, a, b in runs
    ]
    assert found == expected
    assert after == left
    assert [0, *[b for _, _, b in runs]] == [*[a for _, a, _ in runs], first]


@given(st.lists(st.integers(-50, 50), max_size=20), st.integers(1, 6), st.integers(1, 6))
def test_windows_of_many_panes(panes, length, every):
    every = min(every, length)
    starts = np.unique(np.array(panes, np.int64)) * PANE
    expected = {
        start
        for start in range(-60 * PANE, 51 * PANE, PANE)
        if start % (every * PANE) == 0
        and any(start <= pane < start + length * PANE for pane in starts.tolist())
    }
    found = starts_of_windows(starts, length * PANE, every * PANE)
    assert found.tolist() == sorted(expected)


def test_a_sliding_window_of_very_many_panes_takes_no_table_of_both():
    many = 1 << 20
    found = starts_of_windows(np.arange(many) * PANE, many * PANE, PANE)
    assert np.array_equal(found, np.arange(1 - many, many) * PANE)


@given(st.lists(st.tuples(st.integers(-300, 300), st.integers(1, 200)), max_size=9))
def test_runs_are_tiled_by_few_aligned_tiles(runs):
    starts = np.array([start for start, _ in runs], np.int64)
    lengths = np.array([length for _, length in runs], np.int64)
    held = [[] for _ in runs]
    for run, level, number in zip(*tiles_of_runs(starts, starts + lengths), strict=True):
        held[run].append(range(number << level, (number + 1) << level))
    for (start, length), tiles in zip(runs, held, strict=True):
        units = sorted(unit for tile in tiles for unit in tile)
        assert units == list(range(start, start + length))
        assert len(tiles) <= 2 * length.bit_length()


def test_the_dashboard_names_and_colours_each_reason():
    text = files("muntin.server").joinpath("dashboard/closings.js").read_text()
    for what in ("COLOUR", "MEANS"):
        known = text.partition(f"const {what} = {{")[2].partition("}")[0]
        assert {part.split(":")[0].strip() for part in known.split(",")} >= set(get_args(Reason))
