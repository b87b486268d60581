"""Checks of parameters that summaries share."""

import math
from collections.abc import Collection, Iterable
from dataclasses import fields
from decimal import Decimal
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from muntin.arrow import floats_of_decimals, unviewed, value_type
from muntin.errors import BadArgument, IncompatibleSummary

Summary = TypeVar("Summary")
INT64_MIN, INT64_MAX = -(1 << 63), (1 << 63) - 1
UINT64_MAX = (1 << 64) - 1
NAME_CHARACTERS_MAX = 1000


def integer_in(name: str, value: Any, low: int, high: int, unit: str = "") -> int:
    """`value` as an int between `low` and `high`, both included; `BadArgument` otherwise."""
    no_number = bool | np.bool_ | np.timedelta64  # which NumPy counts among its integers
    if isinstance(value, no_number) or not isinstance(value, int | np.integer):
        raise BadArgument(f"{name} must be an integer, got {value!r}")
    if not low <= value <= high:
        shown = f" {unit}" if unit else ""
        raise BadArgument(f"{name}={value} is out of range: give {low} to {high}{shown}")
    return int(value)


def check_seed(value: Any) -> int:
    """A seed of 64 bits; `BadArgument` otherwise."""
    return integer_in("seed", value, 0, UINT64_MAX)


def boolean(name: str, value: Any) -> bool:
    """`value` as a bool; `BadArgument` for what is none, which could be true by accident."""
    if not isinstance(value, bool | np.bool_):
        raise BadArgument(f"{name} must be True or False, got {value!r:.100}")
    return bool(value)


def one_of(name: str, value: Any, choices: Collection[str]) -> Any:
    """`value`, one of some texts; `BadArgument` otherwise."""
    if not isinstance(value, str) or value not in choices:
        raise BadArgument(f"{name}={value!r:.100}: use one of {', '.join(choices)}")
    return value


def name_of(what: str, name: Any) -> str:
    """A column's name; `BadArgument` for what is none."""
    if not isinstance(name, str) or not 0 < len(name) <= NAME_CHARACTERS_MAX:
        raise BadArgument(
            f"{what} {name!r:.100}: give the name of a column, "
            f"1 to {NAME_CHARACTERS_MAX} characters"
        )
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        raise BadArgument(f"{what} {name!r:.100} is not Unicode text: rename the column") from None
    return name


def names_in(what: str, given: Any) -> list[Any]:
    """What may be names, as a list; `BadArgument` for one text, and for what is no list."""
    try:
        if not isinstance(given, str):
            arrow = isinstance(given, pa.Array | pa.ChunkedArray)
            return given.to_pylist() if arrow else list(given)
    except (TypeError, ValueError):  # of Arrow's, a text that is not UTF-8
        pass
    raise BadArgument(f"{what}: got a {type(given).__name__}, give a list of names")


def with_plain_integers(made: Any) -> None:
    """NumPy's integers in the fields of a dataclass become Python's, which JSON has, and which do
    not overflow where sizes are computed of them."""
    for each in fields(made):
        value = getattr(made, each.name)
        if isinstance(value, np.integer) and not isinstance(value, np.timedelta64):
            object.__setattr__(made, each.name, int(value))


def array_of(values: Any, what: str = "value") -> np.ndarray:
    """Numbers or times, as users give them, as NumPy has them; decimals as the nearest floats.
    Raises BadArgument: a null or masked one, a number beyond float64 (the first position is named),
    or what is no array of one type."""
    arrow = isinstance(values, pa.Array | pa.ChunkedArray)
    if isinstance(values, pa.ChunkedArray):  # of which Arrow unites dictionaries of float16 wrongly
        values = unviewed(values)
        values = values.cast(value_type(values.type))
    kind = values.type if arrow else getattr(values, "dtype", np.dtype(object))
    if isinstance(values, np.ma.MaskedArray):
        mask = np.ma.getmaskarray(values)
        if mask.any():
            at = int(mask.argmax())
            raise BadArgument(f"{what} at position {at} is masked: use {what}s.compressed()")
    elif not isinstance(kind, np.dtype):  # of Arrow and polars, or of pandas
        nulls = getattr(values, "is_null", None) or getattr(values, "isna", None)
        known = values.null_count if arrow else None
        if nulls and known != 0 and (found := np.asarray(nulls())).any():
            at = int(found.argmax())
            raise BadArgument(f"{what} at position {at} is null: drop nulls first")
        if arrow and pa.types.is_decimal(kind):
            chunks = values.chunks if isinstance(values, pa.ChunkedArray) else [values]
            values = pa.chunked_array(map(floats_of_decimals, chunks), pa.float64())
    elif isinstance(values, pa.Scalar):
        values = values.as_py()
    try:
        array = np.asarray(values.to_numpy(zero_copy_only=False) if arrow else values)  # pyright: ignore
    except (ValueError, TypeError, OverflowError, pa.ArrowException) as problem:
        raise BadArgument(f"{what}s must be numbers, of one type: {problem}") from None
    if array.dtype == object:
        for at, value in enumerate(array.ravel()):
            if value is None:
                raise BadArgument(f"{what} at position {at} is null: drop nulls first")
        if any(isinstance(value, Decimal) for value in array.flat):
            array = _of_decimals(array, what)
    return narrowed(array, "float64", what) if array.dtype == np.longdouble else array


def column_of(values: Any, what: str = "value") -> np.ndarray:
    """As `array_of`, of one dimension: one value is a column of one, and booleans are 0 and 1."""
    array = np.atleast_1d(array_of(values, what))
    if array.ndim > 1:
        raise BadArgument(f"{what}s have shape {array.shape}: give one dimension")
    return array.view(np.uint8) if array.dtype == np.bool_ else array


def _of_decimals(array: np.ndarray, what: str) -> np.ndarray:
    try:
        floats = array.astype(np.float64)
    except (TypeError, ValueError, OverflowError) as problem:
        raise BadArgument(f"{what}s must be numbers, of one type: {problem}") from None
    for at in np.flatnonzero(np.isinf(floats)):
        if array.flat[at] not in (math.inf, -math.inf):
            raise BadArgument(
                f"{what} at position {at} is beyond float64: divide all by one number"
            )
    return floats


def narrowed(array: np.ndarray, dtype: str, what: str = "value") -> np.ndarray:
    """Floats as float64 or float32; `BadArgument` where a finite one is beyond it."""
    with np.errstate(over="ignore"):
        narrow = array.astype(dtype)
    beyond = np.isinf(narrow) & ~np.isinf(array)
    if beyond.any():
        at = int(beyond.argmax())
        remedy = "use float64" if dtype == "float32" else "divide all by one number"
        raise BadArgument(f"{what} {array.flat[at]!s} at position {at} is beyond {dtype}: {remedy}")
    return narrow


def to_merge(kind: type[Summary], given: Iterable[Summary]) -> list[Summary]:
    """Summaries as a list; BadArgument for no list or an empty one, IncompatibleSummary."""
    try:
        found = list(given)
    except TypeError:
        said = f"cannot merge a {type(given).__name__}: give a list of {kind.__name__}"
        raise BadArgument(said) from None
    if not found:
        raise BadArgument(f"no {kind.__name__} to merge: give at least one")
    for each in found:
        if not isinstance(each, kind):
            raise IncompatibleSummary(
                f"cannot merge a {type(each).__name__} into a {kind.__name__}"
            )
    return found


def check_alike(mine: Any, other: Any) -> None:
    """IncompatibleSummary where two summaries are not of one class with equal `parameters`."""
    name = type(mine).__name__
    if not isinstance(other, type(mine)):
        raise IncompatibleSummary(f"cannot merge a {type(other).__name__} into a {name}")
    ours, theirs = mine.parameters, other.parameters
    if ours != theirs:
        differing = [entry for entry in {**ours, **theirs} if ours.get(entry) != theirs.get(entry)]
        shown = ", ".join(f"{n} {ours.get(n)!r} and {theirs.get(n)!r}" for n in differing)
        raise IncompatibleSummary(
            f"a {name} cannot take in one of other parameters ({shown}): make both with the same"
        )
