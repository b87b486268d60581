"""What a server says, as Python values: answers, updates, errors."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from typing import Any

import pyarrow as pa

from muntin.errors import LedgerError, MuntinError, SelectError
from muntin.select.result import Result
from muntin.select.values import typed_column

NO_FAULT_OF_A_STATEMENT = ("busy", "token", "limit", "internal", "forbidden", "message")


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

    def _repr_html_(self) -> str:
        head = ""
        if self.window is not None:
            about = "{summary}: {start} to {end}, {reason}, revision {revision}"
            head = f"<p>{escape(about.format_map(self.window))}</p>"
        if self.result is not None:
            return head + self.result._repr_html_()
        rest = self.error or self.gap or self.state
        return head + (f"<pre>{escape(str(dict(rest)))}</pre>" if rest else "")


@contextmanager
def understood(url: str) -> Iterator[None]:
    """What a server said is read in this block. Raises ServerError: it is not what a Muntin server
    of this version says."""
    try:
        yield
    except (ServerError, SelectError, LedgerError):
        raise
    except (
        ValueError, LookupError, TypeError, AttributeError, RecursionError, pa.ArrowException
    ) as no:  # fmt: skip
        raise ServerError(
            f"{url} is no Muntin server, or of another version than this client: it said what "
            f"cannot be read ({type(no).__name__}: {str(no)[:200]})",
            "protocol",
        ) from None


def refusal(status: int, body: bytes, statement: str | None = None) -> MuntinError:
    """The error in an HTTP answer; a path or a name of the server is no fault of a statement."""
    try:
        return error_of(json.loads(body)["error"], statement if status == 400 else None)
    except (ValueError, KeyError, TypeError):
        return ServerError(f"the server answered HTTP {status}", str(status))


def error_of(about: Mapping[str, Any], statement: str | None) -> MuntinError:
    """An error as the server says it; one of a statement points at its place."""
    code, message, remedy = about["code"], about["message"], about.get("remedy", "")
    if code == "ledger":
        return LedgerError(message)
    if statement is not None and code not in NO_FAULT_OF_A_STATEMENT:
        return SelectError(
            message,
            code=code,
            text=statement,
            position=about.get("position", 0),
            length=about.get("length", 0),
            remedy=remedy,
        )
    return ServerError(f"{message}; {remedy}" if remedy else message, code)


def update_of(message: Mapping[str, Any]) -> Update:
    """A pushed message."""
    if message["type"] == "gap":
        return Update(gap={name: message[name] for name in ("windows", "start", "end")})
    given = message.get("result")
    return Update(
        result=None if given is None else Result.of(_table(given), given),
        window=message.get("window"),
        seq=message.get("seq"),
        after=message.get("after"),
        error=message.get("error"),
        state=message.get("state"),
    )


def _table(given: Mapping[str, Any]) -> pa.Table:
    names = given["columns"]
    columns = list(zip(*given["rows"], strict=True)) or [()] * len(names)
    arrays = [typed_column(*each) for each in zip(columns, given["types"], strict=True)]
    return pa.Table.from_arrays(arrays, names=names)
