"""Amounts of memory as people write them, to bytes."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BeforeValidator

_UNITS = {
    "": 1,
    "b": 1,
    **{f"{letter}b": 1000**power for power, letter in enumerate("kmg", 1)},
    **{f"{letter}ib": 1024**power for power, letter in enumerate("kmg", 1)},
}
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", re.IGNORECASE)


def size_bytes(value: Any) -> int:
    """Bytes of "100 KB" (100,000), "64 KiB" (65,536), "2 MB" or of a number of bytes."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    found = _SIZE.fullmatch(value) if isinstance(value, str) else None
    unit = _UNITS.get(found.group(2).lower()) if found else None
    if found is None or unit is None:
        raise ValueError(f"{value!r} is not an amount of memory: write for example '100 KB'")
    return round(float(found.group(1)) * unit)


Bytes = Annotated[int, BeforeValidator(size_bytes)]
