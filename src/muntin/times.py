"""Durations and instants as people write them, to int64 microseconds (UTC) and back.

The only grammar for both: pipeline files, SELECT, the command line, the client and HTTP read what
is read here, and print what is printed here.
"""

import datetime as dt
import re
import time
from fractions import Fraction
from typing import Any, overload

from muntin.errors import BadArgument

US_PER_SECOND = 1_000_000
DAY_US = 86_400 * US_PER_SECOND
_UNITS_US = {
    name: us
    for names, us in (
        ("us µs μs microsecond microseconds", 1),  # both micro signs of Unicode
        ("ms millisecond milliseconds", 1_000),
        ("s sec secs second seconds", US_PER_SECOND),
        ("m min mins minute minutes", 60 * US_PER_SECOND),
        ("h hr hrs hour hours", 3600 * US_PER_SECOND),
        ("d day days", DAY_US),
        ("w week weeks", 7 * DAY_US),
    )
    for name in names.split()
}
_PART = re.compile(r"\s*([0-9]{1,16}(?:\.[0-9]{1,12})?)\s*([a-zµμ]+)\s*", re.IGNORECASE)
_BARE = re.compile(r"\s*[+-]?[0-9][0-9_.eE+-]*\s*")
_SHOWN = (
    ("week", 7 * DAY_US),
    ("day", DAY_US),
    ("hour", 3600 * US_PER_SECOND),
    ("minute", 60 * US_PER_SECOND),
    ("second", US_PER_SECOND),
    ("millisecond", 1_000),
)
DURATION_US_MAX = 366 * 100 * DAY_US
DURATION_FORMS = (
    "a number and a unit from microseconds to weeks, e.g. '15 minutes', '1 day 6 hours'"
)
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_FINER = re.compile(r"[.,][0-9]{6}[0-9]*[1-9]")
_CYCLE_YEARS, _CYCLE_US = 400, 146_097 * DAY_US  # the calendar repeats after that


def now_us() -> int:
    """The wall clock, in microseconds since 1970 UTC."""
    return time.time_ns() // 1000


def duration_us(value: Any, *, or_zero: bool = False) -> int:
    """A duration in microseconds. `value`: "10 seconds", "1 hour 30 minutes", "15m", "0.5 s":
    numbers with units from microseconds to weeks, which are added up. A month has no fixed length
    and is no unit. `or_zero`: nothing is a duration, too: 0, "0 seconds". Raises BadArgument: not a
    duration, without a unit, not positive, not a whole number of microseconds, or beyond a century.

    Examples
    --------
    >>> duration_us("1 min 30 s")
    90000000
    """
    if isinstance(value, dt.timedelta):
        us = value // dt.timedelta(microseconds=1)
    elif isinstance(value, str):
        us = _parsed(value)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        if value or not or_zero:
            raise _without_unit(value)
        us = 0  # nothing needs no unit
    else:
        raise BadArgument(f"{value!r} is not a duration: write {DURATION_FORMS}")
    if not (0 if or_zero else 1) <= us <= DURATION_US_MAX:
        raise BadArgument(f"duration {value!r} must lie between 1 microsecond and 100 years")
    return us


def _parsed(text: str) -> int:
    total, at = Fraction(0), 0
    while part := _PART.match(text, at):
        us = _UNITS_US.get(part[2].lower())
        if us is None:
            break
        total += Fraction(part[1]) * us
        at = part.end()
    shown = text if len(text) <= 60 else text[:57] + "..."
    if at < len(text) or not at:
        if _BARE.fullmatch(text):
            raise _without_unit(shown.strip())
        raise BadArgument(f"{shown!r} is not a duration: write {DURATION_FORMS}")
    if total.denominator != 1:
        raise BadArgument(f"{shown!r} is not a whole number of microseconds")
    return int(total)


def _without_unit(value: Any) -> BadArgument:
    example = value if str(value).strip("0.") else 1
    return BadArgument(
        f"{value} is no duration without a unit: write for example '{example} seconds'"
    )


def age_text(us: int) -> str:
    """An age in whole days, hours, minutes or seconds: 7_500_000_000 -> "2 hours"."""
    units = (unit for _, unit in _SHOWN if US_PER_SECOND <= unit <= DAY_US)
    unit = next((unit for unit in units if us >= unit), US_PER_SECOND)
    return duration_text(us // unit * unit)


def duration_text(us: int) -> str:
    """The shortest spelling: 3_600_000_000 -> "1 hour", 5_400_000_000 -> "90 minutes".
    `duration_us` reads it back."""
    for name, unit in _SHOWN:
        if us and us % unit == 0:
            number = us // unit
            if name == "week" and number != 1:
                continue
            return f"{number} {name}{'' if number == 1 else 's'}"
    return f"{us} microsecond{'' if us == 1 else 's'}" if us else "0 seconds"


def rounded_text(us: int, *, up: bool) -> str:
    """As `duration_text`, but in whole units what is no whole number of milliseconds:
    10_546_875 -> "11 seconds" where it is rounded up, else "10 seconds"."""
    unit = next((unit for _, unit in _SHOWN if us >= unit), 1) if us % 1_000 else 1
    return duration_text((us + (unit - 1) * up) // unit * unit)


def instant_us(value: Any) -> int:
    """An instant in microseconds since 1970 UTC. `value`: a naive datetime, and ISO 8601 text
    without an offset, are UTC; an int is microseconds since 1970. Raises BadArgument: not a time,
    finer than a microsecond, or outside of the years 1 to 9999."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    said = value
    if isinstance(value, str):
        if _FINER.search(value):
            raise BadArgument(f"{value[:60]!r} is finer than a microsecond")
        try:
            value = dt.datetime.fromisoformat(value.strip())
        except ValueError:
            value = None
    if not isinstance(value, dt.datetime):
        shown = said[:60] if isinstance(said, str) else said
        raise BadArgument(
            f"{shown!r} is not a time: write for example '2026-01-31 10:00' (UTC) or "
            "'2026-01-31T10:00:00+02:00'"
        )
    if value.tzinfo is None:
        value = value.replace(tzinfo=dt.UTC)
    return (value - EPOCH) // dt.timedelta(microseconds=1)


def datetime_of(us: int) -> dt.datetime:
    """Microseconds since 1970 UTC as a datetime with its zone, UTC."""
    return EPOCH + dt.timedelta(microseconds=us)


@overload
def instant_text(us: int) -> str: ...
@overload
def instant_text(us: None) -> None: ...
def instant_text(us: int | None) -> str | None:
    """ISO 8601 in UTC, as short as exact: 0 -> "1970-01-01T00:00:00Z", 500_000 -> "...00.5Z". Years
    beyond 0 to 9999 have a sign and six digits: "+012026-01-01T00:00:00Z". None stays None."""
    if us is None:
        return None
    cycles, within = divmod(us, _CYCLE_US)
    moment = EPOCH + dt.timedelta(microseconds=within)
    year = moment.year + cycles * _CYCLE_YEARS
    years = f"{year:04d}" if 0 <= year <= 9999 else f"{year:+07d}"
    rest = moment.isoformat()[4:-6]  # without its zone, +00:00; strftime takes twice as long
    return f"{years}{rest.rstrip('0') if moment.microsecond else rest}Z"
