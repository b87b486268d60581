"""The window clause after a FROM item: `FOR LAST '15 minutes'`, `FOR '...' TO '...'`, ...

Durations are of fixed length (a month is not), times are ISO 8601; one without an offset is UTC.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot.tokenizer_core import Token, TokenType

from muntin.errors import BadArgument, SelectError
from muntin.select.catalog import WindowAsked
from muntin.select.places import Span, problem_at
from muntin.times import duration_text, duration_us, instant_text, instant_us

FORMS = (
    "FOR LAST '15 minutes', FOR '<start>' TO '<end>', FOR WINDOW '<start>', FOR WINDOW LAST, "
    "FOR ALL or FOR OPEN"
)


def show_window(window: WindowAsked) -> str:
    """The clause without FOR; `parse_window` reads it back."""
    if window.kind == "last":
        return f"LAST '{duration_text(window.length_us or 0)}'"
    if window.kind == "range":
        return f"'{instant_text(window.start_us or 0)}' TO '{instant_text(window.end_us or 0)}'"
    if window.kind == "window":
        return f"WINDOW '{instant_text(window.start_us or 0)}'"
    return {"newest_window": "WINDOW LAST", "all": "ALL", "open": "OPEN"}[window.kind]


def parse_window(text: str, tokens: Sequence[Token], at: int) -> tuple[WindowAsked, int]:
    """The clause whose FOR is `tokens[at]`, and the index after it."""
    word = _word(tokens, at + 1)
    if word == "LAST":
        return _last(text, tokens, at)
    if word == "WINDOW":
        if _word(tokens, at + 2) == "LAST":
            return WindowAsked("newest_window"), at + 3
        start = _time(text, tokens, at + 2, "the start of a closed window, or LAST")
        return WindowAsked("window", start_us=start), at + 3
    if word in ("ALL", "OPEN"):
        return WindowAsked("all" if word == "ALL" else "open"), at + 2
    if at + 1 < len(tokens) and tokens[at + 1].token_type is TokenType.STRING:
        start = _time(text, tokens, at + 1, "the start of the window")
        if _word(tokens, at + 2) != "TO":
            raise _error(text, tokens, at + 2, "TO is missing after the window's start")
        end = _time(text, tokens, at + 3, "the end of the window")
        if end <= start:
            message, remedy = "the window ends before it starts", "the earlier time first"
            if end == start:
                message, remedy = "the window holds no time", "its end is excluded: a later one"
            raise _error(text, tokens, at + 3, message, remedy)
        return WindowAsked("range", start_us=start, end_us=end), at + 4
    raise _error(text, tokens, at + 1, "this is not a window")


def _last(text: str, tokens: Sequence[Token], at: int) -> tuple[WindowAsked, int]:
    """LAST '15 minutes', or LAST 15 minutes."""
    after = at + 2
    if after < len(tokens) and tokens[after].token_type is TokenType.STRING:
        spelled, after = tokens[after].text, after + 1
    else:
        spelled = ""
        while after < len(tokens) and tokens[after].token_type is TokenType.NUMBER:
            spelled = f"{spelled} {tokens[after].text} {_word(tokens, after + 1)}".lstrip()
            after += 2
    if not spelled:
        raise _error(text, tokens, at + 2, "how long is the window?", "e.g. FOR LAST '15 minutes'")
    try:
        return WindowAsked("last", length_us=duration_us(spelled)), after
    except BadArgument as error:
        raise _placed(text, tokens, at + 2, error) from None


def _time(text: str, tokens: Sequence[Token], at: int, what: str) -> int:
    token = tokens[at] if at < len(tokens) else None
    if token is None or token.token_type is not TokenType.STRING:
        raise _error(text, tokens, at, f"{what} is missing", "e.g. '2026-01-01 10:00' (UTC)")
    try:
        return instant_us(token.text)
    except BadArgument as error:
        raise _placed(text, tokens, at, error) from None


def _placed(text: str, tokens: Sequence[Token], at: int, error: BadArgument) -> SelectError:
    message, said, remedy = str(error).rpartition(": write ")
    return _error(text, tokens, at, message or remedy, f"write {remedy}" if said else "")


def _word(tokens: Sequence[Token], at: int) -> str:
    if at >= len(tokens) or tokens[at].token_type in (TokenType.STRING, TokenType.IDENTIFIER):
        return ""
    return tokens[at].text.upper()


def _error(
    text: str, tokens: Sequence[Token], at: int, message: str, remedy: str = FORMS
) -> SelectError:
    place = tokens[at] if at < len(tokens) else Span(tokens[-1].end + 1, 0)
    return problem_at(text, place, message, remedy, "window")
