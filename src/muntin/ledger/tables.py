"""Rows of a ledger in SQLite: checked where they are read, noted where they are written.

A SQLite ledger is its file. A shared ledger (`shared.py`) keeps a copy of the store's rows in such
a file as well, and sends what a transaction has noted to the store.
"""

# ruff: noqa: S608  statements are joined from the names of our own tables and columns only
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from muntin.errors import LedgerError
from muntin.ledger.records import Payload
from muntin.ledger.schema import GIVEN_UP, IN_FILE, PAYLOADS, RAW, Packed, SqlTable
from muntin.times import now_us

Row = tuple[Any, ...]


_UNNAMED = " UNION ALL ".join(
    f"SELECT pipelines.name, '{role}', key FROM pipelines, json_each(spec, '$.{entry}') WHERE "
    f"json_type(spec, '$.{entry}') = 'object' AND NOT EXISTS "
    f"(SELECT 1 FROM names WHERE role = '{role}' AND name = key)"
    for role, entry in (("summary", "summaries"), ("query", "queries"))
)


@dataclass(slots=True)
class Noted:
    """What a transaction has written."""

    changes: dict[tuple[SqlTable, Row], Row | None] = field(default_factory=dict)
    """Whole rows, by table and key; None: it was removed."""
    grown: Counter[str] = field(default_factory=Counter)
    """How many rows more each table has, but for payloads that a store keeps."""


class Tables(sqlite3.Connection):
    """A connection to the tables.

    `place`: named where a row is damaged.
    `noted`: takes what is written, where somebody has to know.
    `identity`: of the file that it is of.
    `fetch`: where the payloads are that neither the table holds nor a file: ids -> rows.
    """

    place: str = ""
    noted: Noted | None = None
    identity: tuple[int, int] | None = None
    fetch: Callable[[Sequence[int]], Iterable[Row]] | None = None

    def rows(self, table: SqlTable, clause: str = "", values: Sequence[Any] = ()) -> list[Row]:
        """Rows whose checksum is right, without it."""
        cursor = self.execute(f"SELECT {table.all_columns} FROM {table.name} {clause}", values)
        return table.open_rows(cursor, self.place)

    def payloads(self, ids: Sequence[int]) -> dict[int, Payload]:
        """The payloads of pieces, of those that are there."""
        found: dict[int, Payload] = {}
        for identifier in ids:
            found.update(self.rows(PAYLOADS, "WHERE piece = ?", (identifier,)))  # pyright: ignore[reportArgumentType]
        if self.fetch is not None and len(found) < len(ids):
            rows = self.fetch([identifier for identifier in ids if identifier not in found])
            found |= dict(PAYLOADS.open_row(row, self.place) for row in rows)  # pyright: ignore[reportArgumentType]
            found = {identifier: found[identifier] for identifier in ids if identifier in found}
        return found

    def heads(self, ids: Sequence[int], nbytes: int) -> dict[int, Payload]:
        """The first bytes of the payloads of pieces, unchecked, of those that are there; all of
        those that a store must be asked for."""
        statement = "SELECT piece, codec, substr(payload, 1, ?) FROM payloads WHERE piece = ?"
        found: dict[int, Payload] = {}
        missing = []
        for identifier in ids:
            row = self.execute(statement, (nbytes, identifier)).fetchone()
            if row is not None and row[1] == RAW:
                found[identifier] = row[2] or b""  # of nothing, substr is null
            else:
                missing.append(identifier)
        return found | self.payloads(missing)

    def check_named(self) -> None:
        """Each name of a pipeline's spec has its row: without it nothing is found under the name,
        and an answer of nothing would be taken for the truth."""
        lost = self.execute(_UNNAMED).fetchone()
        if lost is not None:
            raise LedgerError(
                f'{self.place}: pipeline "{lost[0]}" has the {lost[1]} "{lost[2]}", and its row of '
                "table names is gone; restore the ledger from a backup, or run the pipeline again "
                "over its source"
            )

    def put(self, table: SqlTable, rows: Iterable[Row]) -> None:
        """Insert sealed rows; one with the same key is replaced."""
        rows = list(rows)
        if self.noted is not None:
            self.noted.changes |= {(table, row[: table.keys]): row for row in rows}
            if table is PAYLOADS:  # only what is small stays here
                rows = [row for row in rows if row[2] == IN_FILE]
            keys = {row[: table.keys] for row in rows}
            replaced = self.executemany(table.delete, keys).rowcount if keys else 0
            self.noted.grown[table.name] += len(keys) - replaced
        self.executemany(table.insert, rows)

    def put_row(
        self, table: SqlTable, *values: int | str | None, packed: Packed | None = None
    ) -> None:
        """Seal one row, as `SqlTable.seal_row`, and insert it."""
        self.put(table, [table.seal_row(*values, packed=packed)])

    def remove(self, table: SqlTable, clause: str, values: Sequence[Any] = ()) -> int:
        """Delete rows; how many."""
        if self.noted is None:
            return self.execute(f"DELETE FROM {table.name} {clause}", values).rowcount
        names = ", ".join(table.columns[: table.keys])
        gone = self.execute(f"DELETE FROM {table.name} {clause} RETURNING {names}", values)
        keys = gone.fetchall()
        self.noted.changes |= dict.fromkeys((table, key) for key in keys)
        self.noted.grown[table.name] -= len(keys)
        return len(keys)

    def give_up_files(self, where: str, values: Sequence[Any]) -> None:
        """Note that the files of these payloads will be named by nobody: their rows go now."""
        statement = (
            f"SELECT {PAYLOADS.all_columns}, (SELECT pipeline FROM names WHERE id = (SELECT "
            f"summary FROM pieces WHERE id = piece)) FROM payloads WHERE codec = {IN_FILE} "
            f"AND {where}"
        )
        for *row, pipeline in self.execute(statement, values).fetchall():
            try:
                _, stored = PAYLOADS.open_row(row, "the ledger")
            except LedgerError:
                continue  # damaged: which file it named is not known, and that one goes by its age
            self.put_row(GIVEN_UP, pipeline, stored.path, now_us())

    def next_id(self, table: SqlTable) -> int:
        """The next id of a table with AUTOINCREMENT; a row's checksum has to know it beforehand."""
        statement = "SELECT seq FROM sqlite_sequence WHERE name = ?"
        row = self.execute(statement, (table.name,)).fetchone()
        return row[0] + 1 if row else 1

    def next_number(self, table: SqlTable) -> int:
        """An id that no other history of this ledger has given: where the last commits were lost,
        or an older copy was put back, there are caches and followers that know those numbers."""
        return max(self.next_id(table), now_us())

    def grow_version(self) -> None:
        """Tell readers that something changed for them; versions are as `next_number`."""
        self.execute("UPDATE meta SET version = max(version + 1, ?)", (now_us(),))

    def meta(self) -> dict[str, Any]:
        """What stands in no table of rows: version, generation, and the tables' newest ids."""
        statement = "SELECT version, generation, closings_dropped FROM meta"
        version, generation, dropped = self.execute(statement).fetchone()
        ids = dict(self.execute("SELECT name, seq FROM sqlite_sequence ORDER BY name").fetchall())
        return {
            "version": version, "generation": generation, "closings_dropped": dropped, "ids": ids,
        }  # fmt: skip

    def set_meta(self, meta: Mapping[str, Any]) -> None:
        self.execute(
            "UPDATE meta SET version = ?, generation = ?, closings_dropped = ?",
            (meta["version"], meta["generation"], meta["closings_dropped"]),
        )
        self.execute("DELETE FROM sqlite_sequence")
        insert = "INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)"
        self.executemany(insert, list(meta["ids"].items()))
