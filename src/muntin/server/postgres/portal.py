"""What a client has prepared and bound, in bounded memory, and how far its rows have been sent."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pygwire.messages

from muntin.errors import how_many
from muntin.server.limits import KIB
from muntin.server.postgres.answers import HEAD
from muntin.server.postgres.commands import Cursor, SessionCommand, command_of, cursor_of
from muntin.server.postgres.copying import CopyFormat, copied
from muntin.server.postgres.literals import PARAMETERS_MAX, literals, types_of
from muntin.server.postgres.reports import Refusal
from muntin.server.postgres.rows import TYPES, formats_of
from muntin.server.postgres.text import (
    STATEMENT_BYTES_MAX,
    Edit,
    Edited,
    parameters_of,
    statements_of,
    with_parameters,
    words_of,
)
from muntin.server.statements import StoredAnswer

wire: Any = pygwire.messages  # its registry takes the types of the messages away


@dataclass
class Prepared:
    """A statement that was parsed."""

    text: str
    given: tuple[int, ...]
    """Types of its parameters, as the client says; 0: it does not."""
    types: tuple[int, ...]
    command: SessionCommand | None
    select: tuple[Edit, ...]
    """What leaves the SELECT whose rows a COPY writes."""
    copy: CopyFormat | None
    cursor: Cursor | None
    described: tuple[tuple[str, int], ...] | None = None
    """Its columns and their types, as they were told before there were parameters."""

    @property
    def has_rows(self) -> bool:
        """Whether it is answered by rows, which have a description."""
        declares = self.cursor is not None and bool(self.cursor.select)
        return bool(self.text) and self.command is None and not self.copy and not declares

    def bound(self, given: Sequence[str], formats: Sequence[int]) -> Portal:
        """With its parameters, as literals. Raises SelectError."""
        also = self.select or (self.cursor.select if self.cursor else ())
        edited = with_parameters(self.text, given, also)
        return Portal(self, edited, () if self.copy else tuple(formats))


def prepared(text: str, given: Sequence[int]) -> Prepared:
    """Raises SelectError, Refusal."""
    words = words_of(text)
    if parameters_of(words) > PARAMETERS_MAX:  # their numbers, of which one makes a list
        raise Refusal("54000", f"at most {PARAMETERS_MAX:,} parameters")
    types, command = types_of(text, given), command_of(text)
    return Prepared(text, tuple(given), types, command, *copied(words), cursor_of(words))


@dataclass(eq=False)
class Portal:
    """A statement with its parameters, and its answer once there is one."""

    prepared: Prepared
    edited: Edited
    formats: tuple[int, ...]
    answer: StoredAnswer | None = None
    head: dict[str, Any] = field(default_factory=dict)
    rows_sent: int = 0
    described: bool = False  # whether its client was told the types of these very rows
    held: bool = False  # whether it is a cursor that has outlived its transaction
    _pieces: AsyncIterator[bytes] = field(init=False, repr=False)
    _rest: bytes = b""

    async def begin(self) -> None:
        """Read the head of the answer."""
        assert self.answer is not None  # noqa: S101 (it has been asked)
        self._pieces = self.answer.pieces()
        data = b""
        async for piece in self._pieces:
            data += piece
            if len(data) >= HEAD.size and len(data) >= HEAD.size + HEAD.unpack_from(data)[0]:
                break
        end = HEAD.size + HEAD.unpack_from(data)[0]
        self.head = json.loads(data[HEAD.size : end])
        self._rest = data[end:]

    async def rows(self, most: int) -> AsyncIterator[bytes]:
        """Messages of the next rows: at most so many, all where it is 0."""
        wanted = most or self.head["rows"]
        wanted = min(wanted, self.head["rows"] - self.rows_sent)
        if not most:
            rest, self._rest = self._rest, b""
            yield rest
            async for piece in self._pieces:
                yield piece
            self.rows_sent += wanted
            return
        while wanted:
            count, end = _whole_rows(self._rest, wanted)
            if count:
                taken, self._rest = self._rest[:end], self._rest[end:]
                wanted -= count
                self.rows_sent += count
                yield taken
                continue
            async for piece in self._pieces:
                self._rest += piece
                break
            else:
                return


def _whole_rows(data: bytes, most: int) -> tuple[int, int]:
    count = at = 0
    while count < most and at + 5 <= len(data):
        end = at + 1 + int.from_bytes(data[at + 1 : at + 5])
        if end > len(data):
            break
        at, count = end, count + 1
    return count, at


def columns_of(head: dict[str, Any]) -> tuple[tuple[str, int], ...]:
    """Names and types, by the head of an answer."""
    return tuple((name, oid) for name, oid, *_ in head["columns"])


def check_described(portal: Portal) -> None:
    """Raises Refusal where rows have other columns, or types, than their client was told: it would
    read other values in their bytes."""
    found, told = columns_of(portal.head), portal.prepared.described
    if told is None:
        return
    # what a parameter is part of is named after its value
    fixed = str.isidentifier if portal.prepared.types else bool
    renamed = any(
        name != was and fixed(name) and fixed(was)
        for (name, _), (was, _) in zip(found, told, strict=False)
    )
    if renamed or len(found) != len(told):
        now, then = (", ".join(name[:64] for name, _ in each[:20]) for each in (found, told))
        raise Refusal(
            "0A000",
            f"it has the columns: {now}; it was described with {then}",
            "a summary has changed since: prepare the statement again",
        )
    for (name, oid), (_, was) in zip(found, told, strict=True):
        if oid != was:
            known = {kind.oid: kind.name for kind in TYPES}
            raise Refusal(
                "0A000",
                f"column '{name[:64]}' is {known[oid]}, and was described as {known[was]} before "
                "the parameters were given",
                "cast it to one type, for example to DECIMAL(38, 0) or DOUBLE",
            )


def row_description(head: dict[str, Any], formats: tuple[int, ...]) -> Any:
    """The message that describes the columns of an answer."""
    columns = head["columns"]
    each = formats_of(formats, len(columns))
    fields = [
        wire.FieldDescription(
            name=name.replace("\0", ""),
            type_oid=oid,
            type_size=size,
            type_modifier=modifier,
            format_code=form,
        )
        for (name, oid, size, modifier), form in zip(columns, each, strict=False)
    ]
    return wire.RowDescription(fields=fields)


PREPARED_MAX, PREPARED_BYTES_MAX = 512, 1024 * KIB
PORTALS_MAX = 8  # each may hold an answer


class PreparedStatements:
    """Of one connection."""

    def __init__(self) -> None:
        self.prepared: dict[str, Prepared] = {}
        self.portals: dict[str, Portal] = {}

    def parse(self, message: Any) -> None:
        """A statement to be bound later. Raises Refusal, SelectError."""
        name = message.statement
        if name and name in self.prepared:
            raise Refusal("42P05", f"the statement {name[:64]} exists already")
        if len(message.param_types) > PARAMETERS_MAX:
            raise Refusal("54000", f"at most {PARAMETERS_MAX:,} parameters")
        parts = statements_of(within_limit(message.query))
        if len(parts) > 1:
            raise Refusal("42601", "only one statement at a time can be prepared")
        nbytes = sum(len(p.text) for p in self.prepared.values())
        if len(self.prepared) >= PREPARED_MAX or nbytes > PREPARED_BYTES_MAX:
            raise Refusal("54000", "too many prepared statements", "close some: DEALLOCATE ALL")
        text = message.query if parts else ""
        self.prepared[name] = prepared(text, message.param_types)

    def bind(self, message: Any) -> Portal | None:
        """A statement with its parameters; the portal that had its name, to be released."""
        known = self.prepared.get(message.statement)
        if known is None:
            raise Refusal("26000", f"there is no statement {message.statement[:64]!r}")
        if len(message.param_values) != len(known.types):
            said = how_many(len(message.param_values), "parameter")
            raise Refusal("08P01", f"{said}, {len(known.types)} in the statement")
        if any(form not in (0, 1) for form in (*message.param_formats, *message.result_formats)):
            raise Refusal("08P01", "a format is 0 (text) or 1 (binary)")
        given = literals(message.param_values, message.param_formats, known.types)
        return self.keep(message.portal, known.bound(given, message.result_formats))

    def keep(self, name: str, portal: Portal) -> Portal | None:
        """Under this name alone; the portal that had it, to be released."""
        self.portals = {n: held for n, held in self.portals.items() if held is not portal}
        if name not in self.portals and len(self.portals) >= PORTALS_MAX:
            raise Refusal("54000", f"at most {PORTALS_MAX} portals at once", "close some")
        old = self.portals.pop(name, None)
        self.portals[name] = portal
        return old

    def portal(self, name: str) -> Portal:
        """Raises Refusal."""
        portal = self.portals.get(name)
        if portal is None:
            raise Refusal("34000", f"there is no portal {name[:64]!r}")
        return portal

    def cursor(self, name: str) -> Portal:
        """A portal that was answered when it was declared. Raises Refusal."""
        portal = self.portals.get(name)
        if portal is None or portal.answer is None:
            raise Refusal("34000", f"there is no cursor {name[:64]!r}", "DECLARE it first")
        return portal


def within_limit(text: str) -> str:
    """The text. Raises Refusal where it is too long for any statement."""
    if len(text.encode("utf-8", "replace")) > STATEMENT_BYTES_MAX:
        raise Refusal("54000", f"a statement has at most {STATEMENT_BYTES_MAX:,} bytes")
    return text
