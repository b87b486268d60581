"""Event times as they come (timestamps, dates, ISO text, numbers) to int64 microseconds UTC.

A number may be read in the wrong unit: 1,700,000,000,000 as seconds is no day of ours, as
milliseconds it is one in 2023. Nothing is put right here, since the pipeline's file has the word:
whoever wrote it is told. Runs in the workers; knows nothing of Spark.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.arrow import decoded, fixed_width, is_text, pc, unviewed, value_type
from muntin.errors import BadArgument
from muntin.spec import TimeSpec
from muntin.times import DAY_US, US_PER_SECOND, instant_text

ABSENT = np.int64(np.iinfo(np.int64).min)  # stands for a time that is null or cannot be read

_LOW, _HIGH = -(2**62), 2**62
_ISO = (
    r"^\s*(?P<day>\d{4}-\d{2}-\d{2})"
    r"(?:[T ](?P<clock>\d{2}(?::\d{2}(?::\d{2}(?:\.\d{1,9})?)?)?))?\s*"
    r"(?P<zone>Z|z|UTC|[+-](?:[01]\d|2[0-3])(?::?[0-5]\d)?)?\s*$"
)

_ZONED = re.compile(r":\d\d(\.\d*)?(Z|[+-]\d\d(:?\d\d)?)$")
EARLY_US = 31 * DAY_US  # a time of our days that is read in too fine a unit lies in January 1970
_FIRST_US = 631_152_000 * US_PER_SECOND  # 1990: our days begin
_UNITS = {"s": Fraction(10**6), "ms": Fraction(10**3), "us": Fraction(1), "ns": Fraction(1, 1000)}


def check_type(time: TimeSpec, kind: pa.DataType, guess: str = "ms") -> None:
    """BadArgument where a column of this type cannot be the event time. `guess`: what its numbers
    may count, where it is not said."""
    kind = value_type(kind)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        if time.unit is None:
            raise BadArgument(
                f"time: column '{time.column}' is {kind}: say what it counts, "
                f"for example  time: {{column: {time.column}, unit: {guess}}}"
            )
    elif pa.types.is_null(kind):  # no value, or of a field whose type only Spark knows
        return
    elif time.unit is not None:
        raise BadArgument(f"time: unit is for numbers, and column '{time.column}' is {kind}")
    elif not (pa.types.is_timestamp(kind) or pa.types.is_date(kind) or is_text(kind)):
        raise BadArgument(
            f"time: column '{time.column}' is {kind}: an event time is a timestamp, a date, "
            "ISO 8601 text, or a number with its unit"
        )


def event_times(column: pa.Array, unit: str | None) -> np.ndarray:
    """Microseconds since 1970 UTC, ABSENT where there is none: int64[n]. Naive times are UTC."""
    column = decoded(unviewed(column))
    kind = column.type
    if pa.types.is_timestamp(kind):
        per_us, divisor = _UNITS[kind.unit].as_integer_ratio()
        return _scaled(column.view(pa.int64()), per_us, divisor)
    if pa.types.is_date32(kind):
        return _scaled(column.view(pa.int32()).cast(pa.int64()), 86_400_000_000, 1)
    if pa.types.is_date64(kind):
        return _scaled(column.view(pa.int64()), 1_000, 1)
    if pa.types.is_integer(kind):
        per_us, divisor = _UNITS[unit or "us"].as_integer_ratio()
        if kind == pa.uint64():  # what is beyond int64 is no time
            most = pa.scalar(2**63 - 1, kind)
            column = pc.if_else(pc.less_equal(column, most), column, None)
        return _scaled(column.cast(pa.int64()), per_us, divisor)
    if pa.types.is_decimal(kind):
        return _from_decimals(column, unit or "us")
    if pa.types.is_floating(kind):
        return _from_floats(column, unit or "us")
    if pa.types.is_null(kind):
        return np.full(len(column), ABSENT)
    return _from_text(column)


def _filled(numbers: pa.Array) -> np.ndarray:
    if numbers.null_count:
        numbers = numbers.fill_null(int(ABSENT))
    return numbers.to_numpy(zero_copy_only=False)


def _scaled(numbers: pa.Array, per_us: int, divisor: int) -> np.ndarray:
    values = _filled(numbers)
    if divisor != 1:  # what is finer: all that int64 holds are times
        return np.where(values == ABSENT, ABSENT, values // divisor)
    absent = (values > _HIGH // per_us) | (values < _LOW // per_us)
    scaled = np.where(absent, 0, values) * per_us
    scaled[absent] = ABSENT
    return scaled


def _from_decimals(column: pa.Array, unit: str) -> np.ndarray:
    """Digits finer than a microsecond are cut off; no float comes between."""
    digits = {"s": 6, "ms": 3, "us": 0, "ns": 0}[unit]
    try:
        wide = column.cast(pa.decimal256(76, digits), safe=False)
    except pa.ArrowInvalid:  # 70 digits before the point: as good as none
        return _from_floats(column.cast(pa.float64()), unit)
    words = fixed_width(wide, np.dtype("(4,)i8")) if len(wide) else np.zeros((0, 4), np.int64)
    fits = (words[:, 1:] == words[:, :1] >> 63).all(axis=1) & wide.is_valid().to_numpy(False)
    return _scaled(pa.array(words[:, 0], mask=~fits), 1, _UNITS[unit].denominator)


def _from_floats(column: pa.Array, unit: str) -> np.ndarray:
    per_us, divisor = _UNITS[unit].as_integer_ratio()
    values = column.cast(pa.float64()).fill_null(float("nan")).to_numpy(zero_copy_only=False)
    with np.errstate(over="ignore", invalid="ignore"):  # what is beyond float64 is no time
        product = values * (per_us / divisor)
        scaled, nearest = np.floor(product), np.rint(product)
        # 0.3 s is the float that is nearest to 300,000 us, not the microsecond before
        scaled = np.where(nearest * divisor / per_us == values, nearest, scaled)
    usable = np.isfinite(scaled) & (np.abs(scaled) < _HIGH)
    out = np.full(len(scaled), ABSENT)
    out[usable] = scaled[usable].astype(np.int64)
    return out


def _from_text(column: pa.Array) -> np.ndarray:
    kinds = [pa.timestamp("us"), pa.timestamp("us", "UTC")]
    if _is_zoned(column):  # a cast that fails tells of each value: 30 times the time of a good one
        kinds.reverse()
    for kind in kinds:
        try:  # all naive, or all with their zone: one pass in C++
            return _filled(column.cast(kind).view(pa.int64()))
        except pa.ArrowInvalid:
            continue
    parts = pc.extract_regex(column, _ISO)
    day, clock, zone = (parts.field(i) for i in range(3))
    # a match that lacks the optional parts has them as empty text; no match is null
    letter, midnight, utc, nothing = (
        pa.scalar(part, column.type) for part in ("T", "00:00", "Z", "")
    )
    clock = pc.if_else(pc.equal(clock, nothing), midnight, clock)
    clock = pc.utf8_slice_codeunits(clock, 0, len("00:00:00.000000"))
    zone = pc.if_else(pc.match_substring_regex(zone, "^[+-]"), zone, utc)
    text = pc.binary_join_element_wise(day, letter, clock, zone, nothing)
    text = pc.if_else(parts.is_valid(), text, pa.scalar(None, column.type))
    return _filled(_cast_what_can_be(text).view(pa.int64()))


def _is_zoned(column: pa.Array) -> bool:
    """Has the first text a zone? Bytes that are no text have none."""
    first = pc.index(column.is_valid(), True).as_py()
    if first < 0:
        return False
    text = bytes(column[first].as_buffer()).decode("utf-8", "replace")
    return _ZONED.search(text) is not None


def _cast_what_can_be(text: pa.Array) -> pa.Array:
    """Timestamps; null where the calendar has no such day. Halves the array around each failure."""
    kind = pa.timestamp("us", "UTC")
    try:
        return text.cast(kind)
    except pa.ArrowInvalid:
        if len(text) == 1:
            return pa.array([None], kind)
        middle = len(text) // 2
        return pa.concat_arrays(
            [_cast_what_can_be(text.slice(0, middle)), _cast_what_can_be(text.slice(middle))]
        )


@dataclass(slots=True)
class UnitDoubt:
    """Events whose number is a time since 1990 in another unit (`fits`) than that of the pipeline's
    file, in which it lies in January 1970 or in the future. `events`: how many. `number`: the first
    of them, as it came."""

    events: int = 0
    number: str = ""
    fits: str = ""

    def add(self, other: UnitDoubt) -> None:
        self.events += other.events
        if not self.number:
            self.number, self.fits = other.number, other.fits

    def meant(self) -> str:
        """The number as a time of our days."""
        return f"{_read_in(self.number, self.fits)} in {self.fits}"

    def text(self, time: TimeSpec, read: int) -> str:
        """What was read as what, and what to write; "" where nothing is in doubt. `read`: how many
        events were looked at."""
        if not self.events:
            return ""
        unit = time.unit or "us"
        return (
            f"time: column '{time.column}' holds {self.number}, which is "
            f"{_read_in(self.number, unit)} in {unit}, as the pipeline says, and {self.meant()}; "
            f"so are {self.events:,} of {read:,} events: is the unit right? If not, write  "
            f"time: {{column: {time.column}, unit: {self.fits}}}"
        )


def _read_in(number: str, unit: str) -> str | None:
    return instant_text(int(Fraction(number) * _UNITS[unit]))


def doubt_of(column: Any, times: np.ndarray, unit: str | None, latest: int) -> UnitDoubt:
    """Look at a column of event times, and at what was read of it: int64[n], `ABSENT` where that
    is none. `latest`: microseconds, after which no event is believed."""
    kind = column.type
    if unit is None or pa.types.is_null(kind):
        return UnitDoubt()
    odd = np.flatnonzero((times < EARLY_US) | (times > latest))
    if not len(odd):
        return UnitDoubt()
    chosen = decoded(column).take(pa.array(odd))
    numbers = _floats(chosen)
    found = UnitDoubt()
    for other in (other for other in _UNITS if other != unit):
        fits = np.flatnonzero(_is_of_our_days(numbers, other, latest))
        if len(fits):
            found.add(UnitDoubt(len(fits), str(chosen[int(fits[0])].as_py()), other))
    return found


def unit_of(column: Any, latest: int) -> str | None:
    """The unit in which most of a column's numbers are times of our days; None where there is
    none, or these are no numbers. `latest`: microseconds."""
    kind = column.type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        return None
    numbers = _floats(column.drop_null())
    for unit in _UNITS:
        if 2 * np.count_nonzero(_is_of_our_days(numbers, unit, latest)) > len(numbers):
            return unit
    return None


def _floats(column: Any) -> np.ndarray:
    return pc.cast(column, pa.float64(), safe=False).fill_null(0).to_numpy(zero_copy_only=False)


def _is_of_our_days(numbers: np.ndarray, unit: str, latest: int) -> np.ndarray:
    us = float(_UNITS[unit])
    return (numbers >= _FIRST_US / us) & (numbers <= latest / us)
