"""COPY ... TO STDOUT: its options, and rows as text, CSV or binary."""

import re
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from muntin.arrow import pc
from muntin.server.postgres.rows import BINARY, COPY_DATA, TEXT, data_rows, lines, text_columns
from muntin.server.postgres.text import STRING, Edit, Words

_REMEDY = "COPY (SELECT ...) TO STDOUT (FORMAT csv, HEADER)"
_OPTIONS = "FORMAT text, csv, binary; HEADER, DELIMITER, NULL; of csv QUOTE, ESCAPE, FORCE_QUOTE *"
_TO_STDOUT = re.compile(r"TO STD(?:OUT|IN)(?: WITH)?")  # PHP's PDO writes STDIN for it
_OPTION = re.compile(
    rf"""(?:FORMAT\ )?['"]?(?P<format>BINARY|CSV|TEXT)['"]?
    | (?P<name>DELIMITER|NULL|QUOTE|ESCAPE|ENCODING)(?:\ AS)?\ (?P<value>{STRING})
    | HEADER(?:\ (?P<header>TRUE|ON|1|FALSE|OFF|0))?
    | (?P<force>FORCE[_\ ]QUOTE\ \*)
    | \(|\)|,""",
    re.VERBOSE | re.IGNORECASE,
)
_TEXT_DELIMITERS = re.compile(r"[^\\.a-z0-9\r\n]")  # of others PostgreSQL would not know the end
_CSV_DELIMITERS = re.compile(r"[^\r\n]")
_ESCAPES = {"\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\v": "\\v", "\f": "\\f"}
_ESCAPES |= {"\r": "\\r"}
_HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)  # of binary: no flags, nothing more
_TRAILER = b"\xff\xff"


@dataclass(frozen=True, slots=True)
class CopyFormat:
    """How the rows of a COPY are written; the entries are PostgreSQL's options."""

    format: str = "text"
    delimiter: str = "\t"
    null: str = "\\N"
    quote: str = '"'
    escape: str = '"'
    header: bool = False
    force: bool = False  # every value that is not null stands in quotes

    @property
    def overall(self) -> int:
        """The format's number in the protocol."""
        return BINARY if self.format == "binary" else TEXT

    def messages(self, table: pa.Table) -> Iterator[bytes]:
        """The rows as messages of COPY, many at once."""
        if self.format == "binary":
            yield from _binary(data_rows(table, [BINARY], COPY_DATA))
            return
        if self.header:
            names = [pa.array([name.replace("\0", "")]) for name in table.column_names]
            yield lines(self._written(names), COPY_DATA)
        for columns in text_columns(table):
            yield lines(self._written(columns), COPY_DATA)

    def _written(self, columns: Sequence[pa.Array]) -> pa.Array:
        """A line for each row."""
        put = self._quoted if self.format == "csv" else self._escaped
        fields = [pc.fill_null(put(column, len(columns) == 1), self.null) for column in columns]
        joined = pc.binary_join_element_wise(*fields, self.delimiter)
        return pc.binary_join_element_wise(joined, "\n", "")

    def _escaped(self, column: pa.Array, _: bool) -> pa.Array:
        escapes = {self.delimiter: "\\" + self.delimiter} | _ESCAPES
        for character in ("\\", *(escapes.keys() - {"\\"})):  # which the others bring
            column = pc.replace_substring(column, character, escapes[character])
        return column

    def _quoted(self, column: pa.Array, alone: bool) -> pa.Array:
        """`alone`: where `\\.` would end the rows."""
        marks = re.escape(self.delimiter + self.quote)
        also = [self.null, "\\."] if alone else [self.null]
        wanted = pc.or_(
            pc.match_substring_regex(column, f"[{marks}\r\n]"), pc.is_in(column, pa.array(also))
        )
        inside = column
        for character in dict.fromkeys((self.escape, self.quote)):
            inside = pc.replace_substring(inside, character, self.escape + character)
        quoted = pc.binary_join_element_wise(self.quote, inside, self.quote, "")
        return quoted if self.force else pc.if_else(wanted, quoted, column)


def copied(words: Words) -> tuple[tuple[Edit, ...], CopyFormat | None]:
    """What makes a SELECT of what a COPY reads, and its format; nothing where a statement is no
    COPY. Raises SelectError: it copies something else, or in a way that is not known."""
    if not words or not words[0].is_word("COPY"):
        return (), None
    close = words.pairs.get(1, 0)
    stdout = next((at for at, word in enumerate(words) if word.is_word("STDOUT", "STDIN")), 0)
    to = close + 1 if close else max(stdout - 1, 0)  # of what stands between: a table
    said = words.said(to, len(words))
    begun = _TO_STDOUT.match(said)
    if begun is None:
        message = "COPY reads a table or a SELECT, and writes to STDOUT"
        raise words[0].wrong(message, "not_allowed", _REMEDY)
    columns, end = "*", close or to
    opens = words.pairs.get(to - 1, 0)
    if opens and words[opens - 1].kind == "quoted" and "(" in words[opens - 1].text:
        columns, end = words.said(opens + 1, to - 1), opens  # of other names it is the key
    begin = Edit(0, words[1].end, "") if close else Edit(0, words[0].end, f"SELECT {columns} FROM")
    edits = begin, Edit(words[end].start, words[-1].end, "")
    try:
        return edits, _format_of(said[begun.end() :].strip())
    except ValueError as problem:
        raise words[close or to].wrong(f"COPY: {problem}", "not_allowed", _OPTIONS) from None


def _format_of(said: str) -> CopyFormat:
    """By the options behind STDOUT, as they stand in `Words.line`. Raises ValueError."""
    given: dict[str, Any] = {}
    at = 0
    while at < len(said):
        found = _OPTION.match(said, at)
        if found is None or said[found.end() : found.end() + 1].strip():
            raise ValueError(f"there is no option {said[at:].strip(' (,)')[:40]!r}")
        if found["format"]:
            given["format"] = found["format"].lower()
        elif found["name"]:
            given[found["name"].lower()] = found["value"][1:-1].replace("''", "'")
        elif found["force"]:
            given["force"] = True
        elif found[0].upper().startswith("HEADER"):
            given["header"] = (found["header"] or "TRUE").upper() in ("TRUE", "ON", "1")
        at = found.end() + 1
    if given.pop("encoding", "UTF8").upper().replace("-", "") not in ("UTF8", "UNICODE"):
        raise ValueError("texts are in UTF8")
    of_csv = given.get("format") == "csv"
    usual = {"delimiter": ",", "null": "", "escape": given.get("quote", '"')} if of_csv else {}
    how = CopyFormat(**usual | given)
    _check(how, given.keys() - {"format"})
    return how


def _check(how: CopyFormat, given: AbstractSet[str]) -> None:
    of_csv = how.format == "csv"
    allowed = {"binary": "", "text": "delimiter null header"}.get(how.format)
    alien = given - set(allowed.split()) if allowed is not None else ()
    if alien:
        raise ValueError(f"{min(alien).upper()} is not for the format {how.format}")
    for name in ("delimiter", "quote", "escape"):
        character = getattr(how, name)
        if len(character) != 1 or not character.isascii():
            raise ValueError(f"{name.upper()} is one character of ASCII, not {character!r}")
    if not (_CSV_DELIMITERS if of_csv else _TEXT_DELIMITERS).fullmatch(how.delimiter):
        raise ValueError(f"DELIMITER cannot be {how.delimiter!r}")
    if of_csv and how.delimiter == how.quote:
        raise ValueError("DELIMITER and QUOTE are the same")
    unclear = {"\r", "\n", how.delimiter, *(how.quote if of_csv else "")}
    if unclear & {*how.null}:
        raise ValueError(f"NULL cannot be {how.null!r}: a reader could not tell where it ends")


def _binary(rows: Iterator[bytes]) -> Iterator[bytes]:
    """Messages of rows with the header before the first: as PostgreSQL does, in its message, since
    psycopg and DuckDB read it so; and the trailer. Of no rows at all, both in one."""
    first = next(rows, b"")
    if not first:
        yield b"d" + (4 + len(_HEADER + _TRAILER)).to_bytes(4) + _HEADER + _TRAILER
        return
    yield b"d" + (int.from_bytes(first[1:5]) + len(_HEADER)).to_bytes(4) + _HEADER + first[5:]
    yield from rows
    yield b"d\0\0\0\x06" + _TRAILER
