"""Checked reading of what stands in an envelope: the parameters, and a body piece by piece."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from muntin.errors import CorruptSummary
from muntin.summaries.envelope import unseal

INT64_MAX = 2**63 - 1
_LENGTH = struct.Struct("<Q")


class Fields:
    """Parameters of sealed bytes, each taken once with its type and range.

    Everything wrong raises CorruptSummary; so does, in `done`, a name that nobody took.
    """

    def __init__(self, kind: str, parameters: Mapping[str, Any]) -> None:
        self._kind = kind
        self._left = dict(parameters)

    def integer(self, name: str, low: int, high: int) -> int:
        value = self.value(name)
        if type(value) is not int or not low <= value <= high:
            raise CorruptSummary(f"{self._kind}: {name} {value!r} is not in {low} ... {high}")
        return value

    def boolean(self, name: str) -> bool:
        value = self.value(name)
        if type(value) is not bool:
            raise CorruptSummary(f"{self._kind}: {name} {value!r} is not true or false")
        return value

    def choice(self, name: str, choices: Sequence[Any]) -> Any:
        value = self.value(name)
        if not any(type(value) is type(choice) and value == choice for choice in choices):
            raise CorruptSummary(f"{self._kind}: {name} {value!r} is none of {list(choices)}")
        return value

    def texts(self, name: str) -> list[str]:
        value = self.value(name)
        if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
            raise CorruptSummary(f"{self._kind}: {name} is not a list of names")
        return value

    def integer_or_none(self, name: str, low: int, high: int) -> int | None:
        if self._left.get(name, 0) is None:
            return self.value(name)
        return self.integer(name, low, high)

    def rows(self, name: str, *kinds: Any) -> list[list[Any]]:
        """A list of lists, each of values of these types; the caller checks what they are."""
        rows = self.value(name)
        for row in rows if isinstance(rows, list) else [rows]:
            if (
                not isinstance(row, list)
                or len(row) != len(kinds)
                or not all(
                    isinstance(value, kind) and type(value) is not bool
                    for value, kind in zip(row, kinds, strict=True)
                )
            ):
                raise CorruptSummary(f"{self._kind}: {row!r:.80} cannot be in its {name}")
        return rows

    def done(self) -> None:
        if self._left:
            raise CorruptSummary(f"{self._kind}: unknown parameters {sorted(self._left)}")

    def value(self, name: str) -> Any:
        """Anything that JSON holds: the caller checks it."""
        if name not in self._left:
            raise CorruptSummary(f"{self._kind}: parameter {name} is missing")
        return self._left.pop(name)


def opened(data: bytes, kind: str) -> tuple[Fields, Body]:
    """Parameters and body of sealed bytes of `kind`; CorruptSummary."""
    parameters, body = unseal(data, kind)
    return Fields(kind, parameters), Body(kind, body)


class Body:
    """A body, read from front to back; each piece is checked to be there before it is copied."""

    def __init__(self, kind: str, body: memoryview) -> None:
        self._kind = kind
        self._body = body
        self._at = 0

    @property
    def left(self) -> int:
        return len(self._body) - self._at

    def array(self, dtype: str, count: int) -> np.ndarray:
        """The next `count` numbers, copied, in the machine's byte order."""
        kind = np.dtype(dtype)
        piece = self.view(count * kind.itemsize)
        return np.frombuffer(piece, kind).astype(kind.newbyteorder("="), copy=True)

    def block(self) -> memoryview:
        """The next block: its length in 8 bytes, then its bytes (not copied)."""
        (size,) = _LENGTH.unpack(self.view(_LENGTH.size))
        return self.view(size)

    def rest(self) -> memoryview:
        return self.view(self.left)

    def done(self) -> None:
        if self.left:
            raise CorruptSummary(f"{self._kind}: {self.left} bytes too many in the body")

    def view(self, size: int) -> memoryview:
        """The next `size` bytes (not copied)."""
        if size > self.left:
            raise CorruptSummary(f"{self._kind}: the body ends {size - self.left} bytes early")
        piece = self._body[self._at : self._at + size]
        self._at += size
        return piece


def block(data: bytes) -> bytes:
    """Bytes with their length in front, as `Body.block` reads them."""
    return _LENGTH.pack(len(data)) + data


def exact_sum(numbers: np.ndarray) -> int:
    """Sum of int64 numbers as a Python integer: it cannot wrap."""
    largest = max(int(numbers.max()), -int(numbers.min())) if len(numbers) else 0
    if largest * len(numbers) < 1 << 63:
        return int(numbers.sum())
    high, low = numbers >> 32, numbers & 0xFFFFFFFF
    return (int(high.sum(dtype=np.int64)) << 32) + int(low.sum(dtype=np.int64))
