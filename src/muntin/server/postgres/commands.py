"""What clients say beside SELECT: settings and transactions, of which there is nothing to do, and
cursors, by which they read many rows.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from muntin.server.postgres.settings import named, setting_of
from muntin.server.postgres.text import Edit, Word, words_of

_TAGS = {"START": "BEGIN", "END": "COMMIT", "ABORT": "ROLLBACK", "CLOSE": "CLOSE CURSOR"}
_TAGS |= {tag: tag for tag in ("SET", "RESET", "BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT",
                               "RELEASE", "DISCARD", "DEALLOCATE", "UNLISTEN")}  # fmt: skip

_WRITES = frozenset(
    ("INSERT", "UPDATE", "DELETE", "MERGE", "CREATE", "ALTER", "DROP", "TRUNCATE", "GRANT",
     "REVOKE", "COMMENT")
)  # fmt: skip


def write_of(text: str) -> str:
    """INSERT and the like, with which a statement begins; "" for none."""
    first = next((word.value for word in words_of(text)[:1] if word.kind == "name"), "")
    return first if first in _WRITES else ""


@dataclass(frozen=True, slots=True)
class SessionCommand:
    """A command without rows. `tag`: its kind, as CommandComplete says it. `name`: of the setting,
    prepared statement, cursor or savepoint that it is about, "" for all. `value`: of a setting."""

    tag: str
    name: str = ""
    value: str = ""


def command_of(text: str) -> SessionCommand | None:
    """The command in a text; None where it is a question. Raises SelectError: no such setting."""
    words = words_of(text)
    tag = _TAGS.get(words[0].value) if words and words[0].kind == "name" else None
    if tag is None:
        return None
    if tag == "SET":
        return SessionCommand(tag, *setting_of(words))
    if tag == "RESET":
        return SessionCommand(tag, "" if words[-1].is_word("ALL") else named(words[1:]))
    if tag == "DISCARD":
        return SessionCommand(f"{tag} {words[-1].value}")
    if tag in ("DEALLOCATE", "CLOSE CURSOR"):
        names = [w for w in words[1:] if w.is_name and not w.is_word("PREPARE")]
        everything = not names or names[0].is_word("ALL")
        return SessionCommand(tag, "" if everything else names[0].plain)
    if tag == "ROLLBACK" and any(word.is_word("TO") for word in words):
        return SessionCommand(tag, words[-1].plain)
    return SessionCommand(tag)


@dataclass(frozen=True, slots=True)
class Cursor:
    """DECLARE, or FETCH. `select`: edits that leave the SELECT of a DECLARE. `rows`: how many to
    fetch; 0: all. `hold`: whether it outlives its transaction."""

    name: str
    select: tuple[Edit, ...] = ()
    rows: int = 0
    hold: bool = False


_ROWS = re.compile("[0-9]{1,18}")


def cursor_of(words: Sequence[Word]) -> Cursor | None:
    """Raises SelectError where a cursor is to go another way than forward."""
    begin = [word.value for word in words[:1]]
    start = next((word for word in words if word.is_word("FOR")), None)
    if begin == ["DECLARE"] and start is not None and len(words) > 3:
        options = [word.value for word in words[2 : words.index(start)]]
        for number, option in enumerate(options):
            if option == "BINARY" or (option == "SCROLL" and options[number - 1] != "NO"):
                said = f"a cursor goes forward, in its client's formats: {option} is refused"
                raise words[2 + number].wrong(said, "not_allowed", "DECLARE name CURSOR FOR ...")
        hold = options[-2:] == ["WITH", "HOLD"]
        return Cursor(words[1].plain, (Edit(0, start.end, ""),), hold=hold)
    if begin != ["FETCH"] or len(words) < 2:
        return None
    between = [word for word in words[1:-1] if not word.is_word("FORWARD", "FROM", "IN")]
    said = " ".join(word.value for word in between)
    rows = {"": "1", "NEXT": "1", "ALL": "0"}.get(said, said)
    if not _ROWS.fullmatch(rows) or said == "0":
        remedy = "FETCH 100 FROM name, or FETCH ALL FROM name"
        raise words[1].wrong("a cursor goes forward only", "not_allowed", remedy)
    return Cursor(words[-1].plain, rows=int(rows))
