"""Finds the FROM items among the tokens and puts a placeholder where each stood.

What follows FROM, a comma or JOIN is ours, not SQL: a summary and its key, a table function, a
vector of the paper, and a window clause. The rest of the tokens goes on to sqlglot unchanged,
with one addition: the paper's `sum X1.Y2` becomes `sum(X1.Y2)`.
"""

from dataclasses import dataclass, replace
from functools import partial

from sqlglot.tokenizer_core import Token, TokenType

from muntin.select.catalog import ForClause
from muntin.select.item_parser import ItemParser, is_name, is_vector
from muntin.select.limits import Limits
from muntin.select.places import problem_at
from muntin.select.syntax import FromItem, VectorItem, placeholder

_ENDS_FROM = {
    TokenType.WHERE, TokenType.GROUP_BY, TokenType.HAVING, TokenType.QUALIFY, TokenType.WINDOW,
    TokenType.ORDER_BY, TokenType.LIMIT, TokenType.OFFSET, TokenType.FETCH, TokenType.UNION,
    TokenType.EXCEPT, TokenType.INTERSECT, TokenType.SELECT,
}  # fmt: skip
_CLAUSES = {
    TokenType.FROM: 1, TokenType.WHERE: 2, TokenType.GROUP_BY: 3, TokenType.HAVING: 4,
    TokenType.QUALIFY: 5, TokenType.ORDER_BY: 6, TokenType.LIMIT: 7, TokenType.OFFSET: 7,
    TokenType.FETCH: 7, TokenType.UNION: 0, TokenType.EXCEPT: 0, TokenType.INTERSECT: 0,
}  # fmt: skip
"""Their order, which sqlglot takes in any; behind a UNION it begins again."""
_NAMES = {TokenType.VAR, TokenType.IDENTIFIER}
PREFIX_AGGREGATES = frozenset(("sum", "avg", "min", "max", "count", "median"))


@dataclass(slots=True)
class _Level:
    """One pair of brackets (or the whole text)."""

    query: bool = False
    in_from: bool = False
    last: Token | None = None  # the clause that stands here so far
    clause: int = -1  # which FROM clause of the statement


class Extraction:
    """`run`: the tokens with placeholders, and the items that they stand for."""

    def __init__(self, text: str, tokens: list[Token], limits: Limits) -> None:
        self._error = partial(problem_at, text)
        self.tokens = tokens
        self.items = ItemParser(text, tokens, limits)
        self.limits = limits
        self.out: list[Token] = []
        self.parts: list[tuple[int, int, FromItem]] = []
        """Items in the order of the text, with the number of their placeholder and clause."""
        self.places = 0
        self.clauses = 0

    def run(self) -> tuple[list[Token], list[FromItem]]:
        levels = [_Level()]
        at = 0
        while at < len(self.tokens):
            token = self.tokens[at]
            kind = token.token_type
            level = levels[-1]
            if is_name(self.tokens, at):
                at = self._plain(at)
                continue
            if level.query and kind in _CLAUSES and not self._is_distinct_from(at):
                self._check_order(token, level)
            if kind is TokenType.L_PAREN:
                levels.append(_Level())
            elif kind is TokenType.R_PAREN:
                levels.pop()
            elif kind is TokenType.FROM and level.query and not self._is_distinct_from(at):
                level.in_from = True
                level.clause = self.clauses
                self.clauses += 1
                self.out.append(token)
                at = self._item(at + 1, level)
                continue
            elif level.in_from and kind in (TokenType.COMMA, TokenType.JOIN):
                at = self._next_item(at, level)
                continue
            elif level.query and kind is TokenType.FOR:
                raise self._error(
                    token,
                    "this window clause does not follow a FROM item",
                    "it stands after a summary, before or after its alias: "
                    "FROM orders(driver) FOR LAST '1 hour' AS a; a column of that name is written "
                    '"for"',
                )
            if kind in _ENDS_FROM:
                level.in_from = False
                level.query = level.query or kind is TokenType.SELECT
            at = self._plain(at)
        return self.out, self._finished()

    def _check_order(self, token: Token, level: _Level) -> None:
        before, now = level.last, _CLAUSES[token.token_type]
        level.last = token if now else None
        last = 0 if before is None else _CLAUSES[before.token_type]
        remedy = "the order is FROM, WHERE, GROUP BY, HAVING, QUALIFY, ORDER BY, LIMIT"
        if not now:
            now, remedy = 5, "put the SELECT that stands before it in brackets"
        if before is not None and now < last:
            message = f"{token.text.upper()} does not stand behind {before.text.upper()}"
            raise self._error(token, message, remedy)

    def _is_distinct_from(self, at: int) -> bool:
        before = [t.token_type for t in self.tokens[max(0, at - 3) : at]]
        return before[-1:] == [TokenType.DISTINCT] and (
            before[-2:-1] == [TokenType.IS] or before[-3:-1] == [TokenType.IS, TokenType.NOT]
        )

    def _plain(self, at: int) -> int:
        """Passes one token on; `sum X1.Y2` as `sum(X1.Y2)`."""
        token = self.tokens[at]
        following = self.tokens[at + 1 : at + 4]
        if (
            token.token_type is TokenType.VAR
            and token.text.lower() in PREFIX_AGGREGATES
            and len(following) == 3
            and following[0].token_type in _NAMES
            and following[1].token_type is TokenType.DOT
            and (following[2].token_type in _NAMES or following[2].text.isidentifier())
            and not (at and self.tokens[at - 1].token_type is TokenType.DOT)
        ):
            opening = _at(TokenType.L_PAREN, "(", following[0])
            closing = _at(TokenType.R_PAREN, ")", following[2])
            self.out += [token, opening, *following, closing]
            return at + 4
        self.out.append(token)
        return at + 1

    def _next_item(self, at: int, level: _Level) -> int:
        """What follows a comma or JOIN; a vector of a key that is there already joins it."""
        comma = self.tokens[at]
        if comma.token_type is TokenType.COMMA and is_vector(self.tokens, at + 1):
            item, after = self.items.vector(at + 1)
            for number, clause, part in self.parts:
                if (
                    clause == level.clause
                    and isinstance(part, VectorItem)
                    and ((part.key, part.summary) == (item.key, item.summary))
                ):
                    self.parts.append((number, clause, item))
                    return after
        self.out.append(comma)
        return self._item(at + 1, level)

    def _item(self, at: int, level: _Level) -> int:
        if at < len(self.tokens) and self.tokens[at].token_type is TokenType.L_PAREN:
            kinds = (token.token_type for token in self.tokens[at:])
            inner = next((kind for kind in kinds if kind is not TokenType.L_PAREN), None)
            if inner not in (TokenType.SELECT, TokenType.WITH):
                raise self._error(
                    self.tokens[at],
                    "only a SELECT can stand in brackets here",
                    "write the FROM items without brackets",
                )
            return at
        if is_vector(self.tokens, at):
            item, after = self.items.vector(at)
            return self._place(item, [], at, after, level)
        source, alias, after = self.items.source(at)
        return self._place(source, alias, at, after, level)

    def _place(self, item: FromItem, alias: list[Token], at: int, after: int, level: _Level) -> int:
        """Emits the placeholder of an item, and its alias."""
        if self.places >= self.limits.windows:
            raise self._error(
                self.tokens[at],
                f"more than {self.limits.windows} FROM items",
                "split the statement",
                code="limit",
            )
        mark = _at(TokenType.IDENTIFIER, placeholder(self.places), self.tokens[at])
        mark.end = self.tokens[after - 1].end
        self.parts.append((self.places, level.clause, item))
        self.places += 1
        self.out += [mark, *alias]
        return after

    def _finished(self) -> list[FromItem]:
        """In a list of vectors, one without a window clause takes the next one's."""
        windows: dict[int, ForClause | None] = {}
        found: list[list[FromItem]] = [[] for _ in range(self.places)]
        for number, clause, part in reversed(self.parts):
            if isinstance(part, VectorItem):
                windows[clause] = part.window or windows.get(clause)
                part = replace(part, window=windows[clause])
            found[number].insert(0, part)
        return [self.items.joined(parts) for parts in found]


def _at(kind: TokenType, text: str, where: Token) -> Token:
    """A token that is not in the text, at the place of one that is."""
    return Token(kind, text, where.line, where.col, where.start, where.end)
