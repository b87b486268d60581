"""What a server may do beside answering from a ledger, behind the same auth."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from starlette.routing import BaseRoute

from muntin.server.reader import Reader

if TYPE_CHECKING:
    from muntin.server.http import Http


@dataclass(frozen=True, slots=True)
class Addition:
    """Further routes, and who answers.

    Attributes
    ----------
    reader : Reader
        Answers instead of the ledger's own reader.
    routes : callable
        (Http) -> the routes to add; `http.admitted(request)` says who asks.
    alongside : callable
        An asynchronous context manager that is open while the server runs, on its loop.
    paths : mapping
        The routes in the words of OpenAPI: path -> method -> operation.
    collector : object, optional
        A collector of prometheus_client for GET /metrics.
    """

    reader: Reader
    routes: Callable[[Http], Sequence[BaseRoute]]
    alongside: Callable[[], AbstractAsyncContextManager[Any]] = nullcontext
    collector: Any = None
    paths: Mapping[str, Any] = field(default_factory=dict)
