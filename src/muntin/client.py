"""`muntin.connect`: ask and follow a server from Python."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Self, cast
from urllib.parse import urlsplit

import pyarrow as pa
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus

from muntin.errors import BadArgument, LedgerError, MuntinError, SelectError
from muntin.select.result import Result, WindowRead
from muntin.times import instant_us

if TYPE_CHECKING:
    from websockets.sync.client import ClientConnection

ARROW = "application/vnd.apache.arrow.stream"
TIMEOUT_SECONDS = 30.0
RETRY_SECONDS_MAX = 10.0
PUSH_BYTES_MAX = 1 << 20  # a server pushes at most 256 KiB of characters
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


class ServerError(MuntinError):
    """The server refused, or cannot be reached.

    Attributes
    ----------
    code : str
        Stable identifier, for programs.
    """

    def __init__(self, message: str, code: str = "") -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class RemoteWindow:
    """What one FROM item was asked for and what it covers, as the server says it."""

    source: str
    asked: str
    covered: tuple[int, int] | None
    """Microseconds since 1970 UTC."""

    def to_dict(self) -> dict[str, Any]:
        from muntin.select.window_clause import show_time

        covered = None
        if self.covered is not None:
            covered = {"start": show_time(self.covered[0]), "end": show_time(self.covered[1])}
        return {"source": self.source, "asked": self.asked, "covered": covered}


@dataclass(frozen=True, slots=True)
class Update:
    """One pushed message.

    Attributes
    ----------
    result : Result or None
        None where the server could not compute it (then `error`), or the topic has none.
    window : mapping or None
        The closed window: summary, start, end, reason, revision, events, late, fill.
    seq : int or None
        Counts the feed's messages in one life of the server; None for a window that came from
        the ledger. What a gap leaves out are moves that a newer one replaced.
    after : str or None
        Place to go on from, in `subscribe(after=...)`, also after the server was started anew.
    gap : mapping or None
        Closed windows that cannot be had any more: windows (how many, if known), start, end.
    state : mapping or None
        What the pipelines do, where that was asked for.
    """

    result: Result | None = None
    window: Mapping[str, Any] | None = None
    seq: int | None = None
    after: str | None = None
    error: Mapping[str, Any] | None = None
    gap: Mapping[str, Any] | None = None
    state: Mapping[str, Any] | None = None


class Client:
    """A Muntin server. Thread-safe; holds no connection but while it is asked.

    Parameters
    ----------
    url : str
        For example "http://127.0.0.1:8787".
    token : str, optional
        Where the server needs one. Beyond loopback it is sent over https only.
    """

    def __init__(self, url: str, token: str = "", *, timeout: float = TIMEOUT_SECONDS) -> None:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise BadArgument(f"{url!r} is no server: write for example http://127.0.0.1:8787")
        if token and parts.scheme == "http" and parts.hostname not in _LOOPBACK:
            raise BadArgument(f"{url} would send the token in the open: use https://")
        self.url = f"{parts.scheme}://{parts.netloc}"
        self._headers = {"authorization": f"Bearer {token}"} if token else {}
        self._timeout = timeout

    def sql(self, statement: str) -> Result:
        """Answer a SELECT; see docs/select.md.

        Raises
        ------
        SelectError
            The statement is wrong; points at the place.
        ServerError
            The server refused, or cannot be reached.
        """
        body = self._ask("/query", {"select": statement}, statement, accept=ARROW)
        table = pa.ipc.open_stream(body).read_all()
        about = json.loads((table.schema.metadata or {}).get(b"muntin", b"{}"))
        return _result(table.replace_schema_metadata(None), about)

    def summaries(self) -> dict[str, Any]:
        """What can be asked: {"summaries": [...], "queries": [...]}."""
        return json.loads(self._ask("/summaries"))

    def windows(self, summary: str | None = None, *, limit: int = 1000) -> list[dict[str, Any]]:
        """Closed windows, oldest first, in their newest revision."""
        from urllib.parse import urlencode

        given = {"limit": limit} | ({"summary": summary} if summary else {})
        return json.loads(self._ask(f"/windows?{urlencode(given)}"))["windows"]

    def state(self) -> dict[str, Any]:
        """What the pipelines do now."""
        return json.loads(self._ask("/state"))

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
        reconnect: bool = True,
    ) -> Subscription:
        """Follow a SELECT, or a standing query by name: its answers as they come.

        Parameters
        ----------
        on : {"window", "update"}
            "window": once for each window that closes (none is left out without a word).
            "update": as it moves; what is newer replaces what was not read yet.
        after : str, optional
            The `after` of the last update that was seen: closed windows since then come first.
        reconnect : bool
            Come back when the connection is lost, and go on where it was.

        Raises
        ------
        SelectError, ServerError
            The statement is wrong; the server refused, or cannot be reached.
        """
        if bool(statement) == bool(query):
            raise BadArgument("give subscribe a statement, or query=NAME of a standing query")
        topic = {"select": statement} if statement else {"query": query}
        wanted = {"type": "subscribe", "id": "s", "on": on, **topic}
        address = "ws" + self.url.removeprefix("http") + "/live"
        return Subscription(address, self._headers, wanted, after, reconnect, self._timeout)

    def watch(self, statement: str = "", *, query: str = "", on: Any = "update") -> Any:
        """A live view of a subscription for Jupyter; see `muntin.notebook.watch`."""
        from muntin.notebook import watch

        return watch(self.subscribe(statement, query=query, on=on))

    def close(self) -> None:
        """Nothing is held; here for `with`."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _command(self, action: str, summary: str) -> dict[str, Any]:
        given = {"action": action} | ({"summary": summary} if summary else {})
        return json.loads(self._ask("/commands", given))["answer"]

    def _ask(
        self,
        path: str,
        given: dict[str, Any] | None = None,
        statement: str = "",
        accept: str = "application/json",
    ) -> bytes:
        body = None if given is None else json.dumps(given).encode()
        headers = {**self._headers, "accept": accept, "content-type": "application/json"}
        request = urllib.request.Request(self.url + path, body, headers)  # noqa: S310 (http only)
        try:
            with urllib.request.urlopen(request, timeout=self._timeout) as answer:  # noqa: S310
                return answer.read()
        except urllib.error.HTTPError as refused:
            raise _refused(refused.code, refused.read(), statement) from None
        except OSError as problem:
            reason = getattr(problem, "reason", problem)
            raise ServerError(f"{self.url} does not answer: {reason}; is it running?") from None


class Subscription(Iterator[Update]):
    """Updates as they come; `next()` waits for one. Made by `Client.subscribe`.

    Attributes
    ----------
    after : str or None
        Place of the last closed window that was returned.
    """

    def __init__(
        self,
        address: str,
        headers: Mapping[str, str],
        wanted: dict[str, Any],
        after: str | None,
        reconnect: bool,
        timeout: float,
    ) -> None:
        self.after = after
        self._address = address
        self._headers = headers
        self._wanted = wanted
        self._reconnect = reconnect
        self._timeout = timeout
        self._closed = False
        self._leave = ExitStack()
        self._socket: ClientConnection | None = self._open()

    def __next__(self) -> Update:
        pause = 0.1
        while not self._closed:
            try:
                if self._socket is None:
                    self._socket = self._open()
                update = self._hear(json.loads(self._socket.recv()))
                if update is not None:
                    return update
            except (ConnectionClosed, ServerError) as lost:
                if self._closed:
                    break
                fatal = isinstance(lost, ServerError) and lost.code not in ("", "busy")
                if fatal or not self._reconnect:
                    raise ServerError(f"{self._address}: the connection was lost: {lost}") from None
                self._socket = None
                time.sleep(pause)
                pause = min(pause * 2, RETRY_SECONDS_MAX)
        raise StopIteration

    def close(self) -> None:
        """Leave; a `next()` in another thread ends."""
        self._closed = True
        self._leave.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _open(self) -> ClientConnection:
        """Connect, and wait for the server to agree."""
        from websockets.sync.client import connect as open_socket

        self._leave.close()
        opening = open_socket(
            self._address,
            additional_headers=self._headers,
            compression=None,
            max_size=PUSH_BYTES_MAX,
            open_timeout=self._timeout,
        )
        try:
            socket = self._leave.enter_context(opening)
        except InvalidStatus as refused:
            raise _refused(
                refused.response.status_code, bytes(refused.response.body or b"")
            ) from None
        except (OSError, TimeoutError, InvalidHandshake, EOFError) as problem:
            raise ServerError(f"{self._address} does not answer: {problem}") from None
        try:
            socket.send(json.dumps(self._wanted | ({"after": self.after} if self.after else {})))
            while True:
                message = json.loads(socket.recv(timeout=self._timeout))
                self._hear(message)
                if message["type"] == "subscribed":
                    return socket
        except (ConnectionClosed, TimeoutError) as lost:
            raise ServerError(f"{self._address}: the connection was lost: {lost}") from None
        except MuntinError:
            self._leave.close()
            raise

    def _hear(self, message: Mapping[str, Any]) -> Update | None:
        kind = message.get("type")
        if kind == "error":
            raise _error(message, self._wanted.get("select", ""))
        if kind == "subscribed":
            self.after = message.get("after", self.after)
        if kind not in ("result", "window", "gap"):
            return None
        update = _update(message)
        self.after = update.after or self.after
        return update


def connect(url: str, token: str = "") -> Client:
    """A client of a Muntin server.

    Parameters
    ----------
    url : str
        For example "http://127.0.0.1:8787".
    token : str, optional
        Where the server needs one.

    Examples
    --------
    >>> server = muntin.connect("http://127.0.0.1:8787")           # doctest: +SKIP
    >>> server.sql("SELECT origin, count FROM flights(origin)")     # doctest: +SKIP
    >>> for update in server.subscribe(query="worst", on="window"):  # doctest: +SKIP
    ...     print(update.window["start"], update.result)
    """
    return Client(url, token)


def _refused(status: int, body: bytes, statement: str = "") -> MuntinError:
    try:
        return _error(json.loads(body)["error"], statement)
    except (ValueError, KeyError, TypeError):
        return ServerError(f"the server answered HTTP {status}", str(status))


def _error(about: Mapping[str, Any], statement: str) -> MuntinError:
    code, message, remedy = about["code"], about["message"], about.get("remedy", "")
    if code == "ledger":
        return LedgerError(message)
    if statement and code not in ("busy", "token", "limit", "internal", "forbidden"):
        return SelectError(
            message,
            code=code,
            text=statement,
            position=about.get("position", 0),
            length=about.get("length", 0),
            remedy=remedy,
        )
    return ServerError(f"{message}; {remedy}" if remedy else message, code)


def _update(message: Mapping[str, Any]) -> Update:
    if message["type"] == "gap":
        return Update(gap={name: message[name] for name in ("windows", "start", "end")})
    given = message.get("result")
    return Update(
        result=None if given is None else _result(_table(given), given),
        window=message.get("window"),
        seq=message.get("seq"),
        after=message.get("after"),
        error=message.get("error"),
        state=message.get("state"),
    )


def _table(given: Mapping[str, Any]) -> pa.Table:
    """Rows that came as JSON; their types are what JSON keeps of them, times are text."""
    names = given["columns"]
    columns = list(zip(*given["rows"], strict=True)) or [()] * len(names)
    arrays = [pa.array(list(column)) for column in columns]
    return pa.Table.from_arrays(arrays, names=names)


def _result(table: pa.Table, about: Mapping[str, Any]) -> Result:
    windows = [
        RemoteWindow(w["source"], w["asked"], _covered(w["covered"])) for w in about["windows"]
    ]
    return Result(
        table,
        windows=cast("tuple[WindowRead, ...]", tuple(windows)),
        watermark=None if about["watermark"] is None else instant_us(about["watermark"]),
        revision=about["revision"],
        exact=about["exact"],
        bounds=about["bounds"],
        late=about["late"],
        stale=about["stale"],
    )


def _covered(covered: Mapping[str, str] | None) -> tuple[int, int] | None:
    if covered is None:
        return None
    return instant_us(covered["start"]), instant_us(covered["end"])
