"""URLs of stores: our own options taken out, and passwords never shown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

from muntin.errors import LedgerError
from muntin.spec_secrets import shown_url

DEADLINE_SECONDS = 10.0
DEADLINE_SECONDS_MAX = 3600


class Address(NamedTuple):
    """A store's URL."""

    url: str
    """Without our own options: what the client library takes."""
    shown: str
    """Without a password."""
    deadline: float
    """Seconds that a write waits for the store."""
    own: Mapping[str, str]
    """Our other options."""


def read_address(url: str, *own: str) -> Address:
    """Take a URL apart; `own` names options that are ours, beside `deadline`.

    Raises
    ------
    LedgerError
        It is no URL, or the deadline is no number of seconds.
    """
    try:
        parts = urlsplit(url)
        for host in parts.netloc.rpartition("@")[2].split(","):  # libpq takes several
            _ = urlsplit(f"//{host}").port
    except ValueError as problem:
        raise LedgerError(f"{shown_url(url)} is not the URL of a ledger: {problem}") from None
    options = parse_qsl(parts.query, keep_blank_values=True)
    mine = {name: value for name, value in options if name in own}
    deadline = next((value for name, value in options if name == "deadline"), None)
    if deadline is not None and not (
        deadline.isascii() and deadline.isdigit() and 1 <= int(deadline[:9]) <= DEADLINE_SECONDS_MAX
    ):
        raise LedgerError(
            f"{shown_url(url)}: deadline={deadline!a} must be 1 to {DEADLINE_SECONDS_MAX} seconds"
        )
    theirs = [(name, value) for name, value in options if name not in {*own, "deadline"}]
    plain = urlunsplit(parts._replace(query=urlencode(theirs, quote_via=quote)))
    seconds = DEADLINE_SECONDS if deadline is None else float(deadline)
    return Address(plain, shown_url(url), seconds, mine)
