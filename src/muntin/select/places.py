"""Places in the text of a statement, and errors at them."""

import re
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.tokenizer_core import Token

from muntin.errors import SelectError


@dataclass(frozen=True, slots=True)
class Span:
    """A place in the text: characters from `start`, `length` of them."""

    start: int
    length: int


NOWHERE = Span(0, 0)


def span_of(node: exp.Expr | None) -> Span | None:
    """The place of a node in the text, as far as its names and constants reach."""
    places = [] if node is None else [n.meta for n in node.walk() if "start" in n.meta]
    if not places:
        return None
    start = min(place["start"] for place in places)
    return Span(start, max(place["end"] for place in places) + 1 - start)


def starts_of(name: str, text: str) -> list[int]:
    """Where a name stands in a text, as a word."""
    pattern = rf"(?<!\w){re.escape(name)}(?!\w)"
    return [found.start() for found in re.finditer(pattern, text, re.IGNORECASE)]


def problem_at(
    text: str, place: Span | Token | exp.Expr, message: str, remedy: str = "", code: str = "syntax"
) -> SelectError:
    """What is wrong at a place in the text, and what would be right."""
    if isinstance(place, Token):
        place = Span(place.start, place.end - place.start + 1)
    elif not isinstance(place, Span):
        place = span_of(place) or NOWHERE
    return SelectError(
        message, code=code, text=text, position=place.start, length=place.length, remedy=remedy
    )
