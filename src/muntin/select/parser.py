"""Text to `Statement`: sqlglot's parser over our tokens, with places in the original text.

Recursion is the danger of every parser: what nests too deep, is too long or is written in
characters that no statement needs is refused in one linear pass, before sqlglot's sees it.
"""

import itertools
import re
import unicodedata
from typing import Any, NoReturn

from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import ErrorLevel, ParseError, TokenError
from sqlglot.tokenizer_core import Token, TokenType

from muntin.errors import SelectError
from muntin.select.from_items import Extraction
from muntin.select.item_parser import is_name
from muntin.select.limits import ASK_LESS, Limits
from muntin.select.places import Span, problem_at
from muntin.select.syntax import DIALECT, Statement, constant_text, like_as_regex, must_be_quoted

# One alternative for each thing that may hold any character, then plain text.
_PART = re.compile(
    r"""
      (?P<string>'(?:[^']|'')*')
    | (?P<name>"(?:[^"]|"")*")
    | (?P<comment>--[^\n]*|/\*.*?\*/)
    | (?P<open>'|"|/\*)
    | (?P<plain>!=|::|\|\||[A-Za-z0-9_\s()*,./+<>=%;^-])
    | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_REMEDIES = {
    "‘’′“”": "write a straight quote",
    "−–—": "write a plain minus",
    "!": "write NOT, or != for unequal",
    ":": "a cast is ::, and a text, or an address, stands in single quotes",
    "|": "strings are joined with ||",
    "~": "a pattern stands in regexp_matches(x, '...')",
    "[]{}": "lists and structures are not part of SELECT here",
    "?$@": "parameters are not part of SELECT here: write the value",
    "`": 'names are quoted as "name"',
}
"""Of characters that plain SQL does not have."""
_PREFIXES = frozenset("ebxnrfuEBXNRFU")
_SIGNED = re.compile(r"[eE][0-9]+[+-]")  # 1e3-1, which sqlglot takes for one number
_DOTTED = re.compile(r"[0-9.]+")
_PREFIX_RUN_MAX = 8  # NOT NOT NOT ..., - - - ...

_OPENING = {TokenType.L_PAREN, TokenType.CASE}
_CLOSING = {TokenType.R_PAREN, TokenType.END}
_CONSTANTS = {TokenType.STRING, TokenType.NUMBER}
_BEFORE_ITEM = {TokenType.L_PAREN, TokenType.COMMA}
_AFTER_ITEM = {TokenType.R_PAREN, TokenType.COMMA}
_PREFIX_OPERATORS = {TokenType.NOT, TokenType.DASH, TokenType.PLUS, TokenType.TILDE}


_OVER = [TokenType.R_PAREN, TokenType.OVER]
_LISTS = (
    TokenType.SELECT, TokenType.DISTINCT, TokenType.GROUP_BY, TokenType.ORDER_BY,
    TokenType.PARTITION_BY, TokenType.L_PAREN, TokenType.COMMA,
)  # fmt: skip
_NEVER = {
    *((before, TokenType.COMMA) for before in _LISTS),
    (TokenType.PARTITION_BY, TokenType.ORDER_BY),
    (TokenType.PARTITION_BY, TokenType.R_PAREN),
    (TokenType.ASC, TokenType.DESC),
    (TokenType.ALIAS, TokenType.NUMBER),
}
"""Pairs that sqlglot passes over, of which no SQL has any."""


def _tokens(text: str, limits: Limits) -> list[Token]:
    """Tokens of one statement, whose `start` and `end` are places in `text`."""
    check_text(text, limits)
    _check_characters(text, limits)
    try:
        tokens = DIALECT.tokenize(text)
    except (TokenError, RecursionError):
        raise SelectError("this is not a SELECT statement", text=text) from None
    tokens = _one_statement(text, _with_points(tokens))
    _check_shape(text, tokens, limits)
    return tokens


def check_text(text: str, limits: Limits) -> None:
    """Whether it is a text at all, of a length and in characters that a statement may have. Raises
    SelectError: with code "limit", "character" or "syntax"."""
    if not isinstance(text, str):
        raise SelectError(f"a statement is text, not {type(text).__name__}")
    # The length in characters first: encoding a huge text costs as much as the text.
    if len(text) > limits.text_bytes or len(_utf8(text)) > limits.text_bytes:
        raise SelectError(
            f"the statement is longer than {limits.text_bytes} bytes",
            code="limit",
            remedy="shorten it",
        )
    if not text.strip():
        raise SelectError("the statement is empty", remedy="SELECT ... FROM ...")
    bad = _CONTROL.search(text)
    if bad:
        message = f"the character U+{ord(bad[0]):04X} cannot be part of a statement"
        spelt = f"\\x{ord(bad[0]):02x}"
        remedy = f"in a pattern it is {spelt}: regexp_matches(name, '{spelt}')"
        raise problem_at(text, Span(bad.start(), 1), message, remedy, "character")


def _check_characters(text: str, limits: Limits) -> None:
    for part in _PART.finditer(text):
        kind, start = part.lastgroup, part.start()
        if kind == "open":
            what = {"'": "string", '"': "name", "/*": "comment"}[part[0]]
            message = f"the {what} that starts here has no end"
            remedy = f"close it with {'*/' if part[0] == '/*' else part[0]}"
            raise problem_at(text, Span(start, len(part[0])), message, remedy, "unterminated")
        if kind == "other":
            raise _bad_character(text, start)
        if kind in ("string", "name") and len(part[0].encode()) > limits.literal_bytes + 2:
            message = f"a {kind} is longer than {limits.literal_bytes} bytes"
            remedy = "compare the beginning: starts_with(name, '...')" if kind == "string" else ""
            raise problem_at(text, Span(start, 1), message, remedy, "limit")
        if kind == "name" and not part[0][1:-1].strip():
            remedy = "a column without a name is in *, and in X1 or Y1, Y2, ... of a vector matrix"
            raise problem_at(text, Span(start, 2), "a name is empty", remedy)
        if kind == "string" and start and text[start - 1] in _PREFIXES:
            before = text[start - 2] if start > 1 else " "
            if not (before.isalnum() or before == "_"):
                message = f"strings of the form {text[start - 1]}'...' are not available"
                remedy = "write '...', with '' for a quote inside"
                raise problem_at(text, Span(start - 1, 2), message, remedy)


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise SelectError(
            "the statement holds half a character (a lone surrogate)",
            code="character",
            position=error.start,
            length=1,
        ) from None


def _bad_character(text: str, position: int) -> SelectError:
    character = text[position]
    name = unicodedata.name(character, "unnamed")
    plain = unicodedata.normalize("NFKC", character)
    remedy = next((said for known, said in _REMEDIES.items() if character in known), "")
    if plain != character and plain.isascii() and plain.strip():
        remedy = f"it only looks like {plain!r}: write that"
    elif character.isspace():
        remedy = "it only looks like a space: write a plain one"
    remedy = remedy or 'names with such characters are written in double quotes: "..."'
    shown = character if character.isprintable() else ""
    message = f"unexpected character {shown!r} (U+{ord(character):04X} {name.lower()})"
    return problem_at(text, Span(position, 1), message, remedy, "character")


def _with_points(tokens: list[Token]) -> list[Token]:
    """.25 as one number, which is two tokens of sqlglot's."""
    joined: list[Token] = []
    for token in tokens:
        last = joined[-1] if joined and token.token_type is TokenType.NUMBER else token
        if last.token_type is TokenType.DOT and last.end + 1 == token.start:
            joined.pop()
            number = f"0.{token.text}"
            token = Token(TokenType.NUMBER, number, last.line, last.col, last.start, token.end)
        joined.append(token)
    return joined


def _one_statement(text: str, tokens: list[Token]) -> list[Token]:
    """Without a final semicolon; refuses a second statement."""
    first = next((i for i, t in enumerate(tokens) if t.token_type is TokenType.SEMICOLON), None)
    if first is not None:
        rest = [t for t in tokens[first:] if t.token_type is not TokenType.SEMICOLON]
        if rest:
            message, remedy = "only one statement at a time", "end the text after the first one"
            raise problem_at(text, rest[0], message, remedy, "statement")
        tokens = tokens[:first]
    if not tokens:
        raise SelectError("the statement is empty", text=text, remedy="SELECT ... FROM ...")
    head = next((t for t in tokens if t.token_type is not TokenType.L_PAREN), tokens[0])
    if head.token_type not in (TokenType.SELECT, TokenType.WITH):
        message = f"a statement starts with SELECT, which only reads, not with {_shown(text, head)}"
        remedy = "beside SELECT there are SHOW TABLES and DESCRIBE <name>"
        raise problem_at(text, head, message, remedy, "statement")
    return tokens


def _check_addresses(text: str, tokens: list[Token]) -> None:
    """10.0.0.1 without quotes is two numbers in a row, which says nothing to who wrote it."""
    for number, more in itertools.pairwise(tokens):
        joined = number.token_type is more.token_type is TokenType.NUMBER
        if not joined or number.end + 1 != more.start:
            continue
        found = _DOTTED.match(text, number.start)
        word = text[number.start : found.end() if found else more.end + 1][:40]
        message = f"{word!r} is neither a number nor a name"
        place = Span(number.start, len(word))
        raise problem_at(text, place, message, f"a text, or an address, is written '{word}'")


def _shown(text: str, token: Token) -> str:
    word = text[token.start : token.end + 1]
    return repr(word if len(word) <= 40 else word[:37] + "...")


def _in_lists(tokens: list[Token]) -> list[int]:
    """Places of the constants behind a bracket or a comma, and before one."""
    kinds = [None, None, *(token.token_type for token in tokens), None]
    return [
        at
        for at, (first, before, kind, after) in enumerate(
            zip(kinds, kinds[1:], kinds[2:], kinds[3:], strict=False)
        )
        if kind in _CONSTANTS
        and after in _AFTER_ITEM
        and (first if before is TokenType.DASH else before) in _BEFORE_ITEM
    ]


def _check_shape(text: str, tokens: list[Token], limits: Limits) -> None:
    items = _in_lists(tokens)
    if len(items) > limits.list_constants:
        message = f"more than {limits.list_constants} constants stand in lists"
        raise problem_at(text, tokens[items[limits.list_constants]], message, ASK_LESS, "limit")
    signs = sum(tokens[at - 1].token_type is TokenType.DASH for at in items)
    if len(tokens) - 2 * len(items) - signs > limits.tokens:
        message = f"the statement has more than {limits.tokens} words and signs"
        raise problem_at(text, Span(tokens[-1].start, 0), message, ASK_LESS, "limit")
    kinds = [
        TokenType.VAR if is_name(tokens, at) else token.token_type
        for at, token in enumerate(tokens)
    ]
    if kinds[-1] is TokenType.OFFSET or kinds[-2:] == _OVER:
        raise problem_at(text, tokens[-1], f"nothing follows {_shown(text, tokens[-1])}")
    for at, (before, after) in enumerate(itertools.pairwise(tokens), start=1):
        # elsewhere "over" is a name
        lacks = kinds[max(at - 2, 0) : at] == _OVER and kinds[at] is not TokenType.L_PAREN
        if lacks or (kinds[at - 1], kinds[at]) in _NEVER:
            message = f"{_shown(text, after)} does not follow {_shown(text, before)}"
            remedy = "write (...) after OVER" if lacks else "something is missing between them"
            raise problem_at(text, after, message, remedy)
    for token in tokens:
        if token.token_type is TokenType.NUMBER and _SIGNED.search(token.text):
            message = f"{_shown(text, token)} is read as one number"
            raise problem_at(text, token, message, "write a space before the sign: 1e3 - 1")
    for number, word in itertools.pairwise(tokens):
        joined = number.end + 1 == word.start and text[word.start].isidentifier()
        if joined and number.token_type is TokenType.NUMBER:
            message = f"{text[number.start : word.end + 1][:40]!r} is neither a number nor a name"
            remedy = "numbers are digits, a point and an exponent; names start with a letter"
            place = Span(number.start, word.end - number.start + 1)
            raise problem_at(text, place, message, remedy)
    _check_addresses(text, tokens)
    opened: list[Token] = []
    run = 0
    for token in tokens:
        kind = token.token_type
        run = run + 1 if kind in _PREFIX_OPERATORS else 0
        if kind in _OPENING:
            opened.append(token)
        elif kind in _CLOSING:
            partner = TokenType.L_PAREN if kind is TokenType.R_PAREN else TokenType.CASE
            if opened and opened[-1].token_type is partner:
                opened.pop()
            elif kind is TokenType.R_PAREN:
                raise problem_at(text, token, "this bracket closes nothing")
        if run > _PREFIX_RUN_MAX:
            message = f"more than {_PREFIX_RUN_MAX} signs or NOT stand before one value"
            raise problem_at(text, token, message, "two of them are none", "limit")
        if len(opened) > limits.depth:
            message = f"the statement nests deeper than {limits.depth} levels"
            raise problem_at(text, Span(token.start, 1), message, ASK_LESS, "limit")
    if opened:
        what = "bracket" if opened[-1].token_type is TokenType.L_PAREN else "CASE"
        remedy = "add ')'" if what == "bracket" else "add END"
        raise problem_at(text, opened[-1], f"this {what} is not closed", remedy)


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
    tokens = _tokens(text, limits)
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
