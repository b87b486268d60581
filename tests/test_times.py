"""Durations and instants: one grammar, exact, and back again."""

from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from muntin.errors import BadArgument, SelectError
from muntin.kinds.base import Microseconds
from muntin.select.parser import parse
from muntin.spec import Pipeline
from muntin.times import (
    DURATION_US_MAX,
    duration_text,
    duration_us,
    instant_text,
    instant_us,
)

SECOND = 1_000_000
_ENTRY = TypeAdapter(Microseconds)  # an entry of a pipeline file
UNITS = {
    1: ("us", "µs", "μs", "microsecond", "microseconds"),
    1_000: ("ms", "millisecond", "milliseconds"),
    SECOND: ("s", "sec", "secs", "second", "seconds"),
    60 * SECOND: ("m", "min", "mins", "minute", "minutes"),
    3600 * SECOND: ("h", "hr", "hrs", "hour", "hours"),
    86_400 * SECOND: ("d", "day", "days"),
    604_800 * SECOND: ("w", "week", "weeks"),
}
NONE = ("0 bananas", "5 minss", "1 weekss", "1 uss", "1 mss", "2 ws", "1 hour, 2 min", "1_0 s")
NONE += (
    "٣ seconds",
    "1.5.2 s",
    "",
    " ",
    "1e3 s",
    "-1 s",
    "1 month",
    "s",
    "1 s x",
    "1.2.3",
    "nan s",
)
NONE += ("5", "minutes", "5 minutes x", "9" * 20 + "d")
BEYOND = ("0 s", "150 years", "7000 weeks", "0.0 s", "0.5 us", "1.1234567 s")


def _by_yaml(text: str) -> int | None:
    try:
        return _ENTRY.validate_python(text)
    except ValueError:
        return None


def _by_select(text: str) -> int | None:
    quoted = text.replace("'", "''")
    try:
        item = parse(f"SELECT * FROM m(k) FOR LAST '{quoted}'").items[0]  # noqa: S608
    except SelectError as error:
        return None if error.code in ("window", "character") else -1
    return item.window.length_us if item.window else None


def _by_python(text: str) -> int | None:
    try:
        return duration_us(text)
    except BadArgument as error:
        return None if text.strip() in str(error) else -1


@pytest.mark.parametrize("text", [*NONE, *BEYOND])
def test_no_durations(text: str) -> None:
    assert _by_python(text) is None
    assert _by_select(text) is None
    assert _by_yaml(text) is None


@given(st.data())
def test_every_way_reads_the_same(data: st.DataObject) -> None:
    terms = data.draw(
        st.lists(
            st.tuples(st.integers(0, 9999), st.sampled_from(list(UNITS))), min_size=1, max_size=3
        )
    )
    words, total = [], 0
    for number, us in terms:
        name = data.draw(st.sampled_from(UNITS[us]))
        name = data.draw(st.sampled_from((name, name.title(), name.upper())))
        words.append(f"{number}{data.draw(st.sampled_from(('', ' ', '  ')))}{name}")
        total += number * us
    text = data.draw(st.sampled_from((" ", ""))).join(words)
    expected = total if 0 < total <= DURATION_US_MAX else None
    found = (_by_python(text), _by_select(text), _by_yaml(text))
    assert found == (expected, expected, expected)


@given(st.text(alphabet="0123456789. smhdwuµonutec,-_e'", max_size=12))
def test_any_text_is_the_same_everywhere(text: str) -> None:
    found = _by_python(text)
    assert found == _by_select(text) == _by_yaml(text)


@given(st.integers(1, DURATION_US_MAX))
def test_durations_come_back(us: int) -> None:
    assert duration_us(duration_text(us)) == us
    assert duration_us(dt.timedelta(microseconds=us)) == us


@pytest.mark.parametrize("value", [3600, 3600.0, 1, "3600", "1.5", "-3"])
def test_a_bare_number_is_refused_with_the_remedy(value: object) -> None:
    for or_zero in (False, True):
        with pytest.raises(
            BadArgument, match=f"{value} is no duration without a unit: write for example"
        ):
            duration_us(value, or_zero=or_zero)


def test_a_file_with_a_bare_number_is_refused() -> None:
    spec = {"name": "p", "time": "t", "pane": 3600, "summaries": {"m": {"keys": ["k"]}}}
    with pytest.raises(ValueError, match="pane: 3600 is no duration without a unit"):
        Pipeline.of(spec)
    with pytest.raises(ValueError, match="lateness: '0 bananas' is not a duration"):
        Pipeline.of(spec | {"pane": "1 s", "lateness": "0 bananas"})
    assert Pipeline.of(spec | {"pane": "1 s", "lateness": 0}).lateness == 0


def test_nothing_and_others() -> None:
    for nothing in (0, "0 s", "0 days"):
        assert duration_us(nothing, or_zero=True) == 0
    assert duration_text(0) == "0 seconds"
    for value in (True, False, None, [], b"1 s"):
        with pytest.raises(BadArgument):
            duration_us(value, or_zero=True)


@given(st.datetimes(timezones=st.timezones() | st.none()))
def test_instants_come_back(moment: dt.datetime) -> None:
    aware = moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)
    us = instant_us(moment)
    assert us == (aware - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(microseconds=1)
    if -62_135_596_800_000_000 <= us < 253_402_300_800_000_000:
        assert instant_us(instant_text(us)) == us


@given(st.integers(-(2**63), 2**63 - 1))
def test_any_int64_has_a_text(us: int) -> None:
    text = instant_text(us)
    assert text.endswith("Z")
    years, rest = (text[:7], text[7:]) if text[0] in "+-" else (text[:4], text[4:])
    again = dt.datetime.fromisoformat(f"{2000 + int(years) % 400}{rest}")
    days = (int(years) // 400 - 5) * 146_097
    assert instant_us(again) + days * 86_400 * SECOND == us


def test_instants_as_they_are_printed() -> None:
    assert instant_text(0) == "1970-01-01T00:00:00Z"
    assert instant_text(1_500_000) == "1970-01-01T00:00:01.5Z"
    assert instant_text(253_402_300_800_000_000) == "+010000-01-01T00:00:00Z"
    assert instant_text(None) is None


@pytest.mark.parametrize(
    "text",
    ["x", "", "2026-13-01", "10:00", "0001-01-01T00:00+99:00", "2026-01-01T00:00:00.0000001"],
)
def test_no_instants(text: str) -> None:
    with pytest.raises(BadArgument):
        instant_us(text)
