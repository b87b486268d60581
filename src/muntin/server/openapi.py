"""GET /openapi.json: what the HTTP routes take and give, as `openapi.yaml` says it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

import yaml


@cache
def described(package: str) -> dict[str, Any]:
    """What a package's `openapi.yaml` holds; it must not be changed."""
    return yaml.safe_load(files(package).joinpath("openapi.yaml").read_text("utf-8"))


def document(more: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The whole document; `more` are the paths that a server has beside those of every server."""
    own = described("muntin.server")
    return {**own, "paths": {**own["paths"], **(more or {})}}
