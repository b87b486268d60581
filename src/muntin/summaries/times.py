"""Event times, as users give them, to int64 microseconds; and the refusal of time going back."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.arrow import read_only
from muntin.errors import BadArgument, how_many
from muntin.summaries.kernels.hyper_bloom import first_backwards

_PER_MICROSECOND = {"s": (1_000_000, 1), "ms": (1_000, 1), "us": (1, 1), "ns": (1, 1_000)}
_MICROSECOND = timedelta(microseconds=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def as_times(times: Any, length: int) -> np.ndarray:
    """Times as int64[length] microseconds, C-ordered, read-only; no copy where they are that.

    Parameters
    ----------
    times : int64 array (microseconds, or any unit that the summary was set up with), Arrow
        timestamps, datetime64, datetimes, or one of these for all
        Timestamps without a zone count as UTC; nanoseconds are rounded down.
    length : int
        How many items there are.

    Raises
    ------
    BadArgument
        Floats or other types, nulls, or another length.
    """
    if isinstance(times, pa.ChunkedArray):
        times = times.combine_chunks()
    if isinstance(times, pa.Scalar):
        times = times.as_py()
    if isinstance(times, np.ndarray) and not times.ndim:
        times = times[()]
    if isinstance(times, np.datetime64):
        times = np.full(length, times)
    if isinstance(times, datetime) and times == times:  # not pandas' NaT
        zoned = times if times.tzinfo else times.replace(tzinfo=UTC)
        times = (zoned - _EPOCH) // _MICROSECOND
    if isinstance(times, int | np.integer) and not isinstance(times, bool):
        times = [times] * length
    if isinstance(times, np.ndarray) and not isinstance(times, np.ma.MaskedArray):
        values = _from_numpy(times)
    else:
        values = _from_arrow(_as_arrow(times))
    if len(values) != length:
        raise BadArgument(
            f"{how_many(len(values), 'time')} for {how_many(length, 'item')}: give each one"
        )
    return read_only(np.ascontiguousarray(values))


def check_order(times: np.ndarray, last: int | None) -> None:
    """Refuse times that go backwards, also against the last one of the update before."""
    at = first_backwards(times, np.int64(np.iinfo(np.int64).min if last is None else last))
    if at >= 0:
        before = last if at == 0 else int(times[at - 1])
        raise BadArgument(
            f"time goes backwards at position {at}: {int(times[at])} after {before}; "
            "sort the events by time before the update, and send late ones elsewhere"
        )


def _as_arrow(times: Any) -> pa.Array:
    if isinstance(times, pa.Array):
        return times
    try:
        return pa.array(times)
    except (pa.ArrowException, OverflowError, TypeError, ValueError, KeyError) as problem:
        raise BadArgument(f"times must be integers or timestamps: {problem}") from None


def _from_arrow(times: pa.Array) -> np.ndarray:
    if times.null_count:
        raise BadArgument(f"{times.null_count} times are null: drop those events")
    kind = times.type
    if pa.types.is_timestamp(kind):
        return _scaled(np.asarray(times.view(pa.int64())), kind.unit)
    if pa.types.is_null(kind):  # an empty list
        return np.empty(0, np.int64)
    if not pa.types.is_integer(kind):
        raise BadArgument(f"times of type {kind}: give int64 microseconds or timestamps")
    try:
        return np.asarray(times.cast(pa.int64()))
    except pa.ArrowInvalid as problem:
        raise BadArgument(f"times do not fit in int64: {problem}") from None


def _from_numpy(times: np.ndarray) -> np.ndarray:
    if times.ndim != 1:
        raise BadArgument(f"times have {times.ndim} dimensions: give one time an item")
    if times.dtype.kind == "M":
        unit = np.datetime_data(times.dtype)[0]
        if np.isnat(times).any():
            raise BadArgument("some times are NaT: drop those events")
        if unit not in _PER_MICROSECOND or np.datetime_data(times.dtype)[1] != 1:
            scaled = times.astype("datetime64[us]")
            if unit not in ("ns", "ps", "fs", "as") and (scaled.astype(times.dtype) != times).any():
                raise BadArgument(f"times of type {times.dtype} reach beyond int64 microseconds")
            times, unit = scaled, "us"
        return _scaled(times.view(np.int64), unit)
    if times.dtype.kind not in "iu":
        raise BadArgument(f"times of type {times.dtype}: give int64 microseconds or timestamps")
    if times.dtype == np.uint64 and len(times) and int(times.max()) > np.iinfo(np.int64).max:
        raise BadArgument(f"time {int(times.max())} does not fit in int64")
    return times.astype(np.int64, copy=False)


def _scaled(values: np.ndarray, unit: str) -> np.ndarray:
    factor, divisor = _PER_MICROSECOND[unit]
    if divisor > 1:
        return values // divisor
    limit = np.iinfo(np.int64).max // factor
    if factor > 1 and len(values) and (int(values.max()) > limit or int(values.min()) < -limit):
        raise BadArgument(f"timestamps in {unit} reach beyond int64 microseconds")
    return values * factor if factor > 1 else values
