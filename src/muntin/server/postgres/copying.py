"""COPY (SELECT ...) TO STDOUT (FORMAT binary): how DuckDB, ADBC and others read many rows."""

from __future__ import annotations

from collections.abc import Sequence

from muntin.server.postgres.text import Edit, Word, outside

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
    opens = words[1:] != [] and words[1].text == "("
    close = next((at for at, word in outside(words, 2) if word.text == ")"), 0) if opens else 0
    rest = [word.value.upper().strip("'") for word in words[close + 1 :] if word.text not in "()"]
    if not close or rest[:2] != ["TO", "STDOUT"] or "BINARY" not in rest:
        remedy = "COPY (SELECT ...) TO STDOUT (FORMAT binary); psql --csv writes CSV"
        raise words[0].wrong("COPY reads a SELECT, in binary", "not_allowed", remedy)
    return Edit(0, words[1].end, ""), Edit(words[close].start, words[-1].end, "")
