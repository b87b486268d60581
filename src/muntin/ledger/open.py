"""From a ledger's URL to the ledger."""

import os
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit, urlunsplit

from muntin.errors import LedgerError, needs
from muntin.ledger.sqlite import SqliteLedger
from muntin.spec_secrets import shown_url

FILE_ENDINGS = (".db", ".sqlite", ".sqlite3")
DEADLINE_SECONDS = 10
DEADLINE_SECONDS_MAX = 3600
_FORMS = (
    'use "sqlite:///relative.db", "sqlite:////absolute.db", "postgresql://user@host/database", '
    '"redis://user@host:6379/0", "memory://name" or the path of a file that ends in '
    f"{', '.join(FILE_ENDINGS)}"
)


def open_ledger(url: str | os.PathLike[str], *, create: bool = True) -> SqliteLedger:
    """The ledger at a URL.

    Parameters
    ----------
    url : str or path
        "sqlite:///relative.db", "sqlite:////absolute.db" (%-escapes are decoded), a plain path
        that ends in .db, .sqlite or .sqlite3, or "memory://name": a temporary file; the same name
        in one process is the same ledger, and "memory://" is one of its own. A SQLite URL takes
        options: "?synchronous=full" (commits survive power loss, not only kill -9; one more fsync
        each) and "busy=SECONDS" (longest wait for another process's transaction, 10).
        "postgresql://user@host/database" is shared by machines: libpq's options, "schema=NAME"
        (muntin) and "deadline=SECONDS" (that a write waits for the server, 10); so is
        "redis://user@host:6379/0" ("rediss" with TLS): redis-py's options, "name", "deadline".
    create : bool
        Make the file where there is none. Readers pass False, so that a mistyped path is an error.

    Raises
    ------
    LedgerError
        Unknown scheme or option, a folder that does not exist, not a ledger, a newer version.
    """
    if isinstance(url, os.PathLike):
        return _open_sqlite(os.fspath(url), str(url), {}, create)
    if not isinstance(url, str) or not url or "\0" in url or len(url) > 4096:
        raise LedgerError(f"{ascii(url)[:80]} is not the URL of a ledger; {_FORMS}")
    scheme, separator, rest = url.partition("://")
    if not separator:
        if _is_path(url):
            return _open_sqlite(url, f"sqlite:///{url}", {}, create)
        raise LedgerError(f"{url!a} is not the URL of a ledger; {_FORMS}")
    if scheme == "memory":
        from muntin.ledger.temporary import temporary

        return temporary(rest)
    if scheme in ("postgresql", "postgres", "redis", "rediss"):
        return _open_shared(url, create, redis=scheme.startswith("redis"))
    if scheme in ("http", "https"):
        raise LedgerError(f"{shown_url(url)!a} is a server, not a ledger: muntin.connect asks it")
    if scheme != "sqlite":
        raise LedgerError(
            f"there is no ledger of kind {ascii(scheme)[:40]} in {shown_url(url)!a}; {_FORMS}"
        )
    location, _, query = rest.partition("?")
    if not location.startswith("/") or len(location) < 2:
        raise LedgerError(f"{url!a} names no file: a SQLite URL has three slashes; {_FORMS}")
    return _open_sqlite(unquote(location[1:]), url, _options(query, url), create)


def absolute(url: str) -> str:
    """The same ledger for a process that has another working folder."""
    if url.startswith("sqlite:///"):
        path, mark, options = url.removeprefix("sqlite:///").partition("?")
    elif _is_path(url):
        path, mark, options = _escaped(url), "", ""
    else:
        return url
    full = os.path.normpath(os.path.join(_escaped(os.getcwd()), path))
    return f"sqlite:///{full}{mark}{options}"


def _is_path(url: str) -> bool:
    others = ("sqlite:", "memory:", "file:")
    return url.endswith(FILE_ENDINGS) and "://" not in url and not url.startswith(others)


def _escaped(path: str) -> str:
    """As a URL has it: what would be an escape, or begin the options."""
    return path.replace("%", "%25").replace("?", "%3F")


def _open_sqlite(path: str, url: str, options: dict[str, Any], create: bool) -> SqliteLedger:
    if "\0" in path:
        raise LedgerError(f"{url!a} has a NUL in its path; correct the path")
    return SqliteLedger(Path(path), create=create, url=url, **options)


def _open_shared(url: str, create: bool, *, redis: bool) -> SqliteLedger:
    """Some of the URL's options are ours; the others are the client library's."""
    from muntin.ledger.shared import SharedLedger

    shown = shown_url(url)
    try:
        parts = urlsplit(url)
        for host in parts.netloc.rpartition("@")[2].split(","):  # libpq takes several
            _ = urlsplit(f"//{host}").port
    except ValueError as problem:
        raise LedgerError(f"{shown} is not the URL of a ledger: {problem}") from None
    options = parse_qsl(parts.query, keep_blank_values=True)
    own = "name" if redis else "schema"
    mine = {option: value for option, value in options if option in (own, "deadline")}
    theirs = [(option, value) for option, value in options if option not in mine]
    plain = urlunsplit(parts._replace(query=urlencode(theirs, quote_via=quote)))
    said = mine.get("deadline", str(DEADLINE_SECONDS))
    if not (said.isascii() and said.isdigit() and 1 <= int(said[:9]) <= DEADLINE_SECONDS_MAX):
        raise LedgerError(f"{shown}: deadline={said!a} must be 1 to {DEADLINE_SECONDS_MAX} seconds")
    deadline = float(said)
    if redis:
        needs("redis", f"the ledger {shown}")
        from muntin.ledger.redis import NAME, RedisStore

        store = partial(RedisStore, plain, shown, mine.get(own, NAME), deadline)
    else:
        needs("postgres", f"the ledger {shown}", "psycopg")
        from muntin.ledger.postgres import SCHEMA, PostgresStore

        store = partial(PostgresStore, plain, shown, mine.get(own, SCHEMA))
    return SharedLedger(store, create=create, deadline=deadline, address=url)


def _options(query: str, url: str) -> dict[str, Any]:
    options: dict[str, Any] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name == "synchronous" and value in ("normal", "full"):
            options["synchronous"] = value
        elif name == "busy" and value.isascii() and value.isdigit() and len(value) < 6:
            options["busy_seconds"] = float(value)
        else:
            raise LedgerError(
                f"{url!a}: there is no option {name!a}={value!a}; there are "
                "synchronous=normal|full and busy=SECONDS"
            )
    return options
