"""What every summary can do, and the value that an approximate answer is."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn, Self

import numpy as np

from muntin.errors import IncompatibleSummary
from muntin.summaries.aligned import aligned_copy
from muntin.summaries.checks import to_merge


class Copied:
    """A summary of which `copy.copy` is independent as well: a shallow copy shares arrays with its
    original, and an update of one would be half an update of the other."""

    def copy(self) -> Self:
        """An independent equal."""
        return deepcopy(self)

    def __copy__(self) -> Self:
        return self.copy()

    def _shallow(self) -> Self:
        """One that shares everything, for `copy` to replace what changes."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        return twin


class Merging(Copied, ABC):
    """A summary of which several become one by merging one after the other."""

    @abstractmethod
    def merge(self, other: Any) -> None:
        """Add the events of another, which stays as it is."""

    @classmethod
    def merged(cls, summaries: Iterable[Self]) -> Self:
        """A new summary of the events of all, as merging one after the other would give."""
        first, *rest = to_merge(cls, summaries)
        new = first.copy()
        for part in rest:
            new.merge(part)
        return new


class Counted(Copied):
    """A summary that counts its events and is made of arrays, or tuples of them."""

    _events: int

    @property
    def count(self) -> int:
        """Events summarised: items given to `update`, repeats included, whatever their weights."""
        return self._events

    @property
    def nbytes(self) -> int:
        """Bytes of memory, without what tables leave free before a cache line."""
        values = vars(self).values()
        parts = [p for value in values for p in (value if isinstance(value, tuple) else (value,))]
        return sum(part.nbytes for part in parts if isinstance(part, np.ndarray))


class OfOneStream(Counted):
    """A summary that follows one stream in its order, and so cannot be merged."""

    instead_of_merging: ClassVar[str]
    """What to do."""

    def copy(self) -> Self:
        """An independent equal."""
        twin = self._shallow()
        for name, value in vars(self).items():
            if isinstance(value, np.ndarray):
                setattr(twin, name, aligned_copy(value))
            elif isinstance(value, tuple):
                kind: Any = type(value)
                setattr(twin, name, kind(*map(aligned_copy, value)))
        return twin

    def merge(self, other: Self) -> NoReturn:
        """Always refused: `IncompatibleSummary`."""
        raise IncompatibleSummary(
            f"a {type(self).__name__} follows one stream in its order and cannot take in a "
            f"{type(other).__name__}: {self.instead_of_merging}"
        )


class Weighed(Counted):
    """A summary of items that have weights."""

    _total: int

    @property
    def total(self) -> int:
        """Weight of all items: exact."""
        return self._total


def middle(lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """The integer in the middle of each interval, or below it: off by half of it at most."""
    return lower + (upper - lower) // 2


@dataclass(frozen=True, slots=True)
class Estimate:
    """An answer with its bound, one entry per question.

    Attributes
    ----------
    value, lower, upper : ndarray[n]
        The answer and the interval that holds the truth.
    confidence : float
        Probability that one interval holds the truth; 1.0 where the bound is deterministic.
    """

    value: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    confidence: float

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Estimate):
            return NotImplemented
        parts = ("value", "lower", "upper", "confidence")
        return all(np.array_equal(getattr(self, part), getattr(other, part)) for part in parts)
