"""One FROM item: `orders(driver, area) FOR LAST '1 hour' AS a`, `vector (1.2) OF orders`.

Durations in window clauses are of fixed length (a month is not), times are ISO 8601; one without
an offset is UTC.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import replace

from sqlglot.tokenizer_core import Token, TokenType

from muntin.errors import BadArgument, SelectError
from muntin.select.allowed import words
from muntin.select.catalog import ForClause
from muntin.select.limits import ASK_LESS, Limits
from muntin.select.places import NOWHERE, Span, problem_at
from muntin.select.syntax import FromItem, Name, SourceItem, Value, VectorItem
from muntin.times import duration_us, instant_us

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_VECTOR = re.compile(r"(\d{1,4})\.(\d{1,4})\Z")
_NOT_ITEMS = words(
    "select where group having order limit offset union except intersect on using join left right "
    "full inner outer cross natural as for values lateral qualify window"
)
_WINDOWS = (
    "FOR LAST '15 minutes', FOR '<start>' TO '<end>', FOR WINDOW '<start>', FOR WINDOW LAST, "
    "FOR ALL or FOR OPEN, each also by steps: FOR ALL EVERY '1 hour'"
)
_CONSTANTS: dict[str, bool | None] = {"true": True, "false": False, "null": None}


def is_vector(tokens: Sequence[Token], at: int) -> bool:
    """`vector 1.2`, `sketch (1.2)`: the word and then a number."""
    if at >= len(tokens) or tokens[at].text.lower() not in ("vector", "sketch"):
        return False
    if tokens[at].token_type in (TokenType.IDENTIFIER, TokenType.STRING):
        return False
    after = [t.token_type for t in tokens[at + 1 : at + 3]]
    return after[:1] == [TokenType.NUMBER] or after == [TokenType.L_PAREN, TokenType.NUMBER]


def is_name(tokens: Sequence[Token], at: int) -> bool:
    """Whether a word is a name, whichever it is: behind AS and behind a point."""
    behind = at > 0 and tokens[at - 1].token_type in (TokenType.ALIAS, TokenType.DOT)
    return behind and tokens[at].text.isidentifier()


class ItemParser:
    """Reads items from the tokens; each method returns what it read and the index after it."""

    def __init__(self, text: str, tokens: Sequence[Token], limits: Limits) -> None:
        self.text = text
        self.tokens = tokens
        self.limits = limits

    def vector(self, at: int) -> tuple[VectorItem, int]:
        word, start = self.tokens[at].text.lower(), at
        at += 1
        bracket = self._is(at, TokenType.L_PAREN)
        at += bracket
        key, indicator, at = self._address(at)
        if bracket:
            if not self._is(at, TokenType.R_PAREN):
                raise self._error(at, "')' is missing", f"e.g. {word} (1.2)")
            at += 1
        span = self._span(start, at)
        summary, summary_span = None, NOWHERE
        if at < len(self.tokens) and self.tokens[at].text.upper() == "OF":
            summary, summary_span = self._name(at + 1, "the name of a vector matrix")
            at += 2
        window, at = self._window(at)
        indicators = None if indicator is None else (indicator,)
        item = VectorItem(
            key, indicators, summary, window, word, span, (span,), summary_span=summary_span
        )
        return item, at

    def _address(self, at: int) -> tuple[int, int | None, int]:
        """`3.1`, or `1.*`, which the tokenizer reads as a number and a star."""
        text = self._text(at)
        match = _VECTOR.match(text)
        if match and int(match[1]) and int(match[2]):
            return int(match[1]), int(match[2]), at + 1
        if re.fullmatch(r"0*[1-9]\d{0,3}\.", text) and self._is(at + 1, TokenType.STAR):
            return int(text[:-1]), None, at + 2
        raise self._error(
            at,
            f"{text[:40]!r} is not a vector",
            "vector i.j is indicator j of key i, both from 1; vector i.* is all of key i",
        )

    def source(self, at: int) -> tuple[SourceItem, list[Token], int]:
        """The item, and its alias."""
        start = at
        name, _ = self._name(at, "a summary, a table function or a query in brackets")
        quoted = self._is(at, TokenType.IDENTIFIER)
        at += 1
        if self._is(at, TokenType.DOT):
            raise self._error(at, "names in FROM have no dots", "FROM <summary>(<key>)")
        arguments = None
        if self._is(at, TokenType.L_PAREN):
            arguments, at = self._arguments(at + 1)
        span = self._span(start, at)
        window, clause, at = self._clause(at)
        alias, at = self._alias(at)
        if window is None:
            window, clause, at = self._clause(at)
        elif self._is(at, TokenType.FOR):
            raise self._error(at, "a second window for the same FROM item", "leave one")
        return SourceItem(name, arguments, window, quoted, span, clause), alias, at

    def _clause(self, at: int) -> tuple[ForClause | None, Span, int]:
        window, after = self._window(at)
        return window, NOWHERE if window is None else self._span(at, after), after

    def _window(self, at: int) -> tuple[ForClause | None, int]:
        if not self._is(at, TokenType.FOR):
            return None, at
        window, after = self._whole_window(at)
        step = self._is(after + 1, TokenType.STRING) or self._is(after + 1, TokenType.NUMBER)
        if self._word(after) != "EVERY" or not step:  # else it is an alias
            return window, after
        every, after = self._length(after + 1, "how long is a step?", "e.g. EVERY '1 hour'")
        return replace(window, every_us=every), after

    def _whole_window(self, at: int) -> tuple[ForClause, int]:
        word = self._word(at + 1)
        if word == "LAST":
            remedy = "e.g. FOR LAST '15 minutes'"
            length, after = self._length(at + 2, "how long is the window?", remedy)
            return ForClause("last", length_us=length), after
        if word == "WINDOW":
            if self._word(at + 2) == "LAST":
                return ForClause("newest_window"), at + 3
            start = self._time(at + 2, "the start of a closed window, or LAST")
            return ForClause("window", start_us=start), at + 3
        if word in ("ALL", "OPEN"):
            return ForClause("all" if word == "ALL" else "open"), at + 2
        if not self._is(at + 1, TokenType.STRING):
            raise self._no_window(at + 1, "this is not a window")
        start = self._time(at + 1, "the start of the window")
        if self._word(at + 2) != "TO":
            raise self._no_window(at + 2, "TO is missing after the window's start")
        end = self._time(at + 3, "the end of the window")
        if end <= start:
            message, remedy = "the window ends before it starts", "the earlier time first"
            if end == start:
                message, remedy = "the window holds no time", "its end is excluded: a later one"
            raise self._no_window(at + 3, message, remedy)
        return ForClause("range", start_us=start, end_us=end), at + 4

    def _length(self, at: int, missing: str, remedy: str) -> tuple[int, int]:
        """'15 minutes', or 15 minutes: in microseconds."""
        after, spelled = at, ""
        if self._is(at, TokenType.STRING):
            spelled, after = self._text(at), at + 1
        else:
            while self._is(after, TokenType.NUMBER):
                spelled = f"{spelled} {self._text(after)} {self._word(after + 1)}".lstrip()
                after += 2
        if not spelled:
            raise self._no_window(at, missing, remedy)
        try:
            return duration_us(spelled), after
        except BadArgument as error:
            raise self._misspelled(at, error) from None

    def _time(self, at: int, what: str) -> int:
        if not self._is(at, TokenType.STRING):
            raise self._no_window(at, f"{what} is missing", "e.g. '2026-01-01 10:00' (UTC)")
        try:
            return instant_us(self._text(at))
        except BadArgument as error:
            raise self._misspelled(at, error) from None

    def _misspelled(self, at: int, error: BadArgument) -> SelectError:
        message, said, remedy = str(error).rpartition(": write ")
        return self._no_window(at, message or remedy, f"write {remedy}" if said else "")

    def _no_window(self, at: int, message: str, remedy: str = _WINDOWS) -> SelectError:
        return self._error(at, message, remedy, code="window")

    def _alias(self, at: int) -> tuple[list[Token], int]:
        after = at
        if self._is(at, TokenType.ALIAS):
            self._name(at + 1, "an alias")
            after = at + 2
        elif self._is(at, TokenType.VAR) or self._is(at, TokenType.IDENTIFIER):
            self._name(at, "an alias, or BY,")  # GROUP and ORDER without it are words as others
            after = at + 1
        return list(self.tokens[at:after]), after

    def _arguments(self, at: int) -> tuple[tuple[Name | Value, ...], int]:
        arguments: list[Name | Value] = []
        if self._is(at, TokenType.R_PAREN):
            return (), at + 1
        while True:
            argument, at = self._argument(at)
            arguments.append(argument)
            if len(arguments) > self.limits.list_items:
                message = f"more than {self.limits.list_items} arguments"
                raise self._error(at - 1, message, ASK_LESS, code="limit")
            if self._is(at, TokenType.R_PAREN):
                return tuple(arguments), at + 1
            if not self._is(at, TokenType.COMMA):
                remedy = "arguments are names or constants"
                if self._is(at, TokenType.L_PAREN):  # windows(orders(driver))
                    remedy += "; rows by steps of time: FROM orders(driver) FOR ALL EVERY '1 hour'"
                raise self._error(at, "',' or ')' is missing", remedy)
            at += 1

    def _argument(self, at: int) -> tuple[Name | Value, int]:
        start = at
        sign = -1 if self._is(at, TokenType.DASH) else 1
        at += sign < 0 or self._is(at, TokenType.PLUS)
        if self._is(at, TokenType.NUMBER):
            number = number_of(self.tokens[at].text)
            if number is None:
                raise self._error(at, "this number is too large", "", code="limit")
            return Value(sign * number, self._span(start, at + 1)), at + 1
        if at == start and self._is(at, TokenType.STRING):
            return Value(self.tokens[at].text, self._span(at, at + 1)), at + 1
        word = self._text(at).lower()
        quoted = self._is(at, TokenType.IDENTIFIER)
        if at == start and not quoted and word in _CONSTANTS:
            return Value(_CONSTANTS[word], self._span(at, at + 1)), at + 1
        if at == start and (quoted or _WORD.match(word)):
            return Name(self.tokens[at].text, self._span(at, at + 1)), at + 1
        raise self._error(at, "a name or a constant is missing", "e.g. quantiles(delays, 0.5)")

    def _name(self, at: int, what: str) -> tuple[str, Span]:
        text = self._text(at)
        if self._is(at, TokenType.IDENTIFIER):
            return text, self._span(at, at + 1)
        is_word = not self._is(at, TokenType.STRING) and _WORD.match(text)
        if not is_word or text.lower() in _NOT_ITEMS:
            quoted = f'; as a name, a word of SQL stands in quotes: "{text}"' if is_word else ""
            raise self._error(at, f"{what} is missing", f"e.g. FROM orders(driver){quoted}")
        return text, self._span(at, at + 1)

    def joined(self, parts: Sequence[FromItem]) -> FromItem:
        """One item of what stands under one placeholder: an item, or vectors of one key."""
        first = parts[0]
        if not isinstance(first, VectorItem):
            return first
        star, spans = False, dict[int, Span]()
        for vector in parts:
            if vector.window != first.window:
                raise problem_at(
                    self.text,
                    vector.span,
                    f"the vectors of key {first.key} have different windows",
                    "compare windows as FROM orders(key) FOR ... AS a JOIN orders(key) "
                    "FOR ... AS b ON ...",
                    "window",
                )
            if isinstance(vector, VectorItem) and vector.indicators is not None:
                spans[vector.indicators[0]] = vector.span
            else:
                star = True
        if star:
            return replace(first, indicators=None, spans=())
        return replace(first, indicators=tuple(spans), spans=tuple(spans.values()))

    def _is(self, at: int, kind: TokenType) -> bool:
        return at < len(self.tokens) and self.tokens[at].token_type is kind

    def _text(self, at: int) -> str:
        return self.tokens[at].text if at < len(self.tokens) else ""

    def _word(self, at: int) -> str:
        quoted = self._is(at, TokenType.STRING) or self._is(at, TokenType.IDENTIFIER)
        return "" if quoted else self._text(at).upper()

    def _span(self, start: int, after: int) -> Span:
        first, last = self.tokens[start], self.tokens[after - 1]
        return Span(first.start, last.end - first.start + 1)

    def _error(self, at: int, message: str, remedy: str, *, code: str = "syntax") -> SelectError:
        end = Span(self.tokens[-1].end + 1, 0)
        place = self.tokens[at] if at < len(self.tokens) else end
        return problem_at(self.text, place, message, remedy, code)


def number_of(text: str) -> int | float | None:
    """The number that a token says; None where it is too large."""
    try:
        return int(text) if len(text) <= 40 else None
    except ValueError:
        pass
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
