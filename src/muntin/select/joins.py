"""Joins: vectors of different keys meet on the key columns that they share."""

from __future__ import annotations

from sqlglot import exp

from muntin.select.places import problem_at
from muntin.select.scope import Scope, Source


def join_vectors(text: str, node: exp.Select, scope: Scope) -> None:
    """`FROM vector 3.1, vector 1.1`: rows of key 3 beside the row of key 1 that they belong to.

    A null key equals a null key, since null is a key of its own.
    """
    sources = scope.sources
    for join, source in zip(node.args.get("joins") or [], sources[1:], strict=True):
        plain = not (join.args.get("on") or join.args.get("using") or join.args.get("kind"))
        if not (source.bound and source.bound.vector and plain):
            continue
        before = [s for s in sources[: sources.index(source)] if s.bound and s.bound.vector]
        if not before:
            continue
        conditions, shared = [], set()
        for other in before:
            for name in _shared(source, other):
                if name not in shared:
                    shared.add(name)
                    conditions.append(_same(source, other, name))
                    scope.joined.setdefault(name.lower(), other.alias)
        if not conditions:
            names = " and ".join(s.alias for s in (before[-1], source))
            raise problem_at(
                text,
                join.this,
                f"{names} share no key column, so their rows do not belong together",
                "take vectors of one key, or of keys that share a column",
                "from_item",
            )
        join.set("on", exp.and_(*conditions, copy=False))
        join.set("kind", "INNER")


def joined_names(node: exp.Select, scope: Scope) -> dict[str, str]:
    """Columns named by USING: one column, which needs no qualifier."""
    names: dict[str, str] = {}
    for join in node.args.get("joins") or []:
        for name in join.args.get("using") or []:
            names.setdefault(name.name.lower(), "")
    return {name: alias for name, alias in names.items() if scope.with_column(name)}


def _shared(source: Source, other: Source) -> list[str]:
    mine = (source.bound.key if source.bound else None) or ()
    theirs = (other.bound.key if other.bound else None) or ()
    return [name for name in mine if name in theirs]


def _same(source: Source, other: Source, name: str) -> exp.Expr:
    return exp.NullSafeEQ(
        this=exp.column(name, source.alias, quoted=True),
        expression=exp.column(name, other.alias, quoted=True),
    )
