"""Checks of parameters that summaries share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from muntin.errors import BadArgument, CorruptSummary, IncompatibleSummary

INT64_MIN, INT64_MAX = -(1 << 63), (1 << 63) - 1


def integer_in(name: str, value: Any, low: int, high: int, unit: str = "") -> int:
    """`value` as an int between `low` and `high`, both included; `BadArgument` otherwise."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer):
        raise BadArgument(f"{name} must be an integer, got {value!r}")
    if not low <= value <= high:
        shown = f" {unit}" if unit else ""
        raise BadArgument(f"{name}={value} is out of range: give {low} to {high}{shown}")
    return int(value)


def parameters_of(kind: str, found: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    """Refuse parameters that are not exactly the expected names with the expected types."""
    if set(found) != set(expected):
        raise CorruptSummary(f"{kind}: parameters {sorted(found)}, expected {sorted(expected)}")
    for name, types in expected.items():
        allowed = types if isinstance(types, tuple) else (types,)
        if type(found[name]) not in allowed:
            raise CorruptSummary(f"{kind}: parameter {name} is {found[name]!r}")


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
