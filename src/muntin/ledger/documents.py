"""JSON that a ledger keeps: specs, states of assemblers, status, commands."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from muntin.errors import BadArgument

SPEC_BYTES_MAX = 1 << 20
ASSEMBLER_BYTES_MAX = 16 << 20
STATUS_BYTES_MAX = 1 << 20
ALERTS_BYTES_MAX = 16 << 20
COMMAND_BYTES_MAX = 64 << 10
FILL_BYTES_MAX = 64 << 10


def dump(document: Mapping[str, Any], what: str, bytes_max: int) -> str:
    """ASCII JSON of an object; `BadArgument` where it is none, or too long."""
    if not isinstance(document, Mapping):
        raise BadArgument(f"the {what} must be a mapping, not {type(document).__name__}")
    try:
        text = json.dumps(dict(document), allow_nan=False, ensure_ascii=True, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as problem:
        raise BadArgument(
            f"the {what} cannot be written as JSON ({problem}); use strings, finite numbers, "
            "booleans, None, lists and mappings"
        ) from None
    if len(text) > bytes_max:
        raise BadArgument(f"the {what} takes {len(text):,} bytes of JSON; at most {bytes_max:,}")
    return text


def clean_text(text: str, characters_max: int) -> str:
    """Text cut to a length, with lone surrogates escaped, so that UTF-8 can hold it."""
    return str(text)[:characters_max].encode("utf-8", "backslashreplace").decode("utf-8")
