"""Statements that only add up a whole key, as the paper's (12): one row of sums answers them.

`SELECT sum Y2 / sum Y1 FROM ...` reads every row of its key to add up columns whose sums are the
same for whoever asks; they are made once for each state of the ledger and kept like any table.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from muntin.select.bind import Bound

_NODES = (
    exp.Select, exp.From, exp.Table, exp.TableAlias, exp.Identifier, exp.Alias, exp.Limit,
    exp.Column, exp.Literal, exp.Paren, exp.Neg, exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Anonymous,
)  # fmt: skip
_CLAUSES = frozenset(("expressions", "from_", "limit"))


def summed(tree: exp.Expr, items: tuple[Bound | None, ...]) -> tuple[Bound | None, ...]:
    """The FROM items, marked where their sums are all that a resolved statement reads."""
    if len(items) != 1 or items[0] is None or items[0].kind != "key":
        return items
    return (replace(items[0], summed=True),) if _only_sums(tree, items[0]) else items


def _only_sums(tree: exp.Expr, item: Bound) -> bool:
    if not isinstance(tree, exp.Select):
        return False
    if any(given and name not in _CLAUSES for name, given in tree.args.items()):
        return False
    sums = 0
    for node in tree.walk():
        if not isinstance(node, _NODES) or (isinstance(node, exp.Select) and node is not tree):
            return False
        if isinstance(node, exp.Anonymous):
            sums += 1
            if not _is_sum(node):
                return False
        elif isinstance(node, exp.Column):
            number = node.name in item.columns and node.name not in (item.key or ())
            if not number or not isinstance(node.parent, exp.Anonymous):
                return False
    return sums > 0


def _is_sum(node: exp.Anonymous) -> bool:
    arguments = node.expressions
    named = str(node.this).lower() == "sum"
    return named and len(arguments) == 1 and isinstance(arguments[0], exp.Column)
