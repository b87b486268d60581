"""`muntin.connect`: ask and follow a server from Python."""

import json
import math
import time
import urllib.error
import urllib.request
from contextlib import AbstractContextManager
from http.client import HTTPException
from typing import Any, Literal
from urllib.parse import urlencode, urlsplit

import pyarrow as pa

from muntin.client.answers import ServerError, Update, refusal, understood
from muntin.client.subscription import Backoff, Subscription
from muntin.errors import BadArgument, SelectError
from muntin.hosts import is_loopback
from muntin.select.result import Result
from muntin.spec_secrets import shown_url

__all__ = ["Backoff", "Client", "ServerError", "Subscription", "Update", "connect"]
ARROW = "application/vnd.apache.arrow.stream"
TIMEOUT_SECONDS = 30.0
JSON = "application/json"


class _Stays(urllib.request.HTTPRedirectHandler):
    """A token goes to the server that it was given for, and to no other."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


_OPENER = urllib.request.build_opener(_Stays)


class Client(AbstractContextManager["Client"]):
    """A Muntin server. Thread-safe; holds no connection but while it is asked.

    Parameters
    ----------
    url : str
        For example "http://127.0.0.1:8787"; with the path that a proxy puts before it.
    token : str, optional
        Where the server needs one. Beyond loopback it is sent over https only.
    """

    def __init__(
        self, url: str, token: str = "", *, timeout: float | None = TIMEOUT_SECONDS
    ) -> None:
        try:
            parts = urlsplit(url if "://" in url else f"http://{url}")
            f"{parts.hostname or ''}{parts.port or ''}".encode("idna")
            parts.path.encode("ascii")
        except (TypeError, ValueError) as problem:  # of an address, a port, a name, a path
            raise BadArgument(f"{url!r} is no server: {problem}") from None
        shown = shown_url(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise BadArgument(
                f"{shown!r} is no server: write for example http://127.0.0.1:8787; a ledger is "
                "read by muntin.open"
            )
        if parts.username is not None:
            raise BadArgument(
                f"{shown!r}: a server has no users: leave out what stands before @, and give a "
                "token as connect(url, token)"
            )
        token = token.strip() if isinstance(token, str) else token or ""  # of a file
        if not (isinstance(token, str) and token.isascii() and token.isprintable()):
            raise BadArgument(
                "the token is none: it is no text, or holds a line break, or what is not ASCII"
            )
        if token and parts.scheme == "http" and not is_loopback(parts.hostname or ""):
            raise BadArgument(f"{shown} would send the token in the open: use https://")
        is_length = isinstance(timeout, int | float) and 0 < timeout < math.inf
        if timeout is not None and not is_length:
            raise BadArgument(f"timeout={timeout!r}: a number of seconds above 0")
        self.url = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"
        self._headers = {"authorization": f"Bearer {token}"} if token else {}
        self._timeout = timeout

    def __repr__(self) -> str:
        return f"<muntin.Client of {self.url}>"

    def sql(self, statement: str) -> Result:
        """Answer a SELECT; see docs/select.md.

        Raises
        ------
        SelectError
            The statement is wrong; points at the place.
        ServerError
            The server refused, or cannot be reached.
        """
        began = time.perf_counter()
        body = self._ask("/query", {"select": _text(statement)}, statement, accept=ARROW)
        with understood(self.url):
            table = pa.ipc.open_stream(body).read_all()
            about = json.loads((table.schema.metadata or {})[b"muntin"])
            table = table.replace_schema_metadata(None)
            return Result.of(table, about, time.perf_counter() - began)

    def summaries(self) -> dict[str, Any]:
        """What can be asked: {"summaries": [...], "queries": [...]}."""
        return self._read("/summaries")

    def windows(self, summary: str | None = None, *, limit: int = 1000) -> list[dict[str, Any]]:
        """Closed windows, oldest first, in their newest revision."""
        given = {"limit": limit} | ({"summary": summary} if summary else {})
        return self._read(f"/windows?{urlencode(given)}", entry="windows")

    def state(self) -> dict[str, Any]:
        """What the pipelines do now."""
        return self._read("/state")

    def slow_down(self, summary: str = "") -> dict[str, Any]:
        """Double the length of a summary's windows, up to its limit; what was done."""
        return self._command("slow_down", summary)

    def resume(self, summary: str = "") -> dict[str, Any]:
        """Give windows their usual length again; what was done."""
        return self._command("resume", summary)

    def subscribe(
        self,
        statement: str = "",
        *,
        query: str = "",
        on: Literal["window", "update"] = "update",
        after: str | None = None,
    ) -> Subscription:
        """Follow a SELECT, or a standing query by name: its answers as they come.

        Parameters
        ----------
        on : {"window", "update"}
            "window": once for each window that closes (none is left out without a word).
            "update": as it moves; what is newer replaces what was not read yet.
        after : str, optional
            The `after` of the last update that was seen: closed windows since then come first.

        Raises
        ------
        SelectError, ServerError
            The statement is wrong; the server refused, or cannot be reached.
        """
        if bool(statement) == bool(query):
            raise BadArgument("give subscribe a statement, or query=NAME of a standing query")
        topic = {"select": _text(statement)} if statement else {"query": query}
        wanted = {"type": "subscribe", "id": "s", "on": on, **topic}
        address = "ws" + self.url.removeprefix("http") + "/live"
        return Subscription(address, self._headers, wanted, after, self._timeout)

    def watch(self, statement: str = "", *, query: str = "", on: Any = "update") -> Any:
        """A live view of a subscription for Jupyter; see `muntin.notebook.watch`."""
        from muntin.notebook import watch

        return watch(self.subscribe(statement, query=query, on=on))

    def close(self) -> None:
        """Nothing is kept open; here for `with`."""

    def __exit__(self, *_: object) -> None:
        self.close()

    def _command(self, action: str, summary: str) -> dict[str, Any]:
        given = {"action": action} | ({"summary": summary} if summary else {})
        return self._read("/commands", given, entry="answer")

    def _read(self, path: str, given: dict[str, Any] | None = None, entry: str = "") -> Any:
        said = self._ask(path, given)
        with understood(self.url):
            found = json.loads(said)
            return found[entry] if entry else found

    def _ask(
        self,
        path: str,
        given: dict[str, Any] | None = None,
        statement: str | None = None,
        accept: str = JSON,
    ) -> bytes:
        body = None if given is None else json.dumps(given).encode()
        headers = {**self._headers, "accept": accept, "content-type": JSON}
        request = urllib.request.Request(self.url + path, body, headers)  # noqa: S310 (http only)
        try:
            try:
                with _OPENER.open(request, timeout=self._timeout) as answer:
                    found, kind = answer.read(), answer.headers.get_content_type()
            except urllib.error.HTTPError as refused:
                if elsewhere := refused.headers.get("location"):
                    raise ServerError(
                        f"{self.url} leads to {elsewhere[:200]!r}: connect there"
                    ) from None
                raise refusal(refused.code, refused.read(), statement) from None
        except (OSError, HTTPException) as problem:
            reason = getattr(problem, "reason", problem)
            raise ServerError(f"{self.url} does not answer: {reason}; is it running?") from None
        if kind != accept:
            raise ServerError(f"{self.url} is no Muntin server: it answered with {kind[:80]}")
        return found


def connect(url: str, token: str = "", *, timeout: float | None = TIMEOUT_SECONDS) -> Client:
    """A client of a Muntin server.

    Parameters
    ----------
    url : str
        For example "http://127.0.0.1:8787"; with the path that a proxy puts before it.
    token : str, optional
        Where the server needs one.
    timeout : float or None
        Seconds that an answer is waited for; None: however long it takes.

    Examples
    --------
    >>> server = muntin.connect("http://127.0.0.1:8787")           # doctest: +SKIP
    >>> server.sql("SELECT origin, count FROM flights(origin)")     # doctest: +SKIP
    >>> for update in server.subscribe(query="worst", on="window"):  # doctest: +SKIP
    ...     print(update.window["start"], update.result)
    """
    return Client(url, token, timeout=timeout)


def _text(statement: str) -> str:
    if not isinstance(statement, str):
        raise SelectError(f"a statement is text, not {type(statement).__name__}")
    return statement
