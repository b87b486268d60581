# ruff: noqa: S608 - statements are what this file is made of
"""Random expressions, in every clause, against the same expressions worked out in Python."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from select_catalogs import MemoryCatalog, matrix_of

from muntin.select.catalog import SummaryInfo
from muntin.select.engine import Engine
from muntin.select.limits import Limits

Row = dict[str, Any]
Value = int | float | bool | None


@dataclass(frozen=True)
class Expression:
    """As SQL, and what it is for a row."""

    sql: str
    of: Callable[[Row], Value]


def _null_if_any(function: Callable[..., Value]) -> Callable[..., Value]:
    return lambda *values: None if None in values else function(*values)


def _truncated(a: int, b: int) -> int | None:
    return None if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _remainder(a: int, b: int) -> int | None:
    return None if b == 0 else math.copysign(1, a).__int__() * (abs(a) % abs(b))


def _divided(a: float, b: float) -> float | None:
    return None if b == 0 else a / b


_WHOLE = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": _truncated,
    "%": _remainder,
}
_FLOAT = {"+": _WHOLE["+"], "-": _WHOLE["-"], "/": _divided}


def _binary(operators: dict[str, Any]) -> Callable[..., Expression]:
    def made(operator: str, a: Expression, b: Expression) -> Expression:
        work = _null_if_any(operators[operator])
        return Expression(f"({a.sql} {operator} {b.sql})", lambda row: work(a.of(row), b.of(row)))

    return made


def _negated(a: Expression) -> Expression:
    work = _null_if_any(lambda x: -x)
    return Expression(f"(- {a.sql})", lambda row: work(a.of(row)))


def _coalesced(a: Expression, b: Expression) -> Expression:
    def of(row: Row) -> Value:
        first = a.of(row)
        return b.of(row) if first is None else first

    return Expression(f"coalesce({a.sql}, {b.sql})", of)


def _chosen(a: Expression, b: Expression, c: Expression, d: Expression) -> Expression:
    greater = _null_if_any(lambda x, y: x > y)
    return Expression(
        f"CASE WHEN {a.sql} > {b.sql} THEN {c.sql} ELSE {d.sql} END",
        lambda row: (c if greater(a.of(row), b.of(row)) else d).of(row),
    )


def _leaf(name: str) -> Expression:
    return Expression(name, lambda row: row[name])


_whole_leaf = st.one_of(
    st.sampled_from(("count", "a", "b")).map(_leaf),
    st.integers(0, 3).map(lambda n: Expression(f"{n}::BIGINT", lambda _: n)),
)


def _more_whole(inner: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    return st.one_of(
        st.builds(_binary(_WHOLE), st.sampled_from(list(_WHOLE)), inner, inner),
        st.builds(_negated, inner),
        st.builds(_coalesced, inner, inner),
        st.builds(_chosen, inner, inner, inner, inner),
    )


whole = st.recursive(_whole_leaf, _more_whole, max_leaves=6)


def _more_floats(inner: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    return st.one_of(
        st.builds(_binary(_FLOAT), st.sampled_from(list(_FLOAT)), inner, inner),
        st.builds(_coalesced, inner, inner),
        st.builds(_chosen, whole, whole, inner, inner),
    )


floats = st.recursive(
    st.builds(_binary({"/": _divided}), st.just("/"), whole, whole), _more_floats, max_leaves=5
)
_value = st.none() | st.integers(-4, 4)
rows = st.lists(
    st.fixed_dictionaries({"count": st.integers(1, 4), "a": _value, "b": _value}), max_size=6
)


_INFO = SummaryInfo("m", "vector_matrix", keys=(("k",),), indicators=("a", "b"))
_CATALOG = MemoryCatalog({"m": _INFO}, {}, cached=False)
_ENGINE = Engine(_CATALOG, Limits())


def _hold(table: list[Row]) -> None:
    """The engine's only summary has these rows from now on."""
    columns = {n: pa.array([r[n] for r in table], pa.int64()) for n in ("count", "a", "b")}
    made = pa.table({"k": pa.array(range(len(table)), pa.int64()), **columns})
    _CATALOG.held["m", "open"] = matrix_of({("k",): made})


def _same(found: Iterable[Any], expected: Iterable[Any]) -> bool:
    return all(
        (f is None) == (e is None)
        and (f is None or math.isclose(f, e, rel_tol=1e-12, abs_tol=1e-9))
        for f, e in itertools.zip_longest(found, expected)
    )


@given(rows, st.one_of(whole, floats), whole)
def test_expressions_in_every_clause(
    table: list[Row], expression: Expression, other: Expression
) -> None:
    values = [expression.of(row) for row in table]
    kept = [i for i, row in enumerate(table) if other.of(row) is not None]
    known = [v for v in values if v is not None]
    text = expression.sql
    _hold(table)

    def column(statement: str) -> list[Any]:
        return [row[-1] for row in _ENGINE.sql(statement).rows]

    assert _same(column(f"SELECT k, {text} FROM m(k) ORDER BY k"), values)
    assert column(f"SELECT k FROM m(k) WHERE {other.sql} IS NOT NULL ORDER BY k") == kept
    assert column(f"SELECT k FROM m(k) ORDER BY {text} IS NULL, k") == sorted(
        range(len(table)), key=lambda i: (values[i] is None, i)
    )
    assert _same(column(f"SELECT sum({text}) FROM m(k)"), [math.fsum(known) if known else None])
    assert column(f"SELECT count({text}) FROM m(k)") == [len(known)]
    counts = [sum(v is None for v in values), sum(v is not None for v in values)]
    grouped = f"SELECT count(*) FROM m(k) GROUP BY {text} IS NULL HAVING count(*) > 0"
    assert sorted(column(grouped)) == sorted(c for c in counts if c)
    nested = f"WITH w AS (SELECT k, {text} AS v FROM m(k)) SELECT 1 / v FROM w ORDER BY k"
    assert _same(column(nested), [None if not v else 1 / v for v in values])
    over = f"SELECT k, sum(v) OVER (ORDER BY k) FROM (SELECT k, 1 / (1 / {text}) AS v FROM m(k))"
    inverse = [None if not v else 1 / (1 / v) for v in values]
    sums = [
        math.fsum(seen) if (seen := [v for v in inverse[: i + 1] if v is not None]) else None
        for i in range(len(table))
    ]
    assert _same(column(f"{over} AS q ORDER BY k"), sums)
