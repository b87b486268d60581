"""The rule for names of pipelines, summaries, standing queries and in-memory ledgers."""

from __future__ import annotations

import re

from muntin.errors import BadArgument

_NAME = re.compile(r"[a-z][a-z0-9_-]{0,63}")


def check_name(name: object, what: str) -> str:
    """`name` itself where it is one; what it names goes into the message.

    Names become parts of keys, URLs and file names, so that nothing in them may need escaping.
    """
    if isinstance(name, str) and _NAME.fullmatch(name):
        return name
    shown = ascii(name)
    shown = shown if len(shown) <= 80 else shown[:77] + "..."
    raise BadArgument(
        f"{shown} cannot name a {what}: a name begins with a small letter, goes on with small "
        "letters, digits, '_' and '-', and has at most 64 characters"
    )
