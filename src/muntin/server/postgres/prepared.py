"""What a client has prepared and bound, in bounded memory."""

from __future__ import annotations

from typing import Any

from muntin.server.limits import KIB
from muntin.server.postgres.catalog import STATEMENT_BYTES_MAX
from muntin.server.postgres.literals import literals
from muntin.server.postgres.portal import Portal, Prepared, prepared
from muntin.server.postgres.reports import Refusal
from muntin.server.postgres.text import parameters_of, statements_of, words_of

PREPARED_MAX, PREPARED_BYTES_MAX = 512, 1024 * KIB
PORTALS_MAX = 8  # each may hold an answer
PARAMETERS_MAX = 1_000


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
            raise Refusal("54000", f"at most {PARAMETERS_MAX} parameters")
        parts = statements_of(within_limit(message.query))
        if len(parts) > 1:
            raise Refusal("42601", "only one statement at a time can be prepared")
        nbytes = sum(len(p.text) for p in self.prepared.values())
        if len(self.prepared) >= PREPARED_MAX or nbytes > PREPARED_BYTES_MAX:
            raise Refusal("54000", "too many prepared statements", "close some: DEALLOCATE ALL")
        if parameters_of(words_of(message.query)) > PARAMETERS_MAX:
            raise Refusal("54000", f"at most {PARAMETERS_MAX} parameters")
        text = message.query if parts else ""
        self.prepared[name] = prepared(text, message.param_types)

    def bind(self, message: Any) -> Portal | None:
        """A statement with its parameters; the portal that had its name, to be released."""
        known = self.prepared.get(message.statement)
        if known is None:
            raise Refusal("26000", f"there is no statement {message.statement[:64]!r}")
        if len(message.param_values) != len(known.types):
            raise Refusal(
                "08P01",
                f"{len(message.param_values)} parameters, {len(known.types)} in the statement",
            )
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
