"""Which rows hold a value that a summary cannot take, though its column's type is right.

They are rejected with a reason, so that one bad value stops no pipeline. What is found here need
not be looked for when a summary is updated.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.arrow import decoded, is_sound, is_text, pc, value_type
from muntin.errors import CorruptSummary

INT64_MAX = (1 << 63) - 1
_PER_US = {"s": 1_000_000, "ms": 1_000}
_DAYS = 1 << 31  # before and after 1970 that a date holds
_DAY_MS = 86_400_000
_NO_TEXT = "is not UTF-8 text: take a field, decode(CAST(… AS BINARY), 'ISO-8859-1')"
_NO_INTEGER = "is beyond int64: take a field, {}"
_NO_TIME = "is beyond the {} that can be written: take a field that is null there"

Refused = tuple[str, np.ndarray, str]
"""A column, bool[n] of the rows whose value cannot be taken, and what is wrong with it."""


def refused_values(
    batch: pa.RecordBatch, columns: Sequence[str], floats: Sequence[str], texts: Sequence[str]
) -> Iterator[Refused]:
    """Text that is not UTF-8; whole numbers beyond int64; times beyond int64 microseconds; dates
    beyond int32 days.

    `floats` become floats, and so may be of any size; `texts` may hold text instead.
    """
    for name in columns:
        mask, problem = _refused(batch.column(name), name in floats)
        if mask is not None:
            cast = "CAST(… AS STRING)" if name in texts else "TRY_CAST(… AS BIGINT), null there"
            yield name, mask, problem.format(cast)


def _refused(column: Any, is_float: bool) -> tuple[np.ndarray | None, str]:
    inner = value_type(column.type)
    if is_text(inner):
        return _not_utf8(column), _NO_TEXT
    if pa.types.is_uint64(inner) and not is_float:
        return beyond(decoded(column), -1, INT64_MAX), _NO_INTEGER
    if pa.types.is_timestamp(inner) and inner.unit in _PER_US:
        numbers, most = decoded(column).view(pa.int64()), INT64_MAX // _PER_US[inner.unit]
        return beyond(numbers, -most, most), _NO_TIME.format("times")
    if pa.types.is_date64(inner):
        numbers, most = decoded(column).view(pa.int64()), _DAYS * _DAY_MS
        return beyond(numbers, -most, most - 1), _NO_TIME.format("dates")
    return None, ""


def refused_sketches(
    batch: pa.RecordBatch, name: str, read: Callable[[Any], Any]
) -> Iterator[Refused]:
    """Rows whose bytes are no sketch that `read` takes, for each reason."""
    found: dict[str, np.ndarray] = {}
    for row, data in enumerate(batch.column(name).to_pylist()):
        try:
            if data is not None:
                read(data)
        except CorruptSummary as problem:
            found.setdefault(str(problem), np.zeros(len(batch), bool))[row] = True
    for problem, mask in found.items():
        yield name, mask, f"is no sketch that can be merged: {problem}"


def below_zero(column: Any) -> np.ndarray | None:
    """Rows of a column of numbers that are below 0; None where there are none."""
    if pa.types.is_null(column.type) or pa.types.is_boolean(column.type):
        return None
    return beyond(decoded(column), 0, None)


def beyond(numbers: Any, least: int, most: int | None) -> np.ndarray | None:
    """Rows outside of [least, most]."""
    if len(numbers) == numbers.null_count:
        return None
    if pa.types.is_float16(numbers.type):
        numbers = numbers.cast(pa.float32())  # Arrow does not compare halves
    found = pc.min_max(numbers)
    low, high = found["min"].as_py(), found["max"].as_py()
    if low >= least and (most is None or high <= most):
        return None
    kind = numbers.type
    outside = (
        pc.less(numbers, pa.scalar(least, kind)) if low < least else pa.repeat(False, len(numbers))
    )
    if most is not None and high > most:
        outside = pc.or_(outside, pc.greater(numbers, pa.scalar(most, kind)))
    return pc.fill_null(outside, False).to_numpy(zero_copy_only=False)


def _not_utf8(column: Any) -> np.ndarray | None:
    if is_sound(column.dictionary if pa.types.is_dictionary(column.type) else column):
        return None
    raw = decoded(column).cast(pa.large_binary())
    texts = [value or b"" for value in raw.to_pylist()]
    bad = [text.decode(errors="ignore").encode() != text for text in texts]
    return np.array(bad, bool) if any(bad) else None
