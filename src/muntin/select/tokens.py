"""A statement's text as tokens, or why it is none.

Recursion is the danger of every parser: what nests too deep, is too long or is written in
characters that no statement needs is refused in one linear pass, before sqlglot's sees it.
"""

import itertools
import re
import unicodedata

from sqlglot.errors import TokenError
from sqlglot.parser import Parser
from sqlglot.tokenizer_core import Token, TokenType

from muntin.errors import SelectError
from muntin.select.item_parser import is_name
from muntin.select.limits import ASK_LESS, Limits
from muntin.select.places import Span, problem_at
from muntin.select.syntax import DIALECT

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
_SYMBOLS = dict.fromkeys(Parser.TYPE_TOKENS, "t")
_SYMBOLS |= dict.fromkeys(
    (TokenType.STRING, TokenType.NUMBER, TokenType.NULL, TokenType.TRUE, TokenType.FALSE), "c"
)
_SYMBOLS |= {TokenType.DASH: "-", TokenType.DCOLON: ":", TokenType.ALIAS: "a",
             TokenType.L_PAREN: "(", TokenType.R_PAREN: ")", TokenType.COMMA: ","}  # fmt: skip
"""One letter for a token, so that a pattern finds constants: t is a type, c a constant."""
_LISTED = re.compile(r"(?<=[(,])(?:-?c|\(-?c\)|tc|C\(-?cat\))(?::t)?(?=[),])")
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


def tokens_of(text: str, limits: Limits) -> list[Token]:
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


def _in_lists(tokens: list[Token]) -> list[tuple[int, int]]:
    """From where to where constants stand behind a bracket or a comma, and before one: 7, -7, (-7),
    DATE '2026-12-01', '7'::BIGINT and CAST('7' AS BIGINT)."""
    line = "".join(
        "C" if token.text.upper() == "CAST" else _SYMBOLS.get(token.token_type, " ")
        for token in tokens
    )
    return [found.span() for found in _LISTED.finditer(line)]


def _check_shape(text: str, tokens: list[Token], limits: Limits) -> None:
    items = _in_lists(tokens)
    if len(items) > limits.list_constants:
        message = f"more than {limits.list_constants} constants stand in lists"
        first = tokens[items[limits.list_constants][0]]
        raise problem_at(text, first, message, ASK_LESS, "limit")
    if len(tokens) - sum(end - start + 1 for start, end in items) > limits.tokens:
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
