"""What statements share that differ only in the constants of their one FROM item.

`quantiles(delays, 0.5)` and `quantiles(delays, 0.9) FOR LAST '1 hour'` under the same SELECT have
the same tree, columns and SQL: most of what a plan costs is paid for the first of them only.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace

from sqlglot.tokenizer_core import TokenType

from muntin.select.bind import Bound
from muntin.select.parser import Words
from muntin.select.syntax import FromItem, Name, SourceItem


def shape_of(words: Words) -> Hashable:
    """The same for texts of one shape; None for a text that shares nothing.

    With one SELECT and one FROM item no column is named after an item, and there is no WITH query
    that the item could be. Whether two tokens touch is part of it: the parser asks for that.
    """
    if len(words.items) != 1:
        return None
    selects = 0
    end = -1
    parts: list[Hashable] = [_without_constants(words.items[0])]
    for token in words.rewritten:
        kind = token.token_type
        selects += kind is TokenType.SELECT
        parts.append((kind, token.text, token.start == end))
        end = token.end + 1
    return tuple(parts) if selects == 1 else None


def _without_constants(item: FromItem) -> FromItem:
    if not isinstance(item, SourceItem):
        return replace(item, window=None)
    names = tuple(a for a in item.arguments or () if isinstance(a, Name))
    return replace(item, window=None, arguments=None if item.arguments is None else names)


def is_same(bound: Bound, other: Bound | None) -> bool:
    """Whether the rest of a statement can tell two FROM items apart."""
    return other is not None and _seen(bound) == _seen(other)


def _seen(bound: Bound) -> Bound:
    return replace(bound, window=None, arguments=(), shown="", summed=False)
