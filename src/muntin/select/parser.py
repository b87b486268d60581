"""Text to `Statement`: sqlglot's parser over our tokens, with places in the original text."""

import re
from typing import Any, NoReturn

from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import ErrorLevel, ParseError
from sqlglot.tokenizer_core import Token, TokenType

from muntin.errors import SelectError
from muntin.select.from_items import Extraction
from muntin.select.limits import ASK_LESS, Limits
from muntin.select.places import Span, problem_at
from muntin.select.syntax import DIALECT, Statement, constant_text, like_as_regex, must_be_quoted
from muntin.select.tokens import tokens_of

_BASE: Any = DuckDB.Parser  # type: ignore[attr-defined]


_NUMBER = re.compile(r"\s*[+-]?[0-9.]+\s*", re.ASCII)
_AFTER_OPERANDS = {TokenType.DPIPE, TokenType.DCOLON, *_BASE.TERM, *_BASE.FACTOR, *_BASE.EXPONENT}


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
        **{name: _BASE.FUNCTION_PARSERS[name] for name in ("CAST", "TRY_CAST", "EXTRACT")},
        "POSITION": lambda self: self._parse_place_in(),
    }
    NO_PAREN_FUNCTION_PARSERS = {  # noqa: RUF012
        "CASE": _BASE.NO_PAREN_FUNCTION_PARSERS["CASE"]
    }
    NO_PAREN_FUNCTIONS = {  # noqa: RUF012
        kind: _BASE.NO_PAREN_FUNCTIONS[kind]
        for kind in (TokenType.CURRENT_TIMESTAMP, TokenType.CURRENT_DATE)
    }
    STATEMENT_PARSERS: dict[Any, Any] = {}  # noqa: RUF012

    def _parse_place_in(self) -> exp.Expr:
        part = self._parse_bitwise()
        if not self._match(TokenType.IN):
            self.raise_error("position takes a part IN a text; else write strpos(text, part)")
        return _call("strpos", self._parse_bitwise(), part)

    def _parse_interval(self, *_: Any, **__: Any) -> Any:
        """INTERVAL '1 day 02:30:00', INTERVAL '1' DAY, INTERVAL -1 DAY; else it is a name.

        sqlglot keeps of a text the part with one unit, adds up what stands behind, and takes
        what is subtracted from a column of that name for its constant.
        """
        start = self._index
        if not self._match(TokenType.INTERVAL):
            return None
        minus = self._match(TokenType.DASH)
        is_text = not minus and self._curr.token_type is TokenType.STRING
        if not (is_text or self._curr.token_type is TokenType.NUMBER):
            kind, after = self._curr.token_type, self._next.text.upper() if self._next else ""
            named = kind is TokenType.VAR and after in self.dialect.VALID_INTERVAL_UNITS
            if named or kind is TokenType.L_PAREN:
                self.raise_error("An INTERVAL is a constant: write x * INTERVAL 1 HOUR")
            self._retreat(start)
            return None
        this, unit = self._parse_primary(), None
        if is_text and not _NUMBER.fullmatch(this.name):
            return self.expression(exp.Interval(this=this))
        known = self._curr.text.upper() in self.dialect.VALID_INTERVAL_UNITS
        if known or (self._curr.token_type is TokenType.VAR and not minus):
            unit = exp.Var(this=self._curr.text.upper())
            self._advance()
        elif not is_text:
            self._retreat(start)
            return None
        if not is_text:
            this = exp.Literal.string(f"-{this.name}" if minus else this.name)
        return self.expression(exp.Interval(this=this, unit=unit))

    def _parse_type(self, *given: Any, **named: Any) -> Any:
        """DATE '2026-01-01'::TEXT casts the date; sqlglot would cast the text before."""
        typed = self._curr.token_type in self.TYPE_TOKENS
        found = super()._parse_type(*given, **named)
        if not (typed and isinstance(found, exp.Cast) and isinstance(found.this, exp.Cast)):
            return found
        first = outer = found.this
        while isinstance(first.this, exp.Cast):
            first = first.this
        if not isinstance(first.this, exp.Literal):
            return found
        found.set("this", first.this)
        first.set("this", found)
        return outer

    _operand: Any = None

    def _parse_range(self, *given: Any, **named: Any) -> Any:
        """x IS NULL || y, x IN (1, 2)::INT: what ends in a word or a bracket is the first operand
        of what follows. sqlglot ends there, or takes the NOT before it for that operand."""
        found = super()._parse_range(*given, **named)
        while found is not None and self._curr.token_type in _AFTER_OPERANDS:
            self._operand = exp.Paren(this=found)
            found = super()._parse_range(self._parse_bitwise())
        return found

    def _parse_unary(self) -> Any:
        operand, self._operand = self._operand, None
        return super()._parse_unary() if operand is None else self._parse_column_ops(operand)

    def _parse_ordered(self, *given: Any, **named: Any) -> Any:
        """ORDER BY ALL is refused where it stands; sqlglot takes a column "all" for it."""
        token = self._curr
        found = super()._parse_ordered(*given, **named)
        if found is not None and isinstance(found.this, exp.Var):
            if token.token_type is not TokenType.IDENTIFIER:
                self.raise_error("After ORDER BY stands a column, not ALL", token)
            found.set("this", exp.Column(this=exp.Identifier(this=token.text, quoted=True)))
        return found

    def _parse_join(self, *given: Any, **named: Any) -> Any:
        """sqlglot makes each row beside each of a JOIN without ON, a LEFT JOIN, too."""
        token = self._curr
        found = super()._parse_join(*given, **named)
        if found is None or token.token_type is TokenType.COMMA or found.kind == "CROSS":
            return found
        if not any(found.args.get(part) for part in ("on", "using", "method")):
            self.raise_error("A JOIN has ON or USING; each row beside each is CROSS JOIN", token)
        return found

    def _parse_limit(self, *given: Any, **named: Any) -> Any:
        found = super()._parse_limit(*given, **named)
        if isinstance(found, exp.Limit) and found.args.get("offset"):
            self.raise_error("After LIMIT stands one number: write LIMIT 3 OFFSET 2", self._prev)
        return found

    def _parse_is(self, this: Any) -> Any:
        start = self._index
        negated = self._match(TokenType.NOT)
        if self._curr.token_type is TokenType.DISTINCT:
            self._retreat(start)
            return super()._parse_is(this)
        constant = self._parse_null() or self._parse_boolean()
        if constant is None:
            self.raise_error("After IS stands NULL, TRUE, FALSE or DISTINCT FROM")
        found = self.expression(exp.Is(this=this, expression=constant))
        return self.expression(exp.Not(this=found)) if negated else found

    def raise_error(self, message: str, token: Any = None) -> NoReturn:
        raise _SyntaxAtError(message, token or self._curr or self._prev)


def parse(text: str, limits: Limits | None = None) -> Statement:
    """The statement that `text` says; names are not looked up yet. Raises SelectError: anything in
    the text that cannot be a statement, with its place."""
    limits = limits or Limits()
    tokens = tokens_of(text, limits)
    rewritten, items = Extraction(text, tokens, limits).run()
    try:
        parser = _Parser(dialect=DIALECT, error_level=ErrorLevel.IMMEDIATE)
        trees = parser.parse(rewritten, text)
    except ParseError as error:
        raise _syntax_error(text, tokens, error) from None
    except RecursionError:
        raise SelectError(
            "the statement nests too deep", code="limit", text=text, remedy=ASK_LESS
        ) from None
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
    for within in list(tree.find_all(exp.WithinGroup)):
        call = _of_one_column(within)
        if call is not None:
            within.replace(call)
    for fetch in list(tree.find_all(exp.Fetch)):
        options, count = fetch.args.get("limit_options"), fetch.args.get("count")
        if options is None or not (options.args.get("percent") or options.args.get("with_ties")):
            fetch.replace(exp.Limit(expression=count or exp.Literal.number(1)))
    for each in list(tree.find_all(exp.Not)):
        # sqlglot writes x NOT IN (1, 2) = y as NOT x IN (1, 2) = y, which is another thing
        if isinstance(each.parent, exp.Predicate | exp.Binary | exp.Cast) and not isinstance(
            each.parent, exp.Connector
        ):
            each.replace(brackets := exp.Paren())
            brackets.set("this", each)  # itself: there may be others in it
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
            escape.replace(like_as_regex(like, sign) if sign in text else like)
    return tree


_WITHIN = {"percentile_cont": "quantile_cont", "percentile_disc": "quantile_disc", "mode": "mode"}


def _of_one_column(within: exp.WithinGroup) -> exp.Expr | None:
    """percentile_cont(0.9) WITHIN GROUP (ORDER BY x), as PostgreSQL writes quantile_cont(x, 0.9);
    None where it orders in another way."""
    call, order = within.this, within.expression.expressions
    name = _WITHIN.get(call.name.lower()) if isinstance(call, exp.Anonymous) else None
    given = call.expressions
    if (
        name is None
        or len(order) != 1
        or order[0].args.get("desc")
        or len(given) != (name != "mode")
    ):
        return None
    call.set("this", name)
    call.set("expressions", [order[0].this, *given])
    return call


def _call(name: str, *arguments: exp.Expr) -> exp.Anonymous:
    return exp.Anonymous(this=name, expressions=list(arguments))


_COMMAS = "between arguments stand commas: substring(x, 2, 3), trim(x, 'a')"


def _syntax_error(text: str, tokens: list[Token], error: ParseError) -> SelectError:
    token = getattr(error, "token", None)
    message = str(error).split("\n")[0].partition(" but got <Token")[0].rstrip(". ")
    if token is None or token.end >= len(text):
        return SelectError(message, text=text)
    word = text[token.start : token.end + 1]
    if message.startswith("Invalid expression / Unexpected token"):
        message = f"{word[:40]!r} was not expected here"
    elif message.startswith("Required keyword"):
        message = "something is missing here"
    at_end = token.end >= tokens[-1].end and message.startswith("Expect")
    place = Span(len(text.rstrip()), 0) if at_end else token
    remedy = _COMMAS if message == "Expecting )" else ""
    return problem_at(text, place, message[:1].lower() + message[1:], remedy)
