"""What a client has set. Little of it has an effect: SHOW and RESET tell of it.

`muntin.window` has: which window is read of a table without a clause, as a whole or by steps. Tools
that write their own SQL, and parse what their users write, know no FOR. And `statement_timeout`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from muntin.errors import SelectError
from muntin.select.catalog import OPEN, ForClause
from muntin.select.limits import Limits
from muntin.select.parser import parse
from muntin.select.syntax import show, show_window, text_literal
from muntin.server.postgres.catalog_tables import SETTINGS
from muntin.server.postgres.reports import Refusal
from muntin.server.postgres.text import Word, words_of

SETTINGS_MAX, NAME_CHARACTERS_MAX, VALUE_CHARACTERS_MAX = 100, 64, 256
_NAMES = {name.lower(): name for name in SETTINGS}
_OWN = "application_name"
_REPORTED = [*SETTINGS][: 1 + [*SETTINGS].index(_OWN)]
_WINDOW, _TIMEOUT = "muntin.window", "statement_timeout"
_UNITS_MS = {
    "us": 0.001,
    "ms": 1,
    "": 1,
    "s": 1_000,
    "min": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
}
_LENGTH = re.compile(r"(\d{1,10}(?:\.\d{1,9})?) *([a-z]*)", re.ASCII)
_OF_STARTUP = ("user", "database", "replication", "options")
"""What a startup message says beside settings."""
_OPTION = re.compile(r"(?<!\S)(?:-c\s*|--)([\w.-]+)=((?:\\.|[^\s\\])+)")
_QUIET = ("warning", "error", "log", "fatal", "panic")
_ALSO = {"transaction_isolation_level": "transaction_isolation", "time_zone": "timezone"}


class SessionSettings:
    """Of one connection. `given`: of the startup message. Raises Refusal: another encoding than
    UTF-8."""

    def __init__(self, given: Mapping[str, str]) -> None:
        encoding = given.get("client_encoding", "UTF8").strip("'\"").upper().replace("-", "")
        if encoding not in ("UTF8", "UNICODE", "AUTO"):
            raise Refusal("0A000", f"texts are in UTF-8, not in {encoding[:40]}")
        self._values = {name.lower(): value for name, value in SETTINGS.items()}
        for found in _OPTION.finditer(given.get("options", "")):
            value = re.sub(r"\\(.)", r"\1", found[2])  # a blank has a backslash before it
            self.set(found[1].lower().replace("-", "_"), value)
        for name, value in given.items():  # as asyncpg's server_settings and pgx send them
            if name not in _OF_STARTUP and not name.startswith("_pq_."):
                self.set(name.lower(), value)
        self.set(_OWN, given.get(_OWN, "")[:64])
        self._first = dict(self._values)

    @property
    def is_quiet(self) -> bool:
        """Whether notices are not to be sent."""
        return self._values.get("client_min_messages", "").lower() in _QUIET

    @property
    def window(self) -> str:
        """See `window_of`."""
        return self._values[_WINDOW]

    @property
    def timeout_seconds(self) -> float | None:
        """After which a statement is cancelled; None: after the server's own."""
        return timeout_of(self._values[_TIMEOUT])

    def reported(self) -> Iterator[tuple[str, str]]:
        """What a client is told at the start."""
        return ((name, self._values[name.lower()]) for name in _REPORTED)

    def set(self, name: str, value: str) -> None:
        """What is fixed here stays as it is. Raises Refusal: no window, or no length of time."""
        fixed = name in _NAMES and name not in (_OWN, _WINDOW, _TIMEOUT)
        if fixed or len(name) > NAME_CHARACTERS_MAX:
            return
        if name == _WINDOW:
            window_of(value)
        if name == _TIMEOUT:
            timeout_of(value)
        if name in self._values or len(self._values) < SETTINGS_MAX:
            self._values[name] = value[:VALUE_CHARACTERS_MAX]

    def reset(self, name: str) -> None:
        """To what it was at the start; "": all of them."""
        kept = {n: value for n, value in self._values.items() if name not in ("", n)}
        self._values = {**self._first, **kept}

    def shown(self, text: str) -> str:
        """SHOW name, or ALL, as a SELECT; any other text as it is. Raises SelectError: there is no
        such setting."""
        words = words_of(text)
        if len(words) < 2 or not words[0].is_word("SHOW") or words[1].is_word("TABLES"):
            return text
        if words[1].is_word("ALL"):
            return " UNION ALL ".join(
                f"SELECT {text_literal(_NAMES.get(name, name))} AS name, "
                f"{text_literal(value)} AS setting"
                for name, value in self._values.items()
            )
        dotted = any(word.text == "." for word in words)
        name = ("." if dotted else "_").join(word.plain for word in words[1:] if word.is_name)
        name = _ALSO.get(name, name)
        if name not in self._values:
            remedy = "there are: " + ", ".join(_NAMES.get(n, n) for n in self._values)
            raise words[1].wrong(f"there is no setting {name[:64]}", "value", remedy)
        return f'SELECT {text_literal(self._values[name])} AS "{name}"'


@lru_cache(maxsize=64)
def window_of(setting: str) -> ForClause:
    """What tables without a clause are asked for: ALL, OPEN or LAST 15 minutes, also EVERY 1 hour
    of it. Raises Refusal: it is none of these."""
    try:
        statement = parse(f"SELECT 1 FROM x FOR {setting}", Limits())  # noqa: S608 (it is not run)
        (window,) = (item.window or OPEN for item in statement.items)
        whole = show(statement) == f"SELECT 1 FROM x FOR {show_window(window)}"  # noqa: S608
        if whole and window.kind in ("all", "open", "last"):
            return window
    except (SelectError, ValueError):
        pass
    said = f"{_WINDOW} is {setting[:60]!r}, which is no window"
    raise Refusal("22023", said, "write ALL, OPEN or LAST 15 minutes, or ALL EVERY 1 hour")


def timeout_of(setting: str) -> float | None:
    """Seconds of 500 (milliseconds) or 5s; None of 0. Raises Refusal: it is none of these."""
    found = _LENGTH.fullmatch(setting.strip())
    if found is None or found[2] not in _UNITS_MS:
        said = f"{_TIMEOUT} is {setting[:60]!r}, which is no length of time"
        raise Refusal("22023", said, "write 500 (milliseconds) or '5s'; 0 is none")
    return float(found[1]) * _UNITS_MS[found[2]] / 1_000 or None


def named(words: Sequence[Word]) -> str:
    """The setting with whose name words begin: one word, or several between points."""
    end = 1
    while [word.text for word in words[end : end + 1]] == ["."]:
        end += 2
    return "".join(word.plain for word in words[:end])


def setting_of(words: Sequence[Word]) -> tuple[str, str]:
    """Name and value of SET; "" where it sets nothing that is kept (a transaction's way, a role).
    Raises SelectError: another encoding than UTF-8."""
    rest = [word for word in words[1:] if not word.is_word("SESSION", "LOCAL")]
    name = named(rest) if rest else ""
    at = next((at for at, word in enumerate(rest) if word.is_word("TO", "=")), len(rest))
    value = "".join(word.plain for word in rest[at + 1 :])
    if name == "names":
        name, value = "client_encoding", rest[-1].plain
    # asyncpg says 'utf-8' in quotes, which a pool in between quotes once more
    if name == "client_encoding" and "".join(filter(str.isalnum, value)).upper() not in (
        "UTF8", "UNICODE", "DEFAULT",
    ):  # fmt: skip
        said = f"texts are in UTF-8, not in {value[:40]}"
        raise rest[0].wrong(said, "not_allowed", "SET client_encoding TO 'UTF8'")
    return (name, value) if value else ("", "")
