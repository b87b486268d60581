"""The small part of pg_catalog and information_schema that clients ask for.

The tables are Arrow's, made of what there is to ask. A client's statement is translated, and SQL
written from its tree runs in a locked-down DuckDB of its own: the text reaches nothing.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
from sqlglot import exp
from sqlglot.errors import ErrorLevel

from muntin.select.catalog import OPEN, ForClause
from muntin.select.database import Database, DatabaseError
from muntin.select.limits import Limits
from muntin.select.result import Result
from muntin.server.postgres.catalog_language import refused, translated
from muntin.server.postgres.catalog_tables import CATALOGS, Columns, catalog_tables
from muntin.server.postgres.relations import ShownTable
from muntin.server.postgres.text import words_of

_LIMITS = Limits(
    seconds=5.0,
    memory_bytes=64 << 20,
    result_rows=100_000,
    result_bytes=32 << 20,
    cache_bytes=1 << 20,
    concurrent=2,
)
_TYPED = ("pg_attribute", "information_schema.columns")
_KEPT_SECONDS = 5.0  # sums may have outgrown 64 bits meanwhile


def is_catalog(text: str, known: Mapping[str, ShownTable]) -> bool:
    """Whether a statement asks about tables, or about the server, and of no summary."""
    words = words_of(text)
    if any(word.is_name and word.value.lower() in CATALOGS for word in words):
        return True
    targets = [
        words[i + 1].text.strip('"').lower()
        for i, word in enumerate(words[:-1])
        if word.is_word("FROM", "JOIN") and words[i + 1].is_name
    ]
    sources = {relation.source.lower() for relation in known.values()}
    return any(target.startswith("pg_") and target not in sources for target in targets)


def is_plain(text: str) -> bool:
    """Whether a statement reads nothing at all."""
    words = words_of(text)
    return (
        bool(words)
        and words[0].is_word("SELECT", "VALUES")
        and not any(word.is_word("FROM", "VECTOR") for word in words)
    )


class PostgresCatalog:
    """Answers; thread-safe. `columns_of`: (table, window) -> names and Arrow types of its
    columns: whether sums are of 64 bits depends on the window, and on what comes."""

    def __init__(self, columns_of: Callable[[ShownTable, ForClause], Columns]) -> None:
        self._columns_of = columns_of
        self._database = Database(_LIMITS)
        self._made: dict[bool, tuple[Any, float, dict[str, pa.Table]]] = {}

    def sql(self, text: str, known: Mapping[str, ShownTable], window: ForClause) -> Result:
        """The answer to a statement; `window`: of tables without a clause. Raises SelectError."""
        tables = self._tables(known, OPEN)
        classes = tables["pg_class"].select(["relname", "oid"]).to_pylist()
        oids = {one["relname"]: one["oid"] for one in classes}
        statement = translated(text, tables, oids)
        used = [table for table in statement.find_all(exp.Table) if table.name in tables]
        if window != OPEN and any(table.name in _TYPED for table in used):
            tables = self._tables(known, window)
        read = [tables[table.name] for table in used]
        for table in used:
            alias = exp.to_identifier(table.alias or table.name, quoted=True)
            table.set("alias", exp.TableAlias(this=alias))

        def sql(*names: str) -> str:
            for table, name in zip(used, names, strict=True):
                # what is joined to it in brackets is a part of it: it stays
                table.set("this", exp.to_identifier(name))
            return statement.sql("duckdb", unsupported_level=ErrorLevel.IGNORE)

        try:
            found = self._database.run(sql, read, seconds=_LIMITS.seconds)
        except DatabaseError as error:
            code = {"timeout": "timeout", "memory": "limit", "too_large": "limit"}.get(error.kind)
            raise refused(
                f"the catalog cannot answer this: {error}", code or "not_allowed"
            ) from None
        return Result(found, (), None, 0, True, {}, (), 0, False, 0.0)

    def _tables(self, known: Mapping[str, ShownTable], window: ForClause) -> dict[str, pa.Table]:
        key, is_open, began = (tuple(known.values()), window), window == OPEN, time.monotonic()
        made = self._made.get(is_open)
        if made is None or made[0] != key or began > made[1]:
            columns = {name: self._columns_of(each, window) for name, each in known.items()}
            until = time.monotonic() + _KEPT_SECONDS
            made = key, until, catalog_tables(known, columns)
            complete = all(columns.values()) and not any(
                pa.types.is_null(kind) for each in columns.values() for _, kind in each
            )
            self._made[is_open] = made if complete else (None, *made[1:])
        return made[2]
