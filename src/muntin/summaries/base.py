"""What every summary can do, and the value that an approximate answer is."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import Self

import numpy as np


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
