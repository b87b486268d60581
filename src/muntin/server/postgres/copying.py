"""COPY (SELECT ...) TO STDOUT (FORMAT binary): how DuckDB, ADBC and others read many rows."""

from __future__ import annotations

from collections.abc import Sequence

from muntin.errors import SelectError
from muntin.server.postgres.text import Edit, Word

_HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)  # no flags, nothing more
_TRAILER = b"\xff\xff"
HEAD_BYTES = 5  # of a message: letter and length
END = b"d\0\0\0\x06" + _TRAILER


def begun(rows: bytes) -> bytes:
    """Messages of rows with the header before the first: as PostgreSQL does, in its message,
    since psycopg and DuckDB read it so. Of no rows at all, header and trailer in one."""
    if not rows:
        return b"d" + (4 + len(_HEADER + _TRAILER)).to_bytes(4) + _HEADER + _TRAILER
    length = int.from_bytes(rows[1:5]) + len(_HEADER)
    return b"d" + length.to_bytes(4) + _HEADER + rows[5:]


def copied(words: Sequence[Word]) -> tuple[Edit, ...]:
    """What leaves the SELECT that a COPY reads; nothing where a statement is no COPY.

    Raises
    ------
    SelectError
        It copies something else, or in another format.
    """
    if not words or not words[0].is_word("COPY"):
        return ()
    close = _closing(words[1:])
    rest = [word.value.upper().strip("'") for word in words[close + 2 :] if word.text not in "()"]
    if close <= 0 or rest[:2] != ["TO", "STDOUT"] or "BINARY" not in rest:
        raise SelectError(
            "COPY reads a SELECT, in binary",
            code="not_allowed",
            position=words[0].start,
            length=len(words[0].text),
            remedy="COPY (SELECT ...) TO STDOUT (FORMAT binary); psql --csv writes CSV",
        )
    return Edit(0, words[1].end, ""), Edit(words[close + 1].start, words[-1].end, "")


def _closing(words: Sequence[Word]) -> int:
    """Where the parenthesis closes that the words begin with; 0 where they do not."""
    depth = 0
    for at, word in enumerate(words):
        if word.kind == "sign":
            depth += {"(": 1, ")": -1}.get(word.text, 0)
        if depth <= 0:
            return at
    return 0
