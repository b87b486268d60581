"""SELECT over summaries: the paper's statement, and SQL around it, on DuckDB.

Names are imported when they are first asked for: the catalog's types cost nothing, the engine
loads sqlglot and DuckDB.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from muntin.select.catalog import Catalog as Catalog
    from muntin.select.catalog import Loaded as Loaded
    from muntin.select.catalog import LoadedTable as LoadedTable
    from muntin.select.catalog import QueryInfo as QueryInfo
    from muntin.select.catalog import SummaryInfo as SummaryInfo
    from muntin.select.catalog import WindowAsked as WindowAsked
    from muntin.select.engine import Engine as Engine
    from muntin.select.limits import Limits as Limits
    from muntin.select.plan import CheckedStatement as CheckedStatement
    from muntin.select.result import Result as Result
    from muntin.select.result import WindowRead as WindowRead

_MODULE_OF = {
    "Catalog": "catalog",
    "CheckedStatement": "plan",
    "Engine": "engine",
    "Limits": "limits",
    "Loaded": "catalog",
    "LoadedTable": "catalog",
    "QueryInfo": "catalog",
    "Result": "result",
    "SummaryInfo": "catalog",
    "WindowAsked": "catalog",
    "WindowRead": "result",
}
__all__ = [*_MODULE_OF]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"muntin.select.{module}"), name)
    globals()[name] = value
    return value
