# ruff: noqa: S608 - statements are what this file is made of
"""Any text gives a result or a SelectError, and what is shown can be parsed again."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st
from select_catalogs import catalog
from test_select_attacks import EXPRESSIONS, FROM_ITEMS, STATEMENTS, TAILS
from test_select_statements import BY_HAND, PLAIN, SAME

from muntin.errors import SelectError
from muntin.select.check import check_tree
from muntin.select.engine import Engine
from muntin.select.limits import Limits
from muntin.select.parser import parse
from muntin.select.result import Result
from muntin.select.syntax import show

_ENGINE = Engine(catalog(), Limits(seconds=2.0, memory_bytes=128 << 20, result_rows=100_000))
_GOOD = [*BY_HAND, *(t.replace("cells", "orders(driver, area)") for t in PLAIN)]
_GOOD += [text for pair in SAME for text in pair]
_WORDS = sorted(
    {word for text in _GOOD for word in text.replace("(", " ( ").replace(")", " ) ").split()}
    | {
        *[
            "(",
            ")",
            ",",
            ".",
            ";",
            "*",
            "+",
            "-",
            "/",
            "//",
            "%",
            "^",
            "||",
            "=",
            "<>",
            "<",
            ">=",
            "::",
            "'",
            '"',
            "--",
            "/*",
            "*/",
            "0",
            "1",
            "3.1",
            "1.*",
            "'x'",
            "X1",
            "Y2",
            "X3.Y1",
        ]
    }
    | {"FOR LAST '1 hour'", "FOR ALL", "OVER (", "WITH a AS (", "UNION ALL", "IS NOT DISTINCT FROM"}
    | {
        "vector 1.1",
        "vector (2.*)",
        "OF orders",
        "quantiles(",
        "trend(busiest)",
        "END",
        "CASE WHEN",
    }
    | {"\x00", "ſ", "é", "\u202e", "😀", "\\", "`", "[", "{", "$", "?"}
)


def _outcome(text: str) -> Result | SelectError:
    outcome: Result | SelectError
    try:
        outcome = _ENGINE.sql(text)
    except SelectError as error:
        outcome = error
    if isinstance(outcome, SelectError):
        assert 0 <= outcome.position <= len(text)
        assert outcome.length >= 0
        assert outcome.message
        assert str(outcome)
    return outcome


def _shown_again(text: str) -> None:
    try:
        statement = parse(text)
        check_tree(statement, Limits())
    except SelectError:
        return
    assert parse(show(statement)) == statement


@settings(max_examples=400)
@given(st.lists(st.sampled_from(_WORDS), max_size=40))
def test_word_soup(words: list[str]) -> None:
    text = "SELECT " + " ".join(words)
    _outcome(text)
    _shown_again(text)


@settings(max_examples=200)
@given(st.text(max_size=200))
def test_any_text(text: str) -> None:
    _outcome(text)
    _outcome("SELECT " + text)
    _outcome(f"SELECT '{text}'")
    _outcome(f'SELECT "{text}" FROM orders(driver)')


@settings(max_examples=200)
@given(st.binary(max_size=200))
def test_any_bytes_as_latin(data: bytes) -> None:
    _outcome("SELECT " + data.decode("latin-1"))


def test_damaged_statements() -> None:
    """Words of good and hostile statements taken out, doubled, exchanged."""
    chance = random.Random(20261121)
    hostile = [*STATEMENTS, *FROM_ITEMS, *EXPRESSIONS, *TAILS]
    answered = refused = 0
    for _ in range(2000):
        words = chance.choice(_GOOD).replace("(", " ( ").replace(")", " ) ").split()
        for _ in range(chance.randint(1, 3)):
            place = chance.randrange(len(words))
            change = chance.random()
            if change < 0.3 and len(words) > 1:
                del words[place]
            elif change < 0.5:
                words.insert(place, words[chance.randrange(len(words))])
            elif change < 0.8:
                words[place] = chance.choice(_WORDS)
            else:
                words[place] = chance.choice(hostile)
        text = " ".join(words)
        outcome = _outcome(text)
        _shown_again(text)
        answered += isinstance(outcome, Result)
        refused += isinstance(outcome, SelectError)
    assert answered > 60
    assert refused > 1000


@settings(max_examples=200)
@given(st.text(st.characters(min_codepoint=32, exclude_categories=("Cs", "Cc")), max_size=100))
def test_strings_arrive_as_written(text: str) -> None:
    literal = text.replace("'", "''")
    outcome = _outcome(f"SELECT '{literal}'")
    if isinstance(outcome, Result):
        assert outcome.rows == [[text]]
    else:
        assert outcome.code in ("character", "limit")


@settings(max_examples=200)
@given(
    st.one_of(
        st.integers(-(2**63), 2**63 - 1),
        st.floats(-1e300, 1e300).filter(lambda f: f == 0 or abs(f) > 1e-300),
    )
)
def test_numbers_arrive_as_written(number: float) -> None:
    if isinstance(number, int):
        assert _ENGINE.sql(f"SELECT {number}").rows == [[number]]
    else:
        assert _ENGINE.sql(f"SELECT {number!r}::DOUBLE").rows == [[number]]
