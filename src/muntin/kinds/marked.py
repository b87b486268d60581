"""A mark that stands for a summary which could not be made: what answers say who need it.

A sum that leaves its range within one pane, or a payload too large to store, must not stop a
pipeline. Its events are counted, the slice holds a mark, and everything else goes on.
"""

from __future__ import annotations

import json

from muntin import errors
from muntin.errors import BadArgument, MuntinError

_MAGIC = b"muntin mark 1\n"
_TEXT_MAX = 1_000


def mark(problem: Exception) -> bytes:
    """The payload that says why there is no summary."""
    kind = type(problem).__name__ if isinstance(problem, MuntinError) else "BadArgument"
    text = str(problem)[:_TEXT_MAX] or type(problem).__name__
    return _MAGIC + json.dumps([kind, text]).encode()


def is_marked(payload: bytes) -> bool:
    return payload[: len(_MAGIC)] == _MAGIC


def marked_with(payload: bytes) -> MuntinError | None:
    """What a mark says; None of any other payload."""
    if not is_marked(payload):
        return None
    kind, text = json.loads(payload[len(_MAGIC) :])
    found = getattr(errors, kind, None)
    if isinstance(found, type) and issubclass(found, MuntinError):
        return found(text)
    return BadArgument(text)
