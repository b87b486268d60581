"""Numbers that are read as event times in the wrong unit: 1,700,000,000,000 as seconds is no day of
ours, as milliseconds it is one in 2023.

Nothing is put right here, since the pipeline's file has the word: whoever wrote it is told.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.arrow import decoded, pc
from muntin.spec import TimeSpec
from muntin.times import US_PER_SECOND, instant_text

EARLY_US = 31 * 86_400 * US_PER_SECOND
"""A time of our days that is read in too fine a unit lies in January 1970."""
_FIRST_US = 631_152_000 * US_PER_SECOND  # 1990: our days begin
_UNITS = {"s": Fraction(10**6), "ms": Fraction(10**3), "us": Fraction(1), "ns": Fraction(1, 1000)}


@dataclass(slots=True)
class Doubt:
    """Events whose number is a time of our days, from 1990 on, in another unit than that of the
    pipeline's file, in which it lies in January 1970 or in the future.

    Attributes
    ----------
    events : int
        How many.
    number : str
        The first of them, as it came.
    fits : str
        The unit in which it is a time of our days: there is no other.
    """

    events: int = 0
    number: str = ""
    fits: str = ""

    def add(self, other: Doubt) -> None:
        self.events += other.events
        if not self.number:
            self.number, self.fits = other.number, other.fits

    def meant(self) -> str:
        """The number as a time of our days."""
        return f"{_read_in(self.number, self.fits)} in {self.fits}"

    def text(self, time: TimeSpec, read: int) -> str:
        """What was read as what, and what to write; "" where nothing is in doubt.

        `read`: how many events were looked at.
        """
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


def doubt_of(column: Any, times: np.ndarray, unit: str | None, latest: int) -> Doubt:
    """Look at a column of event times, and at what was read of it: int64[n], `ABSENT` where that
    is none. `latest`: microseconds, after which no event is believed."""
    kind = column.type
    if unit is None or pa.types.is_null(kind):
        return Doubt()
    odd = np.flatnonzero((times < EARLY_US) | (times > latest))
    if not len(odd):
        return Doubt()
    chosen = decoded(column).take(pa.array(odd))
    numbers = _floats(chosen)
    found = Doubt()
    for other in (other for other in _UNITS if other != unit):
        fits = np.flatnonzero(_is_of_our_days(numbers, other, latest))
        if len(fits):
            found.add(Doubt(len(fits), str(chosen[int(fits[0])].as_py()), other))
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
