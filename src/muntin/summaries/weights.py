"""Weights, as users give them beside items: int64, never negative, with a sum that fits."""

from typing import Any

import numpy as np

from muntin.arrow import read_only
from muntin.errors import BadArgument, SummaryOverflow, how_many
from muntin.summaries.checks import INT64_MAX, array_of

ONE = read_only(np.ones(1, np.int64))  # as all that as_weights returns: one type for the kernels


def as_weights(weights: Any, items: int) -> np.ndarray:
    """int64[items], or int64[1] that stands for all (also where no weights are given). Raises
    BadArgument: not integers, null, negative, beyond int64, or not one for each item."""
    if weights is None:
        return ONE
    array = array_of(weights, "weight")
    scalar = array.ndim == 0
    if array.size == 0 and array.ndim == 1:
        array = array.astype(np.int64)
    if array.dtype.kind not in "iu" or array.ndim > 1:
        raise BadArgument(f"weights must be integers, got {array.dtype} of shape {array.shape}")
    if not scalar and array.shape[0] != items:
        raise BadArgument(
            f"{how_many(array.shape[0], 'weight')} for {how_many(items, 'item')}: give each one"
        )
    beyond = (array < 0) | (array > INT64_MAX) if array.size else array
    if beyond.any():
        at = int(beyond.argmax())
        raise BadArgument(f"weight {array.flat[at]} at position {at}: use 0 ... 2**63 - 1")
    return read_only(np.ascontiguousarray(array.reshape(-1), np.int64))


def total_of(weights: np.ndarray, items: int) -> int:
    """Weight of `items` items, given what `as_weights` returned for them."""
    if weights.shape[0] == items:
        return exact_sum(weights)
    return int(weights[0]) * items


def added(
    total: int, more: int, kind: str, what: str = "total weight", most: int = INT64_MAX
) -> int:
    """`total + more`; SummaryOverflow past `most`, before anything was changed."""
    if total + more > most:
        raise SummaryOverflow(
            f"{kind}: {what} {total} + {more} is beyond 2^{most.bit_length()} - 1: "
            "use smaller units, or shorter windows"
        )
    return total + more


def exact_sum(numbers: np.ndarray) -> int:
    """Sum of int64 numbers as a Python integer: it cannot wrap."""
    largest = max(int(numbers.max()), -int(numbers.min())) if len(numbers) else 0
    if largest * len(numbers) < 1 << 63:
        return int(numbers.sum())
    high, low = numbers >> 32, numbers & 0xFFFFFFFF
    return (int(high.sum(dtype=np.int64)) << 32) + int(low.sum(dtype=np.int64))
