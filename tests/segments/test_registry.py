"""Each kind of the registry has all that a kind needs."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest

import muntin.segments.kernels as kernels
from muntin.segments.codec import decode, encode
from muntin.segments.registry import KINDS, algebra_class
from tests.segments.examples import EXAMPLES, example

GOLDEN = Path(__file__).parent.parent / "golden"


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


def test_kernels_call_only_their_own_file_and_those_of_summaries() -> None:
    """Numba's cache does not see what changes in another file."""
    for file in Path(str(kernels.__file__)).parent.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("muntin"):
                assert node.module is not None
                assert node.module.startswith("muntin.summaries.kernels"), file.name


def test_kernels_search_and_sort_by_our_own_kernels() -> None:
    """Numba's were wrong where other kernels had been loaded from its cache before."""
    for file in Path(str(kernels.__file__)).parent.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Attribute):
                assert node.attr not in ("argsort", "searchsorted", "sort"), file.name
