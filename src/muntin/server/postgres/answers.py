"""What a statement that came by PostgreSQL's protocol is answered with: rows ready to be sent.

It runs where other statements do (`answering.py`): a process that can be killed.
"""

import contextlib
import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from muntin.arrow import pc
from muntin.errors import MuntinError, SelectError, how_many
from muntin.select.allowed import words
from muntin.select.catalog import OPEN, ForClause
from muntin.select.result import Result
from muntin.server.postgres.catalog import PostgresCatalog, is_catalog, is_plain
from muntin.server.postgres.catalog_tables import Columns
from muntin.server.postgres.copying import CopyFormat
from muntin.server.postgres.relations import ShownTable, relations, rewritten
from muntin.server.postgres.rows import data_rows, modifier_of, type_of
from muntin.server.postgres.settings import window_of
from muntin.server.reader import Reader

_RESULTS = 1_000  # of a trend, which tell its columns: it may have a hundred times as many
HEAD = struct.Struct(">I")
_NOT_SELECTS = words(
    "unknown_function unknown_column unknown_name not_allowed statement syntax character"
)
"""Codes of errors behind which there may be a question to the catalog."""


class PostgresAnswers:
    """Thread-safe where the reader is."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._catalog = PostgresCatalog(self._columns_of)
        self._known: tuple[Any, dict[str, ShownTable]] | None = None

    def answer(
        self,
        text: str,
        formats: Sequence[int],
        describe: Sequence[str] | None,
        copy: Mapping[str, Any] | None,
        window: str,
    ) -> Iterator[bytes]:
        """The head's length, the head as JSON (columns, rows, what it is true of), DataRows.

        `formats`: of the columns, as Bind has them. `describe`: the head alone, with the types of
        the first columns of these statements; 0 where one is wrong. `copy`: entries of a
        `CopyFormat`, of whose messages it is then. `window`: of tables without a clause: see
        `window_of`. Places of errors are those of `text`.
        """
        asked = window_of(window)
        result, said = self._result(text, asked)
        schema = result.table.schema
        if len(formats) > 1 and len(formats) != len(schema) and describe is None:
            given = f"{how_many(len(formats), 'format')} for {how_many(len(schema), 'column')}"
            raise SelectError(given, code="value", remedy="give one")
        if said and describe is None:
            said += _cut(result.table)
        types = [type_of(kind) for kind in schema.types]
        head: dict[str, Any] = {
            "columns": [
                [field.name, kind.oid, kind.size, modifier_of(field.type)]
                for field, kind in zip(schema, types, strict=True)
            ],
            "rows": len(result),
            "notice": said,
            "types": [self._type_of(probe, asked) for probe in describe or ()],
        }
        data = json.dumps(head).encode()
        yield HEAD.pack(len(data)) + data
        if describe is None:
            table = result.table
            yield from CopyFormat(**copy).messages(table) if copy else data_rows(table, formats)

    def _type_of(self, probe: str, window: ForClause) -> int:
        try:
            return type_of(self._result(probe, window)[0].table.schema.types[0]).oid
        except MuntinError:
            return 0

    def _result(self, text: str, window: ForClause) -> tuple[Result, list[str]]:
        """The rows, and what they are true of in sentences; none for the catalog."""
        infos = self._reader.known()
        if self._known is None or self._known[0] != infos:
            self._known = infos, relations(*infos)
        known = self._known[1]
        if is_catalog(text, known):
            return self._catalog.sql(text, known, window), []
        try:
            if is_plain(text):
                return self._reader.engine.sql(text, wide=True), []
            edited, more = rewritten(text, known, window)
            try:
                result = self._run(edited.text, window)
            except SelectError as error:
                raise error.moved(edited.before) from None
        except SelectError as refused:
            return self._told(text, known, window, refused), []
        return result, [said_of(result), *(note.message for note in result.notes), *more]

    def _told(
        self,
        text: str,
        known: Mapping[str, ShownTable],
        window: ForClause,
        refused: SelectError,
    ) -> Result:
        """What SELECT does not know (`version()`, `'orders'::regclass`, `FROM current_schema()`), a
        client asks the catalog. Raises SelectError: what SELECT said."""
        if refused.code in _NOT_SELECTS:
            with contextlib.suppress(SelectError):
                return self._catalog.sql(text, known, window)
        raise refused from None

    def _run(self, text: str, window: ForClause) -> Result:
        default = None if window == OPEN else window
        return self._reader.engine.sql(text, window=default, wide=True)

    def _columns_of(self, relation: ShownTable, window: ForClause) -> Columns:
        """Names and types, of a trend those of its newest results; none where the ledger cannot
        say."""
        try:
            clause = self._reader.newest(relation.source, _RESULTS)
            every = window.every_us
            if every is not None and window.kind != "open":  # the newest step says it too
                newest = max(every, relation.pane_us)
                window = ForClause("last", length_us=newest, every_us=every)
            text = f"SELECT * FROM {relation.ask} {clause} LIMIT 0"  # noqa: S608
            table = self._run(text, window).table
        except MuntinError:
            return ()
        return tuple(zip(table.schema.names, table.schema.types, strict=True))


def _cut(table: pa.Table) -> Iterator[str]:
    """Which columns clients cut that take texts as C does: PostgreSQL's own hold no U+0000."""
    for name, column in zip(table.column_names, table.columns, strict=True):
        if pa.types.is_string(column.type) and pc.any(pc.match_substring(column, "\0")).as_py():
            yield (
                f"column '{name[:64]}' has texts that psql shows up to U+0000, which they hold: "
                "POST /query shows them whole"
            )


def said_of(result: Result) -> str:
    """What an answer is true of, in a line."""
    about = result.particulars()
    parts = ["exact" if about["exact"] else "not exact"]
    if about["bounds"]:
        parts.append("bounds " + json.dumps(about["bounds"], sort_keys=True, default=str))
    for window in about["windows"]:
        covered = window["covered"]
        span = f"{covered['start']} to {covered['end']}" if covered else "nothing"
        parts.append(f"{window['source']} covers {span}")
    if about["watermark"]:
        parts.append(f"watermark {about['watermark']}")
    if about["late"]:
        parts.append(f"late events {about['late']}")
    if about["stale"]:
        parts.append("stale")
    return "; ".join(parts)
