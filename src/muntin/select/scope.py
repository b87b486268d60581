"""What is visible at a place in a statement: sources, their columns, and names given by AS."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from muntin.select.bind import Bound

_INDICATOR = re.compile(r"[yY]([1-9]\d{0,3})\Z")


def indicator_number(name: str) -> int:
    """j of Yj, or 0."""
    match = _INDICATOR.match(name)
    return int(match[1]) if match else 0


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a source."""

    name: str
    pieces: int = 1
    """How many strings || and concat may have joined into one value."""


@dataclass(frozen=True, slots=True)
class Relation:
    """What a query gives: its columns in order, and how many FROM items it reads."""

    columns: tuple[Column, ...]
    reads: int


@dataclass(slots=True)
class Source:
    """One FROM item of a SELECT, under its alias."""

    alias: str
    relation: Relation
    bound: Bound | None = None
    named: bool = False
    """The alias was given by the writer."""
    using: frozenset[str] = frozenset()
    """Columns (lower case) that are one with those of the sources before it."""
    tested: bool = False
    """Of a SEMI or ANTI join: seen by its condition alone."""

    def column(self, name: str) -> Column | None:
        lower = name.lower()
        return next((c for c in self.relation.columns if c.name.lower() == lower), None)

    @property
    def shown(self) -> str:
        return self.bound.shown if self.bound is not None and not self.named else self.alias


@dataclass(slots=True)
class Scope:
    """Inside one SELECT."""

    parent: Scope | None = None
    sources: list[Source] = field(default_factory=list)
    given: dict[str, int] = field(default_factory=dict)
    """Names given by AS in the SELECT list (lower case), with their pieces."""
    joined: dict[str, str] = field(default_factory=dict)
    """Columns that a join makes one (lower case), with the alias they are read from."""

    def source(self, alias: str) -> Source | None:
        lower = alias.lower()
        return next((s for s in self.sources if s.alias.lower() == lower), None)

    def with_key(self, number: int) -> list[Source]:
        return [s for s in self.sources if s.bound is not None and s.bound.key_number == number]

    def with_column(self, name: str) -> list[Source]:
        return [s for s in self.sources if s.column(name) is not None]

    def with_indicators(self) -> list[Source]:
        return [
            s
            for s in self.sources
            if s.bound is not None and s.bound.kind in ("key", "total") and s.bound.indicators
        ]

    def chain(self) -> list[Scope]:
        """This scope, then those around it."""
        scopes: list[Scope] = []
        scope: Scope | None = self
        while scope is not None:
            scopes.append(scope)
            scope = scope.parent
        return scopes
