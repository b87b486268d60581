"""HTTP: questions in, answers out. Each route is one method; errors are one JSON object."""

import asyncio
import logging
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

import yaml
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from muntin.errors import BadArgument, LedgerError
from muntin.server import state
from muntin.server.answering import ARROW, JSON, Question
from muntin.server.auth import Grant
from muntin.server.live import Hub
from muntin.server.messages import STATEMENT_CHARACTERS_MAX, command, json_object, unicode_text
from muntin.server.metrics import Metrics
from muntin.server.problems import RefusalError, needs_token, status_of
from muntin.server.reader import Reader
from muntin.server.sending import AnswerResponse, client_of, refusal, while_there
from muntin.server.state import FreshRead
from muntin.server.statements import Statements
from muntin.times import instant_us, now_us

_LOG = logging.getLogger("muntin.server")
_WEIGHT = re.compile(r"q=([01](?:\.[0-9]*)?)")

RouteHandler = Callable[[Request], Awaitable[Response]]
Read = Callable[[str, str], Any]
"""(text, name of the entry) -> its value; BadArgument where it is none."""


class Http:
    """The routes of one server."""

    def __init__(
        self,
        reader: Reader,
        hub: Hub,
        statements: Statements,
        more_paths: Mapping[str, Any],
        begun: Callable[[], bool],
    ) -> None:
        self._more_paths = more_paths
        self._begun = begun
        self._hub = hub
        self._limits = hub.limits
        self.statements = statements
        self.metrics = Metrics(reader, hub)
        # small reads of the ledger, which never wait for a statement nor for each other
        self._metrics_once = FreshRead(self.metrics.text, "muntin-metrics")
        self._ready_once = FreshRead(lambda: state.ready(reader), "muntin-ready")
        self._health_once = FreshRead(lambda: state.health(reader, now_us()), "muntin-health")

    def routes(self) -> list[Route]:
        return [
            Route("/query", self.guarded(self._query), methods=["POST"]),
            Route("/commands", self.guarded(self._command), methods=["POST"]),
            Route("/ticket", self.guarded(self._ticket), methods=["POST"]),
            Route("/windows", self._listed("windows")),
            Route("/summaries", self._listed("summaries")),
            Route("/history", self._listed("history")),
            Route("/catalogue", self._listed("catalogue")),
            Route("/rejected", self._listed("rejected")),
            Route("/state", self.guarded(self._state_now)),
            Route("/metrics", self.guarded(self._metrics)),
            Route("/healthz", self._healthz),
            Route("/readyz", self._readyz),
            Route("/openapi.json", self._openapi),
        ]

    def close(self) -> None:
        for once in (self._metrics_once, self._health_once, self._ready_once):
            once.close()

    def admitted(self, request: Request) -> Grant:
        """Who asks; raises RefusalError."""
        grant = self._hub.admit(request.headers, secure=request.url.scheme == "https")
        if grant is None:
            raise needs_token()
        return grant

    # routes

    async def _query(self, request: Request, _: Grant) -> Response:
        text = await self._statement(request)
        form = ARROW if _wants_arrow(request) else JSON
        most = self._limits.json_rows_max
        began = time.perf_counter()
        outcome = "failed"
        try:
            response = await self._answered(
                request, "sql", form, text=text, form=form, rows_max=most
            )
            outcome = "answered"
        finally:
            self.metrics.answers[outcome] += 1
            self.metrics.query_seconds.observe(time.perf_counter() - began)
        return response

    async def _answered(
        self, request: Request, name: str, media_type: str = JSON, **arguments: Any
    ) -> Response:
        """What `Answering` makes of it, in its turn."""
        asked = Question(name, arguments, self._limits.answer_bytes_max)
        client = client_of(request.client)
        asking = self.statements.answer(asked, client, asking=True)
        answer = await while_there(request, asking)
        return AnswerResponse(answer, self.statements, client, media_type)

    async def _command(self, request: Request, grant: Grant) -> Response:
        given = await self._json(request)
        action = given.get("action")
        if not isinstance(action, str) or set(given) - {"action", "pipeline", "summary"}:
            raise BadArgument('send {"action": "slow_down" or "resume", "summary": "…"}')
        asked = command(action, given)
        if not grant.may_command:
            raise RefusalError(403, "forbidden", f"you may read, not {action}")
        return JSONResponse({"answer": await self._hub.commands.obey(asked, grant.who)})

    async def _ticket(self, _: Request, grant: Grant) -> Response:
        ticket = self._hub.auth.issue(grant)
        return JSONResponse({"ticket": ticket, "seconds": self._limits.ticket_seconds})

    def _listed(self, name: str) -> RouteHandler:
        """What `Answering` makes of the entries of a query string."""
        reads = _LISTS[name]

        async def route(request: Request, _: Grant) -> Response:
            given = parameters(request, *reads)
            read = {entry: reads[entry](text, entry) for entry, text in given.items()}
            return await self._answered(request, name, **read)

        return self.guarded(route)

    async def _state_now(self, request: Request, _: Grant) -> Response:
        parameters(request)
        return JSONResponse(await self._hub.feeds.state())

    async def _metrics(self, _: Request, __: Grant) -> Response:
        text = await self._metrics_once()
        return Response(text, headers={"content-type": CONTENT_TYPE_LATEST})

    async def _healthz(self, _: Request) -> Response:
        """Without a token, so it says nothing about the data."""
        try:
            return JSONResponse(await self._health_once())
        except LedgerError as error:
            _LOG.warning("not healthy: %s", error)
            return JSONResponse({"status": "failing"}, 503)

    async def _readyz(self, _: Request) -> Response:
        """Without a token too: 503 while answers would be of the past, or are not to be had, or
        would wait for kernels, or the pipeline that this process runs has not begun."""
        try:
            ready = self._begun() and self.statements.runner.ready and await self._ready_once()
        except LedgerError:
            ready = False
        return JSONResponse({"ready": ready}, 200 if ready else 503)

    async def _openapi(self, _: Request) -> Response:
        own = described("muntin.server")
        return JSONResponse({**own, "paths": {**own["paths"], **self._more_paths}})

    # inside

    def guarded(self, route: Callable[[Request, Grant], Awaitable[Response]]) -> RouteHandler:
        async def endpoint(request: Request) -> Response:
            try:
                return await route(request, self.admitted(request))
            except Exception as error:
                if status_of(error) == 500:
                    _LOG.exception("%s %s failed", request.method, request.url.path)
                return refusal(error)

        return endpoint

    async def _statement(self, request: Request) -> str:
        if _content_type(request) == "text/plain":
            text = _decoded(await self.body(request))
        else:
            given = await self._json(request)
            text = given.get("select")
            if not isinstance(text, str) or set(given) != {"select"}:
                raise BadArgument('send {"select": "SELECT …"}')
            unicode_text(text, "select")
        if len(text) > STATEMENT_CHARACTERS_MAX:
            said = f"a statement of {len(text):,} characters; at most {STATEMENT_CHARACTERS_MAX:,}"
            raise RefusalError(413, "limit", said, "shorten it")
        return text

    async def _json(self, request: Request) -> dict[str, Any]:
        if _content_type(request) != "application/json":
            said = "send Content-Type: application/json"  # curl -d says that it is a form
            remedy = """curl --json '{"select": "SELECT …"}', or -H 'Content-Type: text/plain'"""
            raise RefusalError(
                415, "content_type", said, remedy if "query" in request.url.path else ""
            )
        return json_object(_decoded(await self.body(request)), "the body")

    async def body(self, request: Request) -> bytes:
        encoding = request.headers.get("content-encoding", "identity")
        if encoding.lower() != "identity":
            said = f"the body is sent with Content-Encoding: {encoding[:40]!a}"
            raise RefusalError(415, "content_type", said, "send it as it is")
        most = self._limits.body_bytes_max
        too_large = RefusalError(413, "limit", f"the body is too large: at most {most:,} bytes")
        told = request.headers.get("content-length", "0")
        if len(told) > 18 or (told.isdecimal() and int(told) > most):
            raise too_large  # it is not waited for
        parts, size = [], 0
        try:
            async with asyncio.timeout(self._limits.handshake_seconds):
                async for part in request.stream():
                    size += len(part)
                    if size > most:
                        raise too_large
                    parts.append(part)
        except TimeoutError:
            raise RefusalError(408, "slow", "the body did not come in time") from None
        except ClientDisconnect:
            raise RefusalError(400, "gone", "the connection ended before the body did") from None
        return b"".join(parts)


def _wants_arrow(request: Request) -> bool:
    weights: dict[str, float] = {}
    for given in request.headers.get("accept", "").lower().split(","):
        kind, *parameters = (part.strip() for part in given.split(";"))
        said = [float(q[1]) for each in parameters if (q := _WEIGHT.fullmatch(each))]
        weights[kind] = said[0] if said else 1.0
    json = next((weights[kind] for kind in (JSON, "application/*", "*/*") if kind in weights), 0.0)
    return 0.0 < weights.get(ARROW, 0.0) >= json


def _content_type(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def _decoded(body: bytes) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError:
        raise BadArgument("the body is not UTF-8") from None


def parameters(request: Request, *names: str) -> dict[str, str]:
    """What stands in the query string, each at most once, as in a body. Raises BadArgument: a name
    is none of `names`, or stands twice."""
    # a statement may be long; to read 64 KiB holds up all others for tens of milliseconds
    most = 1 << (16 if "select" in names else 11)
    if len(request.scope["query_string"]) > most:
        raise BadArgument(f"a query string of more than {most:,} bytes")
    found: dict[str, str] = {}
    for name, value in request.query_params.multi_items():
        if name not in names:
            known = ", ".join(names) or "none"
            raise BadArgument(f"there is no parameter {ascii(name)[:40]}; there are: {known}")
        if name in found:
            raise BadArgument(f"{name}: stands twice in the query string")
        found[name] = value
    return found


def _text(text: str, _: str) -> str:
    return text


def _whole(low: int, high: int) -> Read:
    def read(text: str, name: str) -> int:
        if text.isascii() and text.isdigit() and len(text) < 20 and low <= int(text) <= high:
            return int(text)
        raise BadArgument(f"{name}: {text[:40]!r} is no whole number from {low} to {high}")

    return read


def _flag(text: str, name: str) -> bool:
    if text not in ("true", "false"):
        raise BadArgument(f"{name}: {text[:40]!r} is neither true nor false")
    return text == "true"


def _instant(text: str, name: str) -> int:
    try:
        return instant_us(text)
    except BadArgument as wrong:
        raise BadArgument(f"{name}: {wrong}") from None


_SPAN: dict[str, Read] = {"start": _instant, "end": _instant}
_LISTS: dict[str, dict[str, Read]] = {
    "windows": {
        "summary": _text, **_SPAN, "limit": _whole(1, 10_000), "newest_first": _flag,
    },
    "summaries": {},
    "history": {"pipeline": _text, **_SPAN},
    "catalogue": {},
    "rejected": {
        "pipeline": _text, "after": _whole(0, 2**62), "limit": _whole(1, 1000),
        "newest_first": _flag,
    },
}  # fmt: skip
"""Lists of `Answering`, and how the entries of their query strings are read."""


@cache
def described(package: str) -> dict[str, Any]:
    """What a package's `openapi.yaml` holds; it must not be changed."""
    return yaml.safe_load(files(package).joinpath("openapi.yaml").read_text("utf-8"))
