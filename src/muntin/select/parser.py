"""Text to `Statement`: sqlglot's parser over our tokens, with places in the original text."""

from __future__ import annotations

import re
from typing import Any, NoReturn

from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import ErrorLevel, ParseError
from sqlglot.tokenizer_core import Token, TokenType

from muntin.errors import SelectError
from muntin.select.from_items import Extraction
from muntin.select.lexer import tokenize
from muntin.select.limits import Limits
from muntin.select.places import Span, problem_at
from muntin.select.syntax import DIALECT, Statement, constant_text, matching, must_be_quoted

_BASE: Any = DuckDB.Parser  # type: ignore[attr-defined]


class _SyntaxAtError(ParseError):
    """sqlglot's error, with the token at which it stopped."""

    def __init__(self, message: str, token: Token) -> None:
        super().__init__(message)
        self.token = token


class _Parser(_BASE):
    """sqlglot's parser for DuckDB, without its knowledge of functions.

    Every call stays a plain name with arguments, so that what is checked is what was written and
    what is rendered is what was checked. CAST and EXTRACT have a syntax of their own.
    """

    FUNCTIONS: dict[str, Any] = {}  # noqa: RUF012 - sqlglot's own way of configuring a parser
    FUNCTION_PARSERS = {  # noqa: RUF012
        name: _BASE.FUNCTION_PARSERS[name] for name in ("CAST", "TRY_CAST", "EXTRACT")
    }
    NO_PAREN_FUNCTION_PARSERS = {  # noqa: RUF012
        "CASE": _BASE.NO_PAREN_FUNCTION_PARSERS["CASE"]
    }
    NO_PAREN_FUNCTIONS = {  # noqa: RUF012
        kind: _BASE.NO_PAREN_FUNCTIONS[kind]
        for kind in (TokenType.CURRENT_TIMESTAMP, TokenType.CURRENT_DATE)
    }
    STATEMENT_PARSERS: dict[Any, Any] = {}  # noqa: RUF012

    def raise_error(self, message: str, token: Any = None) -> NoReturn:
        raise _SyntaxAtError(message, token or self._curr or self._prev)


def parse(text: str, limits: Limits | None = None) -> Statement:
    """The statement that `text` says; names are not looked up yet.

    Raises
    ------
    SelectError
        Anything in the text that cannot be a statement, with its place.
    """
    limits = limits or Limits()
    tokens = tokenize(text, limits)
    rewritten, items = Extraction(text, tokens, limits).run()
    try:
        parser = _Parser(dialect=DIALECT, error_level=ErrorLevel.IMMEDIATE)
        trees = parser.parse(rewritten, text)
    except ParseError as error:
        raise _syntax_error(text, tokens, error) from None
    except RecursionError:
        raise SelectError("the statement nests too deep", code="limit", text=text) from None
    except Exception as error:
        # sqlglot fails on some malformed texts in other ways; each of them is a syntax error.
        raise SelectError(
            "this is not a SELECT statement", text=text, remedy="SELECT ... FROM ... WHERE ..."
        ) from error
    if len(trees) != 1 or trees[0] is None:
        raise SelectError("this is not one SELECT statement", text=text)
    return Statement(tuple(items), _normal(trees[0]), text)


def _normal(tree: exp.Expr) -> exp.Expr:
    """One tree for spellings that mean the same, so that what is shown is parsed as it was."""
    for name in tree.find_all(exp.Identifier):
        # Quotes mean nothing once it is known that this is a name: case never counts.
        name.set("quoted", must_be_quoted(name.name))
    for power in list(tree.find_all(exp.Pow)):
        power.replace(_call("power", power.this, power.expression))
    for part in list(tree.find_all(exp.Extract)):
        unit = exp.Literal.string(part.name.lower())
        part.replace(_call("date_part", unit, part.expression))
    for fetch in list(tree.find_all(exp.Fetch)):
        options, count = fetch.args.get("limit_options"), fetch.args.get("count")
        if options is None or not (options.args.get("percent") or options.args.get("with_ties")):
            fetch.replace(exp.Limit(expression=count or exp.Literal.number(1)))
    for rows in tree.find_all(exp.Limit, exp.Offset):
        rows.set("expression", rows.expression.unnest())
    for like in list(tree.find_all(exp.Like, exp.ILike)):
        text = constant_text(like.expression)
        if text is not None and not like.expression.is_string:
            like.set("expression", exp.Literal.string(text))
        escape = like.parent
        if text is None or not isinstance(escape, exp.Escape) or len(escape.expression.name) != 1:
            continue
        sign = escape.expression.name
        if sign not in re.sub(f"{re.escape(sign)}.", "", text, flags=re.DOTALL):
            escape.replace(matching(like, sign) if sign in text else like)
    return tree


def _call(name: str, *arguments: exp.Expr) -> exp.Anonymous:
    return exp.Anonymous(this=name, expressions=list(arguments))


def _syntax_error(text: str, tokens: list[Token], error: ParseError) -> SelectError:
    token = getattr(error, "token", None)
    message = str(error).split("\n")[0].rstrip(". ")
    if token is None or token.end >= len(text):
        return SelectError(message, text=text)
    word = text[token.start : token.end + 1]
    if message.startswith("Invalid expression / Unexpected token"):
        message = f"{word[:40]!r} was not expected here"
    elif message.startswith("Required keyword"):
        message = "something is missing here"
    at_end = token.end >= tokens[-1].end and message.startswith("Expect")
    place = Span(len(text.rstrip()), 0) if at_end else token
    return problem_at(text, place, message[:1].lower() + message[1:])
