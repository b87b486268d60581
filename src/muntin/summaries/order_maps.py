"""Order-preserving maps: values of an ordered type to cells 0 ... 2**bits - 1 of a dyadic domain.

x <= y implies cell(x) <= cell(y), so ranks and quantiles of cells are those of the values, up to
the width of one cell. A map is `exact` where every cell holds one value only. Hashing a key is
not such a map: a digest over hashes answers for the hashes' uniform order, not for the keys'.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from muntin.errors import BadArgument
from muntin.summaries.checks import INT64_MAX, INT64_MIN, column_of, integer_in, with_plain_integers
from muntin.summaries.order_keys import from_keys, to_keys
from muntin.summaries.times import as_times
from muntin.summaries.weighted_view import check_points, whole_points

BITS_MAX = 62  # a node's number needs one bit more, and counts of cells stay inside int64
_SIGN = np.uint64(1 << 63)


class OrderMap(ABC):
    """What a digest needs to know of the values it counts."""

    name: ClassVar[str]
    bits: int

    @property
    def exact(self) -> bool:
        """Whether a cell holds one value only."""
        return False

    @abstractmethod
    def cells(self, values: Any) -> np.ndarray:
        """Cell of each value, uint64[n]; `BadArgument` for values that the domain lacks."""

    @abstractmethod
    def place(self, values: Any, inclusive: bool = True) -> tuple[np.ndarray, np.ndarray]:
        """Cell of each question (int64[n], clipped), and -1, 0, 1: below, inside, above. Of a rank:
        is it that of values equal to the question, too?"""

    @abstractmethod
    def lowest(self, cells: np.ndarray) -> np.ndarray:
        """Smallest value of each cell."""

    @abstractmethod
    def highest(self, cells: np.ndarray) -> np.ndarray:
        """Largest value of each cell."""

    @abstractmethod
    def typical(self, cells: np.ndarray) -> np.ndarray:
        """The value of each cell to show: one between lowest and highest."""

    def parameters(self) -> dict[str, Any]:
        """Of which `order_map` makes it again."""
        return {"name": self.name, **vars(self)}


class _WholeRange(OrderMap):
    """Whole numbers start ... start + 2**bits - 1, one to a cell."""

    start: int
    dtype: ClassVar[str] = "int64"

    @property
    def _last(self) -> int:
        return self.start + (1 << self.bits) - 1

    @property
    def exact(self) -> bool:
        return True

    @property
    def _origin(self) -> np.uint64:
        return np.uint64(self.start & ((1 << 64) - 1))

    def _since_start(self, numbers: np.ndarray) -> np.ndarray:
        return numbers.view(np.uint64) - self._origin

    def _placed(self, numbers: np.ndarray, beyond: Any) -> tuple[np.ndarray, np.ndarray]:
        side = np.where(numbers > self._last, 1, np.where(numbers < self.start, -1, beyond))
        inside = np.where(side == 0, numbers, self.start)
        return self._since_start(inside).view(np.int64), side.astype(np.int8)

    def lowest(self, cells: np.ndarray) -> np.ndarray:
        return (cells + self._origin).view(self.dtype)

    highest = typical = lowest


@dataclass(frozen=True)
class IntegerRange(_WholeRange):
    """Integers start ... start + 2**bits - 1, one to a cell."""

    bits: int = 20
    start: int = 0
    name: ClassVar[str] = "integers"

    def __post_init__(self) -> None:
        with_plain_integers(self)
        integer_in("bits", self.bits, 1, BITS_MAX)
        integer_in("start", self.start, INT64_MIN, INT64_MAX + 1 - (1 << self.bits))

    def cells(self, values: Any) -> np.ndarray:
        numbers = _integers(values)
        if numbers.size:
            low, high = int(numbers.min()), int(numbers.max())
            if low < self.start or high > self._last:
                wrong = low if low < self.start else high
                more = (
                    "more bits" if self.bits < BITS_MAX else "FloatOrder, of the nearest doubles,"
                )
                raise BadArgument(
                    f"value {wrong} is outside the domain {self.start} ... {self._last}: "
                    f"choose {more} or another start"
                )
        return self._since_start(numbers.astype(np.int64))

    def place(self, values: Any, inclusive: bool = True) -> tuple[np.ndarray, np.ndarray]:
        return self._placed(*whole_points(values, inclusive))


@dataclass(frozen=True)
class FloatOrder(OrderMap):
    """All float64 but NaN, by the leading bits of their ordered form: no range to choose. A cell is
    2**(12 - bits) of its value wide (relative): 12 bits are sign and exponent."""

    bits: int = BITS_MAX
    name: ClassVar[str] = "float_order"

    def __post_init__(self) -> None:
        with_plain_integers(self)
        integer_in("bits", self.bits, 1, BITS_MAX)

    def cells(self, values: Any) -> np.ndarray:
        keys = to_keys(as_numbers(values).astype(np.float64, copy=False))
        return (keys.view(np.uint64) ^ _SIGN) >> np.uint64(64 - self.bits)

    def place(self, values: Any, inclusive: bool = True) -> tuple[np.ndarray, np.ndarray]:
        points, beyond = check_points(values, "float64", inclusive)
        return self.cells(points).view(np.int64), beyond

    def lowest(self, cells: np.ndarray) -> np.ndarray:
        return self._value(cells << np.uint64(64 - self.bits), -np.inf)

    def highest(self, cells: np.ndarray) -> np.ndarray:
        rest = np.uint64((1 << (64 - self.bits)) - 1)
        return self._value((cells << np.uint64(64 - self.bits)) | rest, np.inf)

    def typical(self, cells: np.ndarray) -> np.ndarray:
        # The end next to zero has the shortest mantissa: 3.25 stays 3.25.
        lowest, highest = self.lowest(cells), self.highest(cells)
        return np.where(lowest < 0, highest, lowest)

    @staticmethod
    def _value(ordered: np.ndarray, beyond: float) -> np.ndarray:
        numbers = from_keys((ordered ^ _SIGN).view(np.int64), "float64")
        return np.where(np.isnan(numbers), beyond, numbers)  # edges next to an infinity


@dataclass(frozen=True)
class TimestampRange(_WholeRange):
    """Instants start ... start + 2**bits - 1, in microseconds since 1970-01-01 UTC."""

    start: int = 0
    bits: int = 52
    name: ClassVar[str] = "timestamps"
    dtype: ClassVar[str] = "datetime64[us]"

    def __post_init__(self) -> None:
        with_plain_integers(self)
        integer_in("bits", self.bits, 1, BITS_MAX)
        latest = INT64_MAX + 1 - (1 << self.bits)
        integer_in("start", self.start, INT64_MIN + 1, latest, "microseconds")

    def cells(self, values: Any) -> np.ndarray:
        times = _microseconds(values)
        outside = (times < self.start) | (times > self._last)
        if outside.any():
            raise BadArgument(
                f"instant {np.datetime64(int(times[outside][0]), 'us')} is outside the domain "
                f"{np.datetime64(self.start, 'us')} ... {np.datetime64(self._last, 'us')}"
            )
        return self._since_start(times)

    def place(self, values: Any, inclusive: bool = True) -> tuple[np.ndarray, np.ndarray]:
        del inclusive
        return self._placed(_microseconds(values), 0)


_MAPS = {m.name: m for m in (IntegerRange, FloatOrder, TimestampRange)}


def order_map(parameters: Mapping[str, Any]) -> OrderMap:
    """The map that `parameters()` described; `BadArgument` where it describes none."""
    given = dict(parameters) if isinstance(parameters, Mapping) else {}
    name = given.pop("name", None)
    made = _MAPS.get(name) if isinstance(name, str) else None
    if made is None or any(type(value) is not int for value in given.values()):
        raise BadArgument(f"not an order-preserving map: {parameters!r}")
    try:
        return made(**given)
    except TypeError as problem:
        raise BadArgument(f"not an order-preserving map: {problem}") from None


def map_for(name: str, kind: pa.DataType) -> OrderMap:
    """A map for a column that needs no range: all but NaN, null and |x| >= 2**61."""
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return FloatOrder()
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return TimestampRange(start=-(1 << 61), bits=62)
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return IntegerRange(bits=62, start=-(1 << 61))
    raise BadArgument(f"column {name!r} is {kind}, which has no rank: use numbers, dates or times")


def as_numbers(values: Any) -> np.ndarray:
    """Numbers of any type [n]; `BadArgument` for anything else, null and NaN."""
    array = column_of(values)
    if array.dtype.kind not in "iuf" and array.size:
        raise BadArgument(f"values of type {array.dtype} are not numbers")
    if array.dtype.kind == "f" and np.isnan(array).any():
        raise BadArgument("NaN has no rank: drop it first")
    if array.dtype.kind == "f":
        return array.astype(np.float64, copy=False)
    return array if array.dtype.kind in "iu" else array.astype(np.int64)


def _integers(values: Any) -> np.ndarray:
    numbers = as_numbers(values)
    if numbers.dtype.kind == "f":
        if numbers.size:
            raise BadArgument(f"value {numbers[0]} is not an integer: give the digest a FloatOrder")
        return numbers.astype(np.int64)
    return numbers


def _microseconds(values: Any) -> np.ndarray:
    array = column_of(values)
    return as_times(array, len(array))
