"""Options that hold a secret: they are used, and never shown."""

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlencode

HIDDEN = "***"
# those that Spark hides itself, and Kafka's further ones
_SECRET = re.compile(
    r"secret|password|passwd|token|credential|access[.]?key|jaas|ssl\.(key|keystore\.key)$", re.I
)


def is_secret(name: str) -> bool:
    """Is what an option of this name holds to be shown to nobody?"""
    return _SECRET.search(name) is not None


def without_secrets(options: Mapping[str, Any]) -> dict[str, Any]:
    """The same options, also in mappings inside, with secrets hidden."""
    return {
        name: without_secrets(value)
        if isinstance(value, Mapping)
        else HIDDEN
        if is_secret(name)
        else value
        for name, value in options.items()
    }


def hide_secrets(text: str, options: Mapping[str, str]) -> str:
    """A text, such as an error's, without the secrets among these options."""
    for name, value in options.items():
        if value and is_secret(name):
            text = text.replace(value, HIDDEN)
    return text


def shown_url(url: str) -> str:
    """A ledger's URL as it may be shown: passwords are hidden, wherever they stand."""
    scheme, separator, rest = url.partition("://")
    if not separator or scheme in ("sqlite", "memory"):
        return url
    rest, mark, query = rest.partition("?")
    # the last @ before the path: a password that was not escaped may hold others
    user, at, host = rest.rpartition("@")
    name, colon, _ = user.partition(":")
    login = f"{name}:{HIDDEN}" if colon else user
    if mark:
        options = without_secrets(dict(parse_qsl(query, keep_blank_values=True)))
        query = urlencode(options, safe="*/:,", quote_via=quote)
    return ascii(unquote(f"{scheme}://{login}{at}{host}{mark}{query}"))[1:-1]
