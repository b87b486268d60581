"""The window clause after a FROM item: `FOR LAST '15 minutes'`, `FOR '...' TO '...'`, ...

Durations are of fixed length (a month is not), times are ISO 8601; one without an offset is UTC.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from sqlglot.tokenizer_core import Token, TokenType

from muntin.errors import SelectError
from muntin.select.catalog import WindowAsked

_UNITS_US = {
    "us": 1,
    "ms": 1_000,
    "s": 1_000_000,
    "min": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
    "w": 604_800_000_000,
}
_NAMES = {
    "us": ("us", "microsecond", "microseconds"),
    "ms": ("ms", "millisecond", "milliseconds"),
    "s": ("s", "sec", "secs", "second", "seconds"),
    "min": ("m", "min", "mins", "minute", "minutes"),
    "h": ("h", "hr", "hrs", "hour", "hours"),
    "d": ("d", "day", "days"),
    "w": ("w", "week", "weeks"),
}
_UNIT_OF = {name: unit for unit, names in _NAMES.items() for name in names}
_SHOWN = (("d", "day"), ("h", "hour"), ("min", "minute"), ("s", "second"), ("ms", "millisecond"))
_TERM = re.compile(r"\s*(\d{1,15}(?:\.\d{1,6})?)\s*([a-z]+)", re.IGNORECASE | re.ASCII)
_DURATION_US_MAX = 200 * 365 * _UNITS_US["d"]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FORMS = (
    "FOR LAST '15 minutes', FOR '<start>' TO '<end>', FOR WINDOW '<start>', FOR WINDOW LAST, "
    "FOR ALL or FOR OPEN"
)


def duration_us(text: str) -> int | None:
    """Microseconds of "15 minutes", "1 h", "1 day 2 hours", "90s"; None if it is not one."""
    total, exact, end = 0.0, 0, 0
    while (term := _TERM.match(text, end)) is not None:
        unit = _UNIT_OF.get(term[2].lower())
        if unit is None:
            return None
        if "." in term[1]:
            total += float(term[1]) * _UNITS_US[unit]
        else:
            exact += int(term[1]) * _UNITS_US[unit]
        end = term.end()
    if end == 0 or text[end:].strip():
        return None
    result = exact + round(total)
    return result if 0 < result <= _DURATION_US_MAX else None


def time_us(text: str) -> int | None:
    """Microseconds since 1970 of an ISO time, UTC unless it has an offset; None if it is not."""
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    try:
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return (moment - _EPOCH) // timedelta(microseconds=1)
    except OverflowError:
        return None


def show_time(us: int) -> str:
    """ISO 8601 with Z; the shortest form that keeps every microsecond."""
    moment = _EPOCH + timedelta(microseconds=us)
    text = moment.strftime("%Y-%m-%dT%H:%M:%S") if moment.year >= 1000 else moment.isoformat()[:19]
    fraction = us % 1_000_000
    return text + (f".{fraction:06d}".rstrip("0") if fraction else "") + "Z"


def show_duration(us: int) -> str:
    """A duration in the largest unit that divides it."""
    for unit, name in _SHOWN:
        number, rest = divmod(us, _UNITS_US[unit])
        if rest == 0:
            return f"{number} {name}{'' if number == 1 else 's'}"
    return f"{us} microsecond{'' if us == 1 else 's'}"


def show_window(window: WindowAsked) -> str:
    """The clause without FOR; `parse_window` reads it back."""
    if window.kind == "last":
        return f"LAST '{show_duration(window.length_us or 0)}'"
    if window.kind == "range":
        return f"'{show_time(window.start_us or 0)}' TO '{show_time(window.end_us or 0)}'"
    if window.kind == "window":
        return f"WINDOW '{show_time(window.start_us or 0)}'"
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
            raise _error(
                text, tokens, at + 3, "the window ends before it starts", "the earlier time first"
            )
        return WindowAsked("range", start_us=start, end_us=end), at + 4
    raise _error(text, tokens, at + 1, "this is not a window")


def _last(text: str, tokens: Sequence[Token], at: int) -> tuple[WindowAsked, int]:
    """LAST '15 minutes', or LAST 15 minutes."""
    first = tokens[at + 2] if at + 2 < len(tokens) else None
    if first is not None and first.token_type is TokenType.STRING:
        spelled, after = first.text, at + 3
    elif first is not None and first.token_type is TokenType.NUMBER:
        spelled, after = f"{first.text} {_word(tokens, at + 3)}", at + 4
    else:
        raise _error(text, tokens, at + 2, "how long is the window?", "e.g. FOR LAST '15 minutes'")
    length = duration_us(spelled)
    if length is None:
        raise _error(
            text,
            tokens,
            at + 2,
            f"{spelled.strip()[:40]!r} is not a length of time",
            "a number and a unit from microseconds to weeks, e.g. '15 minutes', '1 day 6 hours'",
        )
    return WindowAsked("last", length_us=length), after


def _time(text: str, tokens: Sequence[Token], at: int, what: str) -> int:
    token = tokens[at] if at < len(tokens) else None
    if token is None or token.token_type is not TokenType.STRING:
        raise _error(text, tokens, at, f"{what} is missing", "e.g. '2026-01-01 10:00' (UTC)")
    us = time_us(token.text)
    if us is None:
        raise _error(
            text,
            tokens,
            at,
            f"{token.text[:40]!r} is not a time",
            "e.g. '2026-01-01 10:00' (UTC) or '2026-01-01T10:00:00+02:00'",
        )
    return us


def _word(tokens: Sequence[Token], at: int) -> str:
    if at >= len(tokens) or tokens[at].token_type in (TokenType.STRING, TokenType.IDENTIFIER):
        return ""
    return tokens[at].text.upper()


def _error(
    text: str, tokens: Sequence[Token], at: int, message: str, remedy: str = FORMS
) -> SelectError:
    if at < len(tokens):
        start, length = tokens[at].start, tokens[at].end - tokens[at].start + 1
    else:
        start, length = tokens[-1].end + 1, 0
    return SelectError(
        message, code="window", text=text, position=start, length=length, remedy=remedy
    )
