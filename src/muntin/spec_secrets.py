"""Options that hold a secret: they are used, and never shown."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

HIDDEN = "***"
# those that Spark hides itself, and Kafka's further ones
_SECRET = re.compile(
    r"secret|password|passwd|token|credential|access[.]?key|jaas|ssl\.(key|keystore\.key)$", re.I
)


def without_secrets(options: Mapping[str, Any]) -> dict[str, Any]:
    """The same options, also in mappings inside, with secrets hidden."""
    return {
        name: without_secrets(value)
        if isinstance(value, Mapping)
        else HIDDEN
        if _SECRET.search(name)
        else value
        for name, value in options.items()
    }


def hide_secrets(text: str, options: Mapping[str, str]) -> str:
    """A text, such as an error's, without the secrets among these options."""
    for name, value in options.items():
        if value and _SECRET.search(name):
            text = text.replace(value, HIDDEN)
    return text
