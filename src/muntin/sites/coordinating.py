"""A coordinator that listens: sites on /site, everybody else by HTTP, WebSocket and SELECT."""

import asyncio
import logging
import os
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from prometheus_client.core import Metric
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route, WebSocketRoute

from muntin.errors import BadArgument, MuntinError, SpecError
from muntin.hosts import is_loopback
from muntin.ledger.temporary import TemporaryLedger
from muntin.server.app import Extension, page_routes
from muntin.server.auth import Auth, Grant
from muntin.server.http import Http, described
from muntin.server.limits import ServerLimits
from muntin.server.metrics import counter, gauge
from muntin.server.serving import Server
from muntin.sites import protocol
from muntin.sites.catalog import GlobalReader
from muntin.sites.endpoint import Endpoint
from muntin.sites.service import CoordinatorService
from muntin.sites.spec import CoordinatorSpec
from muntin.sites.status import Status
from muntin.spec_sites import TOKEN_VARIABLE
from muntin.storage import state_of

LOOK_SECONDS = 1.0
_LOG = logging.getLogger("muntin.sites")
FOLDER = Path(__file__).parent / "dashboard"


class CoordinatorServer(Server):
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
        self._seen = None if self._path is None else state_of(self._path)
        self.spec = CoordinatorSpec.of(spec)
        tokens = self.spec.tokens()
        if not tokens and not is_loopback(self.spec.host):
            raise SpecError(
                f"host: {self.spec.host} can be reached from other machines, and sites have no "
                f"token: give each a token_env, or set {TOKEN_VARIABLE}"
            )
        self.updates = TemporaryLedger()  # empty; its version grows with the answer
        self.service = CoordinatorService(self.spec, self.updates)
        auth = Auth(hosts=self.spec.hosts, now=time.monotonic)  # sites' tokens are not its own
        endpoint = Endpoint(self.service, tokens, auth)
        reader = GlobalReader(self.spec.name, self.updates, self.service.status)

        def routes(http: Http) -> Sequence[BaseRoute]:
            return [
                Route("/top_k", http.guarded(self._top_k)),
                Route("/sites", http.guarded(self._sites)),
                WebSocketRoute(protocol.PATH, endpoint.serve),
                *page_routes(FOLDER, "/race"),
            ]

        try:
            super().__init__(
                self.updates,
                host=self.spec.host,
                port=self.spec.port if port is None else port,
                reader_token=_given(reader_token, "MUNTIN_TOKEN"),
                operator_token=_given(operator_token, "MUNTIN_OPERATOR_TOKEN"),
                origins=self.spec.origins,
                hosts=self.spec.hosts,
                limits=ServerLimits(pong_seconds=protocol.PONG_SECONDS),
                extension=Extension(
                    reader,
                    routes,
                    self._alongside,
                    partial(_metrics, self.service.status),
                    described("muntin.sites"),
                ),
            )
        except BadArgument:
            self.service.close()
            raise

    @property
    def address(self) -> str:
        """What sites name as their coordinator."""
        return "ws" + self.url.removeprefix("http")

    @asynccontextmanager
    async def _alongside(self) -> AsyncIterator[None]:
        async with self.service.alongside():
            following = asyncio.create_task(self._follow_file())
            try:
                yield
            finally:
                following.cancel()

    async def _follow_file(self) -> None:
        """Take over k and epsilon of a file that changes; a wrong one is reported."""
        path, spec, seen = self._path, self.spec, self._seen
        while path is not None:
            await asyncio.sleep(LOOK_SECONDS)
            now = state_of(path)
            if now is None or now == seen:
                continue
            seen = now
            try:
                fresh = await asyncio.to_thread(CoordinatorSpec.of, path)
            except MuntinError as problem:
                _LOG.warning("%s has changed and is not taken over: %s", path, problem)
                continue
            k, epsilon = fresh.k, fresh.epsilon
            if (k, epsilon) != (spec.k, spec.epsilon):
                self.service.coordinator.set_k(k, epsilon)
                _LOG.warning("%s: k is %s and epsilon %s from now on", path, k, epsilon)
            spec = spec.model_copy(update={"k": k, "epsilon": epsilon})
            if fresh != spec:
                _LOG.warning("%s: what else has changed is taken over at the next start", path)

    async def _top_k(self, _: Request, __: Grant) -> Response:
        return JSONResponse(self.service.status.snapshot.to_dict())

    async def _sites(self, _: Request, __: Grant) -> Response:
        return JSONResponse(self.service.status.state)


def _given(token: str | None, variable: str) -> str:
    return os.environ.get(variable, "") if token is None else token


def _metrics(status: Status) -> Iterator[Metric]:
    """GET /metrics of a coordinator: validity, sites, what is sent against naive push."""
    state = status.state
    answer, resolutions = state["answer"], state["resolutions"]
    for family, name, text, value in (
        (gauge, "valid", "1 where the answer is valid", float(answer["valid"])),
        (gauge, "missing_sites", "Sites that take no part", len(answer["missing_sites"])),
        (gauge, "unit", "Newest unit at which the answer was valid", answer["unit"] or 0),
        (counter, "changes", "How often T changed", state["changes"]),
        (counter, "surveys", "Surveys of all sites", state["surveys"]),
        (counter, "resolutions_partial", "Resolutions among some sites", resolutions["partial"]),
        (counter, "resolutions_full", "Resolutions among all sites", resolutions["full"]),
    ):
        yield family(f"topk_{name}", text, (), [((), value)])
    sites = {site["name"]: site for site in state["sites"]}
    connected = [([name], float(site["connected"])) for name, site in sites.items()]
    yield gauge("topk_connected", "1 where the site is connected", ["site"], connected)
    labels, ways = ["site", "direction"], ("up", "down", "reports", "naive")
    for what, text in (("messages", "Messages, by direction"), ("bytes", "Bytes of their frames")):
        rows = [([name, way], site[way][what]) for name, site in sites.items() for way in ways]
        yield counter(f"topk_{what}", text, labels, rows)
    refused = [([code], number) for code, number in state["refused"].items()]
    yield counter("topk_refused", "Connections of sites that were closed", ["code"], refused)
