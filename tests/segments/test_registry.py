"""Each kind of the registry has all that a kind needs."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import muntin.segments.kernels as kernels
from muntin import kinds
from muntin.segments.building import WHOLE, merge, relabelled
from muntin.segments.codec import decode, encode
from muntin.segments.registry import KINDS, algebra_class
from muntin.select.bind import MATRIX
from muntin.select.functions import TABLE_FUNCTIONS
from muntin.server.app import FOLDER
from tests.segments.examples import EXAMPLES, example

GOLDEN = Path(__file__).parent.parent / "golden"
PAGE = (Path(__file__).parents[2] / "docs" / "pipeline-file.md").read_text()
ENTRY_OF = {  # the same entry, with `merge`, `sketch`, or `accuracy: tail`
    "merged_distinct": "distinct",
    "merged_quantiles": "quantiles",
    "sketched_matrix": "vector_matrix",
    "tail_quantiles": "quantiles",
}
NO_PANEL = {"fingerprint"}  # which answers only about keys that somebody names


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_has_an_example_and_golden_bytes(kind: str) -> None:
    """Golden bytes are never edited: what was written once is read for ever."""
    found = algebra_class(kind)
    assert found.kind == kind
    assert isinstance(EXAMPLES[kind].algebra, found)
    assert found.__doc__
    golden = (GOLDEN / f"segment-{kind}-v1.bin").read_bytes()
    # bytes of another release of zstd may differ; what they say may not
    assert encode(decode(golden)) == encode(example(kind, 400))


@pytest.mark.parametrize("kind", KINDS)
def test_a_state_has_the_columns_that_the_kind_names(kind: str) -> None:
    segment = example(kind, 400)
    for table in segment.tables:
        assert list(table.states) == list(segment.algebra.columns()) or set(table.states) == set(
            segment.algebra.columns()
        )


@pytest.mark.parametrize("kind", KINDS)
def test_every_question_is_answered_for_rows_in_order(kind: str) -> None:
    segment = example(kind, 400)
    (table,) = segment.tables
    for question in EXAMPLES[kind].questions:
        rows = segment.algebra.answer(table, question)["row"].to_numpy()
        assert (np.diff(rows) >= 0).all()
        assert len(np.unique(rows)) == len(table)


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_has_an_entry_functions_a_panel_and_its_line_in_the_docs(kind: str) -> None:
    entry = ENTRY_OF.get(kind, kind)
    assert issubclass(kinds.KINDS[entry], kinds.SegmentSpec)
    assert kinds.KINDS[entry].model_fields["kind"].default == entry
    asked = [function for function in TABLE_FUNCTIONS.values() if entry in function.kinds]
    assert asked or entry == MATRIX
    assert entry in NO_PANEL or (FOLDER / "panels" / f"{entry}.js").exists()
    assert f"kind: {entry}`" in PAGE


@pytest.mark.parametrize("kind", KINDS)
@given(st.lists(st.integers(1, 200), min_size=1, max_size=4), st.integers(99, 106), st.data())
def test_merge_of_slices_is_slice_of_merges(kind: str, sizes: Any, first: int, data: Any) -> None:
    parts = [example(kind, size, seed) for seed, size in enumerate(sizes)]
    last = data.draw(st.integers(first, 106))
    between = merge(parts).between(first, last)
    assert encode(merge([part.between(first, last) for part in parts])) == encode(between)
    if EXAMPLES[kind].algebra.order_free and between.count:
        cut = data.draw(st.integers(first, last))
        halves = [between.between(first, cut), between.between(cut, last)]
        assert encode(merge(halves, WHOLE)) == encode(merge([between], WHOLE))


@pytest.mark.parametrize("kind", KINDS)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(-2, 2)), min_size=1, max_size=12))
def test_slices_that_several_windows_hold_merge_in_each(kind: str, held: Any) -> None:
    panes = example(kind, 60)
    at, labels = (np.array(column) for column in zip(*held, strict=True))
    windows = relabelled(panes, labels, at)
    assert windows.slices.tolist() == sorted(set(labels.tolist()))
    for label in windows.slices.tolist():
        parts = [panes.between(100 + n, 101 + n) for n in at[labels == label].tolist()]
        own = windows.between(label, label + 1)
        assert encode(relabelled(own, np.zeros(1, np.int64))) == encode(merge(parts, WHOLE))


def test_kernels_call_only_their_own_file_and_those_of_summaries() -> None:
    """What several kinds need is there; but `ranked` is the loop around the steps of two kinds."""
    for file in Path(str(kernels.__file__)).parent.glob("*.py"):
        own = "muntin.segments.kernels" if file.name == "ranked.py" else "muntin.summaries.kernels"
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("muntin"):
                assert node.module is not None
                assert node.module.startswith((own, "muntin.summaries.kernels")), file.name
                assert node.module != "muntin.segments.kernels.ranked", file.name  # no circle


def test_kernels_search_and_sort_by_our_own_kernels() -> None:
    """Numba's were wrong where other kernels had been loaded from its cache before."""
    for file in Path(str(kernels.__file__)).parent.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Attribute):
                assert node.attr not in ("argsort", "searchsorted", "sort"), file.name
