"""Groups by counting, where slices ascend, and by sorting: the same, as NumPy's sort has them."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from muntin.segments import grouping
from muntin.segments.columns import frozen


@given(
    st.lists(st.tuples(st.integers(-3, 9) | st.just(2**40), st.integers(0, 5)), max_size=300),
    st.booleans(),
    st.sampled_from([5, 200]),
)
def test_groups(rows: list[tuple[int, int]], ascend: bool, keys_max: int) -> None:
    pairs = np.array(rows, np.int64).reshape(-1, 2)
    if ascend:
        pairs = pairs[np.argsort(pairs[:, 0], kind="stable")]
    slices, keys = (frozen(column.copy()) for column in pairs.T)
    found = grouping.group(slices, keys, keys_max)
    order = np.lexsort((keys, slices))
    assert found.groups.order.tolist() == order.tolist()
    different, firsts = np.unique(pairs[order], axis=0, return_index=True)
    assert found.groups.bounds.tolist() == [*firsts.tolist(), len(pairs)]
    assert found.keys.tolist() == different[:, 1].tolist()
    of_slice = np.unique(different[:, 0], return_index=True)
    assert found.slices.tolist() == of_slice[0].tolist()
    assert found.starts.tolist() == [*of_slice[1].tolist(), len(different)]


def test_many_rows_of_a_slice_are_counted() -> None:
    rng = np.random.default_rng(0)
    slices, keys = np.sort(rng.integers(0, 9, 50_000)), rng.integers(0, 1_000, 50_000)
    counted = grouping.group(frozen(slices), frozen(keys), 1_000)
    mixed = rng.permutation(len(slices))
    by_sort = grouping.group(frozen(slices[mixed]), frozen(keys[mixed]), 1_000)
    assert counted.groups.bounds.tolist() == by_sort.groups.bounds.tolist()
    assert counted.keys.tolist() == by_sort.keys.tolist()
    assert counted.starts.tolist() == by_sort.starts.tolist()
    assert (
        np.diff(counted.groups.order)[np.diff(keys[counted.groups.order]) == 0] > 0
    ).all()  # as they came
