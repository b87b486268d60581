"""What a statement compares, and whether it can be: decided by types, never by the rows.

DuckDB turns the texts of a column into numbers where they are compared with one, and fails at the
first that is none: a statement would work until such a row comes. It rounds '1.5' to compare it
with integers, so that 2 would be the same.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from muntin.select.columns import Origin, origin_of

_PAIRS = (
    exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ,
)  # fmt: skip
_CASTS = {
    **dict.fromkeys(("FLOAT", "DOUBLE", "DECIMAL"), "a number"),
    **dict.fromkeys(("TINYINT", "SMALLINT", "INT", "BIGINT", "INT128"), "an integer"),
    **dict.fromkeys(("UTINYINT", "USMALLINT", "UINT", "UBIGINT"), "an integer"),
    **dict.fromkeys(("DATE", "TIMESTAMP", "TIMESTAMPNTZ"), "a time"),
    "BOOLEAN": "a truth value",
}
_INTEGER = re.compile(r"\s*[+-]?[0-9]+\s*\Z", re.ASCII)
_ANY_TEXT, _NUMBER_TEXT = "a text that is no number", "a text that is no integer"
_UNLIKE = {
    "a text": frozenset(("an integer", "a number", "a truth value", "a time")),
    "an integer": frozenset((_ANY_TEXT, _NUMBER_TEXT)),
    "a number": frozenset((_ANY_TEXT,)),
}
"""Of a column, and what it cannot be compared with; whatever else there is, DuckDB decides by
types alone."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """A column of a FROM item, and what it is compared with: another, or a constant of a type."""

    column: Origin
    other: Origin | str


def comparisons(tree: exp.Expr) -> tuple[Comparison, ...]:
    """Those of a resolved statement whose types are known once its tables are there."""
    found: dict[Comparison, None] = {}
    for node in tree.walk():
        first, *others = [_operand(each) for each in _operands(node)] or [None]
        for other in others:
            for one, two in ((first, other), (other, first)):
                if isinstance(one, Origin) and two is not None:
                    found[Comparison(one, two)] = None
    return tuple(found)


def mismatch(
    compared: Sequence[Comparison], schemas: Sequence[pa.Schema | None]
) -> tuple[str, str, str] | None:
    """A column that cannot be compared as it is: its name, what is wrong, and what to write.

    `schemas`: of each FROM item, as it was loaded.
    """
    for each in compared:
        mine = _type_in(each.column, schemas)
        other = each.other if isinstance(each.other, str) else _type_in(each.other, schemas)
        if other not in _UNLIKE.get(mine, ()):
            continue
        name = each.column.name
        remedy = "write the constant without quotes"
        if mine == "a text":
            remedy = "write the constant in single quotes, or cast the column with TRY_CAST"
        return name, f"{name} is {mine}, and is compared with {other}", remedy
    return None


def _operands(node: exp.Expr) -> list[exp.Expr]:
    """What a node compares: the first with each of the others."""
    if isinstance(node, _PAIRS):
        return [node.this, node.expression]
    if isinstance(node, exp.In):
        return [node.this, *node.expressions]
    if isinstance(node, exp.Between):
        return [node.this, node.args["low"], node.args["high"]]
    if isinstance(node, exp.Case) and node.this is not None:
        return [node.this, *(each.this for each in node.args["ifs"])]
    if isinstance(node, exp.Anonymous) and str(node.this).lower() == "nullif":
        return list(node.expressions)
    return []


def _operand(node: exp.Expr) -> Origin | str | None:
    """A column of a FROM item, or the type of a constant; None: only DuckDB knows."""
    while isinstance(node, (exp.Paren, exp.Neg)):
        node = node.this
    if isinstance(node, exp.Column):
        return origin_of(node)
    if isinstance(node, exp.Boolean):
        return "a truth value"
    if isinstance(node, exp.Cast):
        return _CASTS.get(node.to.this.value)
    if not isinstance(node, exp.Literal):
        return None
    if not node.is_string:
        return "an integer" if node.name.isdigit() else "a number"
    if _INTEGER.match(node.name):
        return None
    with contextlib.suppress(ValueError):
        float(node.name)
        return _NUMBER_TEXT
    return _ANY_TEXT


def _type_in(origin: Origin, schemas: Sequence[pa.Schema | None]) -> str:
    """The type of a column as it was loaded; "" where nothing follows from it."""
    schema = schemas[origin.item]
    kind = pa.null() if schema is None else schema.field(origin.name).type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return "a text"
    if pa.types.is_integer(kind) or pa.types.is_decimal(kind):  # wide integers
        return "an integer"
    if pa.types.is_floating(kind):
        return "a number"
    if pa.types.is_boolean(kind):
        return "a truth value"
    return "a time" if pa.types.is_temporal(kind) else ""
