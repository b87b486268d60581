"""A resolved tree as DuckDB's SQL, with the meaning that Muntin promises.

- Division by zero is null: `a / b` becomes `a / nullif(b, 0)`, and so do `//` and `%`.
- `now()` is the statement's clock, a parameter; the rendered text does not hold the time.
- LIKE with many wildcards goes to DuckDB's linear regular expressions, since its own matcher
  tries again from each place and may take time exponential in the wildcards.

FROM items stay as marks, which `source_marks` finds, until it is known what was loaded.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from sqlglot import exp

from muntin.select.syntax import DIALECT, PLACEHOLDER, matching

NOW = "now_utc"
"""Name of the parameter that holds the statement's clock."""


def render(tree: exp.Expr) -> tuple[str, bool]:
    """SQL with a mark for each FROM item, and whether it uses the clock."""
    tree = tree.copy()
    clock = False
    # From the leaves up, and nothing is copied: what is inside a divisor or a pattern's subject is
    # rewritten before it moves there.
    for node in reversed(list(tree.walk())):
        if isinstance(node, (exp.Div, exp.IntDiv, exp.Mod)):
            _safe_division(node)
        elif isinstance(node, (exp.Like, exp.ILike)):
            _bounded_pattern(node)
        elif isinstance(node, (exp.CurrentTimestamp, exp.CurrentDate)) or (
            isinstance(node, exp.Anonymous) and str(node.this).lower() == "now"
        ):
            clock = True
            node.replace(_clock(node))
    sql = tree.sql(dialect=DIALECT, identify=True, comments=False, normalize_functions="lower")
    return sql, clock


def with_sources(sql: str, sources: Sequence[str]) -> str:
    """Put each FROM item's SQL where its mark stands."""
    return PLACEHOLDER.sub(lambda m: sources[int(m[1])], sql)


def _safe_division(node: exp.Expr) -> None:
    divisor = node.args["expression"]
    plain = divisor
    while isinstance(plain, (exp.Paren, exp.Neg)):
        plain = plain.this
    if isinstance(plain, exp.Literal) and not plain.is_string and float(plain.name) != 0:
        return
    zero = exp.Literal.number(0)
    node.set("expression", exp.Anonymous(this="nullif", expressions=[divisor, zero]))


def _clock(node: exp.Expr) -> exp.Expr:
    moment = exp.cast(exp.Parameter(this=exp.Var(this=NOW)), "TIMESTAMP", dialect=DIALECT)
    if isinstance(node, exp.CurrentDate):
        return exp.Cast(this=moment, to=exp.DataType.build("DATE", dialect=DIALECT))
    return moment


def _bounded_pattern(node: exp.Expr) -> None:
    pattern = node.expression.name
    simple = isinstance(node, exp.Like) and "_" not in pattern
    groups = len(re.findall(r"%+", pattern.rstrip("%")))
    if simple or groups <= 1:
        return
    node.replace(matching(node))
