"""Packages whose names are imported when they are first asked for."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy(package: str, module_of: Mapping[str, str]) -> Callable[[str], Any]:
    """The `__getattr__` of a package, by the module in which each of its names is."""

    def found(name: str) -> Any:
        if name not in module_of:
            from muntin.errors import did_you_mean

            hint = did_you_mean(name, module_of)
            raise AttributeError(f"module {package!r} has no attribute {name!r}; {hint}")
        value = getattr(import_module(module_of[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return found
