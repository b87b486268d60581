"""From text to tokens that are safe to parse: all that can be refused in one linear pass.

Recursion is the danger of every parser: what nests too deep, is too long or is written in
characters that no statement needs is refused here, before sqlglot's parser sees it.
"""

from __future__ import annotations

import itertools
import re
import unicodedata

from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token, TokenType

from muntin.errors import SelectError
from muntin.select.limits import Limits
from muntin.select.places import Span, problem_at

_DIALECT = DuckDB()

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
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\ufeff]")
_REMEDIES = {
    "‘’′“”": "write a straight quote",
    "−–—": "write a plain minus",
    "!": "write NOT, or != for unequal",
    ":": "a cast is ::",
    "|": "strings are joined with ||",
    "[]{}": "lists and structures are not part of SELECT here",
    "?$@": "parameters are not part of SELECT here: write the value",
    "`": 'names are quoted as "name"',
}
"""Of characters that plain SQL does not have."""
_PREFIXES = frozenset("ebxnrfuEBXNRFU")
_PREFIX_RUN_MAX = 8  # NOT NOT NOT ..., - - - ...

_OPENING = {TokenType.L_PAREN, TokenType.CASE}
_CLOSING = {TokenType.R_PAREN, TokenType.END}
_PREFIX_OPERATORS = {TokenType.NOT, TokenType.DASH, TokenType.PLUS, TokenType.TILDE}


def tokenize(text: str, limits: Limits) -> list[Token]:
    """Tokens of one statement, whose `start` and `end` are places in `text`.

    Raises
    ------
    SelectError
        With code "limit", "character", "unterminated", "statement" or "syntax".
    """
    check_text(text, limits)
    _check_characters(text, limits)
    try:
        tokens = _DIALECT.tokenize(text)
    except (TokenError, RecursionError):
        raise SelectError("this is not a SELECT statement", text=text) from None
    tokens = _one_statement(text, tokens)
    _check_shape(text, tokens, limits)
    return tokens


def check_text(text: str, limits: Limits) -> None:
    """Whether it is a text at all, of a length and in characters that a statement may have.

    Raises
    ------
    SelectError
        With code "limit", "character" or "syntax".
    """
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
        raise problem_at(text, Span(bad.start(), 1), message, code="character")


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
            raise problem_at(text, Span(start, 1), message, code="limit")
        if kind == "name" and not part[0][1:-1].strip():
            raise problem_at(text, Span(start, 2), "a name is empty")
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
        message = f"a statement starts with SELECT, not with {_shown(text, head)}"
        remedy = "beside SELECT, which only reads, there are SHOW TABLES and DESCRIBE <name>"
        raise problem_at(text, head, message, remedy, "statement")
    return tokens


def _shown(text: str, token: Token) -> str:
    word = text[token.start : token.end + 1]
    return repr(word if len(word) <= 40 else word[:37] + "...")


def _check_shape(text: str, tokens: list[Token], limits: Limits) -> None:
    if len(tokens) > limits.tokens:
        message = f"the statement has more than {limits.tokens} words and signs"
        raise problem_at(text, Span(tokens[limits.tokens].start, 0), message, code="limit")
    for number, word in itertools.pairwise(tokens):
        joined = number.end + 1 == word.start and text[word.start].isidentifier()
        if joined and number.token_type is TokenType.NUMBER:
            message = f"{text[number.start : word.end + 1][:40]!r} is neither a number nor a name"
            remedy = "numbers are digits, a point and an exponent; names start with a letter"
            place = Span(number.start, word.end - number.start + 1)
            raise problem_at(text, place, message, remedy)
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
        if len(opened) > limits.depth or run > _PREFIX_RUN_MAX:
            message = f"the statement nests deeper than {limits.depth} levels"
            raise problem_at(text, Span(token.start, 1), message, code="limit")
    if opened:
        what = "bracket" if opened[-1].token_type is TokenType.L_PAREN else "CASE"
        remedy = "add ')'" if what == "bracket" else "add END"
        raise problem_at(text, opened[-1], f"this {what} is not closed", remedy)
