"""Event times, as users give them, to int64 microseconds; and the refusal of time going back."""

from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.arrow import one_array, read_only
from muntin.errors import BadArgument, how_many
from muntin.summaries.items import micros
from muntin.summaries.kernels.hyper_bloom import first_backwards

_ARROW_TIMES = frozenset(np.dtype(f"M8[{unit}]") for unit in ("s", "ms", "us", "ns"))


def as_times(times: Any, length: int) -> np.ndarray:
    """Times as int64[length] microseconds, C-ordered, read-only; no copy where they are that.

    `times`: an int64 array (microseconds, or any unit that the summary was set up with), Arrow
    timestamps, datetime64, datetimes, or one of these for all `length` items. Timestamps without a
    zone count as UTC; nanoseconds are rounded down. Raises BadArgument: floats or other types,
    nulls, or another length.
    """
    if isinstance(times, pa.Scalar):
        times = times.as_py()
    one = None
    if isinstance(times, datetime | int):
        one = [times]
    elif isinstance(times, np.generic | np.ndarray) and not times.ndim:
        one = times.reshape(1)
    if type(times) is np.ndarray and times.dtype == np.int64 and times.ndim == 1:
        values = np.ascontiguousarray(times)  # as most are: Arrow would take longer to be asked
    else:
        given = times if one is None else one
        if isinstance(given, np.ndarray) and not isinstance(given, np.ma.MaskedArray):
            given = _known_to_arrow(given)
        values = np.asarray(_micros(one_array(given, "times must be integers or timestamps")))
    if one is not None:
        values = np.full(length, values)
    if len(values) != length:
        raise BadArgument(
            f"{how_many(len(values), 'time')} for {how_many(length, 'item')}: give each one"
        )
    return read_only(values)


def check_order(times: np.ndarray, last: int | None) -> None:
    """Refuse times that go backwards, also against the last one of the update before."""
    at = first_backwards(times, np.int64(np.iinfo(np.int64).min if last is None else last))
    if at >= 0:
        before = last if at == 0 else int(times[at - 1])
        raise BadArgument(
            f"time goes backwards at position {at}: {int(times[at])} after {before}; "
            "sort the events by time before the update, and send late ones elsewhere"
        )


def _known_to_arrow(times: np.ndarray) -> np.ndarray:
    """Numbers of this machine, and times in a unit that Arrow has."""
    if times.ndim != 1:
        raise BadArgument(f"times have {times.ndim} dimensions: give one time an item")
    kind = times.dtype
    if kind in _ARROW_TIMES:
        return times
    if kind.kind != "M":
        return times.astype(kind.newbyteorder("="), copy=False) if kind.kind in "iu" else times
    fine = np.datetime_data(kind)[0] in ("ns", "ps", "fs", "as")
    try:
        wide = times.astype("datetime64[us]")
        fits = fine or not ((wide.astype(kind) != times) & ~np.isnat(times)).any()
    except OverflowError:  # NumPy says so from 2.5 on; before, it wrapped
        wide, fits = times, False
    if not fits:
        raise BadArgument(f"times of type {kind} reach beyond int64 microseconds")
    return wide


def _micros(times: pa.Array) -> pa.Array:
    if times.null_count:
        raise BadArgument(f"{times.null_count} times are null or NaT: drop those events")
    kind = times.type
    if pa.types.is_date(kind):
        return _micros(times.cast(pa.timestamp("ms")))
    if pa.types.is_timestamp(kind):
        return micros(times)
    if not len(times):
        return times.cast(pa.int64())
    if not pa.types.is_integer(kind):
        raise BadArgument(f"times of type {kind}: give int64 microseconds or timestamps")
    try:
        return times.cast(pa.int64())
    except pa.ArrowInvalid as problem:
        raise BadArgument(f"times do not fit in int64: {problem}") from None
