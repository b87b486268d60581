"""A coordinator that listens: sites on /site, everybody else by HTTP, WebSocket and SELECT."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route, WebSocketRoute

from muntin.errors import BadArgument, MuntinError, SpecError
from muntin.server.addition import Addition
from muntin.server.auth import Auth, is_loopback
from muntin.server.http import Http
from muntin.server.openapi import described
from muntin.server.problems import problem, status_of
from muntin.server.serving import Server
from muntin.sites import protocol, reload
from muntin.sites.board import Board, GlobalReader
from muntin.sites.endpoint import Endpoint
from muntin.sites.keeper import Keeper
from muntin.sites.metrics import Collector
from muntin.sites.page import page_routes
from muntin.sites.spec import CoordinatorSpec
from muntin.spec_sites import TOKEN_VARIABLE


class CoordinatorServer:
    """Keeps a global top k and serves it; `run()` it here, or `start()` it in a thread.

    Parameters
    ----------
    spec : CoordinatorSpec, mapping or path
        What is ranked and by which sites. Of a file that changes, k and epsilon are taken over.
    reader_token, operator_token : str
        For everybody but sites; by default MUNTIN_TOKEN and MUNTIN_OPERATOR_TOKEN.
    port : int, optional
        Instead of the spec's.

    Raises
    ------
    SpecError, BadArgument
        The spec is wrong; a host beyond loopback without tokens; the port is taken.
    LedgerError
        Another coordinator has the state file open.
    """

    def __init__(
        self,
        spec: CoordinatorSpec | Mapping[str, Any] | str | Path,
        *,
        reader_token: str | None = None,
        operator_token: str | None = None,
        port: int | None = None,
    ) -> None:
        self._path = Path(spec) if isinstance(spec, str | Path) else None
        self._seen = None if self._path is None else reload.changed_at(self._path)
        self.spec = CoordinatorSpec.of(spec)
        tokens = self.spec.tokens()
        if not tokens and not is_loopback(self.spec.host):
            raise SpecError(
                f"host: {self.spec.host} can be reached from other machines, and sites have no "
                f"token: give each a token_env, or set {TOKEN_VARIABLE}"
            )
        self.board = Board()
        self.keeper = Keeper(self.spec, self.board)
        auth = Auth(hosts=self.spec.hosts, now=time.monotonic)  # sites' tokens are not its own
        endpoint = Endpoint(self.keeper, tokens, auth)
        reader = GlobalReader(self.spec.name, self.board, self.keeper.picture)

        def routes(http: Http) -> Sequence[BaseRoute]:
            answers = _Answers(http, self.keeper)
            return [
                Route("/top_k", answers.top_k),
                Route("/sites", answers.sites),
                WebSocketRoute(protocol.PATH, endpoint.serve),
                *page_routes(),
            ]

        try:
            self._server = Server(
                self.board,
                host=self.spec.host,
                port=self.spec.port if port is None else port,
                reader_token=_given(reader_token, "MUNTIN_TOKEN"),
                operator_token=_given(operator_token, "MUNTIN_OPERATOR_TOKEN"),
                origins=self.spec.origins,
                hosts=self.spec.hosts,
                addition=Addition(
                    reader,
                    routes,
                    self._alongside,
                    Collector(self.keeper.picture),
                    described("muntin.sites"),
                ),
            )
        except BadArgument:
            self.keeper.close()
            raise
        self.url = self._server.url

    @property
    def address(self) -> str:
        """What sites name as their coordinator."""
        return "ws" + self.url.removeprefix("http")

    def run(self) -> None:
        """Serve until a signal comes."""
        self._server.run()

    def start(self) -> None:
        """Serve in a thread; returns when it answers."""
        self._server.start()

    def stop(self) -> None:
        """Say goodbye to all and end the thread."""
        self._server.stop()

    @asynccontextmanager
    async def _alongside(self) -> AsyncIterator[None]:
        async with self.keeper.alongside():
            following = None
            if self._path is not None:
                work = reload.follow(self._path, self._seen, self.spec, self.keeper.set_k)
                following = asyncio.create_task(work)
            try:
                yield
            finally:
                if following is not None:
                    following.cancel()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


class _Answers:
    """The routes that a coordinator adds."""

    def __init__(self, http: Http, keeper: Keeper) -> None:
        self._http = http
        self._keeper = keeper

    async def top_k(self, request: Request) -> Response:
        return self._answered(request, lambda: self._keeper.picture.snapshot.to_dict())

    async def sites(self, request: Request) -> Response:
        return self._answered(request, lambda: self._keeper.picture.state)

    def _answered(self, request: Request, answer: Any) -> Response:
        try:
            self._http.admitted(request)
        except MuntinError as error:
            headers = {"www-authenticate": "Bearer"} if status_of(error) == 401 else {}
            return JSONResponse({"error": problem(error)}, status_of(error), headers)
        return JSONResponse(answer())


def _given(token: str | None, variable: str) -> str:
    return os.environ.get(variable, "") if token is None else token
