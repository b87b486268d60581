"""Durations and instants as people write them, to int64 microseconds (UTC) and back."""

from __future__ import annotations

import datetime as dt
import re
from typing import Any

from muntin.errors import BadArgument

US_PER_SECOND = 1_000_000
_UNITS_US = {
    "us": 1,
    "microsecond": 1,
    "ms": 1_000,
    "millisecond": 1_000,
    "s": US_PER_SECOND,
    "sec": US_PER_SECOND,
    "second": US_PER_SECOND,
    "m": 60 * US_PER_SECOND,
    "min": 60 * US_PER_SECOND,
    "minute": 60 * US_PER_SECOND,
    "h": 3600 * US_PER_SECOND,
    "hour": 3600 * US_PER_SECOND,
    "d": 86_400 * US_PER_SECOND,
    "day": 86_400 * US_PER_SECOND,
    "w": 7 * 86_400 * US_PER_SECOND,
    "week": 7 * 86_400 * US_PER_SECOND,
}
_PART = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-zµ]+)\s*", re.IGNORECASE)
_SHOWN = (
    ("week", 7 * 86_400 * US_PER_SECOND),
    ("day", 86_400 * US_PER_SECOND),
    ("hour", 3600 * US_PER_SECOND),
    ("minute", 60 * US_PER_SECOND),
    ("second", US_PER_SECOND),
    ("millisecond", 1_000),
    ("microsecond", 1),
)
DURATION_US_MAX = 366 * 100 * 86_400 * US_PER_SECOND
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def duration_us(value: Any) -> int:
    """A duration in microseconds.

    Parameters
    ----------
    value : str, timedelta or int
        "10 seconds", "1 hour 30 minutes", "15m"; an int is microseconds.

    Raises
    ------
    BadArgument
        Not a duration, not positive, below a microsecond or beyond a century.
    """
    if isinstance(value, dt.timedelta):
        us = value // dt.timedelta(microseconds=1)
    elif isinstance(value, int) and not isinstance(value, bool):
        us = value
    elif isinstance(value, str):
        us = _parsed(value)
    else:
        raise BadArgument(f"{value!r} is not a duration: write for example '10 seconds'")
    if not 0 < us <= DURATION_US_MAX:
        raise BadArgument(f"duration {value!r} must lie between 1 microsecond and 100 years")
    return us


def _parsed(text: str) -> int:
    total, at = 0.0, 0
    while at < len(text):
        part = _PART.match(text, at)
        unit = part.group(2).lower() if part else ""
        us = _UNITS_US.get(unit) or _UNITS_US.get(unit.removesuffix("s"))
        if part is None or us is None:
            raise BadArgument(
                f"{text!r} is not a duration: write for example '10 seconds', '1 hour' or '2 days'"
            )
        total += float(part.group(1)) * us
        at = part.end()
    return round(total)


def duration_text(us: int) -> str:
    """The shortest spelling: 3_600_000_000 -> "1 hour", 5_400_000_000 -> "90 minutes"."""
    for name, unit in _SHOWN:
        if us and us % unit == 0:
            number = us // unit
            if name == "week" and number != 1:
                continue
            return f"{number} {name}{'' if number == 1 else 's'}"
    return f"{us} microseconds"


def instant_us(value: Any) -> int:
    """An instant in microseconds since 1970 UTC: datetime, ISO 8601 text (naive is UTC) or int."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str):
        try:
            value = dt.datetime.fromisoformat(value.strip())
        except ValueError:
            raise BadArgument(
                f"{value!r} is not a time: write for example '2026-01-31 10:00'"
            ) from None
    if not isinstance(value, dt.datetime):
        raise BadArgument(f"{value!r} is not a time: write for example '2026-01-31 10:00'")
    if value.tzinfo is None:
        value = value.replace(tzinfo=dt.UTC)
    return (value - EPOCH) // dt.timedelta(microseconds=1)


def datetime_of(us: int) -> dt.datetime:
    """Microseconds since 1970 UTC as a datetime with its zone, UTC."""
    return EPOCH + dt.timedelta(microseconds=us)


def instant_text(us: int | None) -> str | None:
    """ISO 8601 in UTC, as short as exact: 0 -> "1970-01-01T00:00:00Z"."""
    if us is None:
        return None
    try:
        moment = EPOCH + dt.timedelta(microseconds=us)
    except OverflowError:
        return f"{us} microseconds since 1970"
    timespec = "seconds" if us % US_PER_SECOND == 0 else "microseconds"
    return moment.replace(tzinfo=None).isoformat(timespec=timespec) + "Z"
