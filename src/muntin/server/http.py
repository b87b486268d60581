"""HTTP: questions in, answers out. Each route is one method; errors are one JSON object."""

from __future__ import annotations

import asyncio
import io
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from muntin.errors import BadArgument, LedgerError
from muntin.ledger.records import Rejected
from muntin.select.result import Result
from muntin.server.commands import Commands
from muntin.server.doors import Grant
from muntin.server.limits import ServerLimits
from muntin.server.live import Hub
from muntin.server.messages import STATEMENT_CHARACTERS_MAX, command, json_object, unicode_text
from muntin.server.metrics import CONTENT_TYPE_LATEST, Metrics
from muntin.server.openapi import ARROW, document
from muntin.server.problems import RefusalError, problem, status_of
from muntin.server.pushes import window_json
from muntin.server.reader import Reader
from muntin.server.state import StateReader, spec_number
from muntin.times import instant_us

ARROW_ROWS = 65_536  # of one record batch
WINDOWS_MAX = 10_000
REJECTED_MAX = 1_000
_LOG = logging.getLogger("muntin.server")

Endpoint = Callable[[Request], Awaitable[Response]]


class Http:
    """The routes of one server."""

    def __init__(
        self,
        reader: Reader,
        hub: Hub,
        commands: Commands,
        limits: ServerLimits,
        more_paths: Mapping[str, Any] | None = None,
    ) -> None:
        self._more_paths = more_paths
        self._reader = reader
        self._hub = hub
        self._commands = commands
        self._limits = limits
        self._state = StateReader(reader)
        self.metrics = Metrics(reader, hub)
        self._pool = ThreadPoolExecutor(limits.statements_at_once, "muntin-query")
        self._waiting = 0

    def routes(self) -> list[Route]:
        return [
            Route("/query", self._guarded(self._query), methods=["POST"]),
            Route("/commands", self._guarded(self._command), methods=["POST"]),
            Route("/ticket", self._guarded(self._ticket), methods=["POST"]),
            Route("/windows", self._guarded(self._windows)),
            Route("/summaries", self._guarded(self._summaries)),
            Route("/rejected", self._guarded(self._rejected)),
            Route("/state", self._guarded(self._state_now)),
            Route("/metrics", self._guarded(self._metrics)),
            Route("/healthz", self._healthz),
            Route("/openapi.json", self._openapi),
        ]

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def admitted(self, request: Request) -> Grant:
        """Who asks; raises RefusalError."""
        if len(request.headers.raw) > self._limits.headers_max:
            raise RefusalError(431, "headers", "too many headers", "send fewer")
        grant = self._hub.admit(request.headers, secure=request.url.scheme == "https")
        if grant is None:
            raise RefusalError(
                401, "token", "a bearer token is needed", "send Authorization: Bearer …"
            )
        return grant

    # routes

    async def _query(self, request: Request, _: Grant) -> Response:
        text = await self._statement(request)
        arrow = _wants_arrow(request)
        began = time.perf_counter()
        outcome = "failed"
        try:
            response = await self._in_pool(self._answer, text, arrow)
            outcome = "answered"
        finally:
            self.metrics.answers[outcome] += 1
            self.metrics.query_seconds.observe(time.perf_counter() - began)
        return response

    def _answer(self, text: str, arrow: bool) -> Response:
        result = self._reader.sql(text)
        if arrow:
            return StreamingResponse(_arrow(result), media_type=ARROW)
        if len(result) > self._limits.json_rows_max:
            raise RefusalError(
                400,
                "too_large",
                f"{len(result):,} rows; at most {self._limits.json_rows_max:,} come as JSON",
                f"add LIMIT, or send Accept: {ARROW}",
            )
        return Response(result.to_json(), media_type="application/json")

    async def _command(self, request: Request, grant: Grant) -> Response:
        given = await self._json(request)
        action = given.get("action")
        if not isinstance(action, str) or set(given) - {"action", "pipeline", "summary"}:
            raise BadArgument('send {"action": "slow_down" or "resume", "summary": "…"}')
        asked = command(action, given)
        if not grant.may_command:
            raise RefusalError(403, "forbidden", f"you may read, not {action}")
        return JSONResponse({"answer": await self._commands.obey(asked, grant.who)})

    async def _ticket(self, _: Request, grant: Grant) -> Response:
        ticket = self._hub.doors.issue(grant)
        return JSONResponse({"ticket": ticket, "seconds": self._limits.ticket_seconds})

    async def _windows(self, request: Request, _: Grant) -> Response:
        given = request.query_params
        _only(request, "summary", "start", "end", "limit", "newest_first")
        limit = _integer(given.get("limit", "1000"), "limit", 1, WINDOWS_MAX)
        start, end = (_instant(given.get(name), name) for name in ("start", "end"))
        summary = given.get("summary")
        newest = _flag(given.get("newest_first", "false"), "newest_first")

        def read() -> list[dict[str, Any]]:
            if summary is not None:
                self._reader.pipeline_of(summary)
            found = self._reader.ledger.windows(
                summary, start=start, end=end, limit=limit, newest_first=newest
            )
            return [window_json(window) for window in found]

        return JSONResponse({"windows": await self._in_pool(read)})

    async def _summaries(self, request: Request, _: Grant) -> Response:
        _only(request)
        return JSONResponse(await self._in_pool(self._names))

    def _names(self) -> dict[str, Any]:
        windows = {n: s.window.kind if s.window else None for n, s in self._reader.specs().items()}
        summaries = [
            {
                "name": name,
                "kind": info.kind,
                "pipeline": self._reader.pipeline_of(name),
                "keys": [list(key) for key in info.keys],
                "indicators": list(info.indicators),
                "by": list(info.by),
                "parts": list(info.parts),
                "sketched": info.sketched,
                "windows": windows.get(name),
            }
            for name, info in self._reader.summaries().items()
        ]
        on = {n: q.on for p in self._reader.pipelines().values() for n, q in p.queries.items()}
        queries = [
            {"name": name, "select": info.select, "on": on.get(name, "window")}
            for name, info in self._reader.queries().items()
        ]
        specs = {info.name: spec_number(info) for info in self._reader.ledger.pipelines()}
        return {"summaries": summaries, "queries": queries, "specs": specs}

    async def _rejected(self, request: Request, _: Grant) -> Response:
        given = request.query_params
        _only(request, "pipeline", "after", "limit")
        pipeline = given.get("pipeline", "")
        after = _integer(given.get("after", "0"), "after", 0, 2**62)
        limit = _integer(given.get("limit", "100"), "limit", 1, REJECTED_MAX)

        def read() -> list[dict[str, Any]]:
            if pipeline not in self._reader.pipelines():
                known = ", ".join(sorted(self._reader.pipelines())) or "none"
                raise BadArgument(f"there is no pipeline '{pipeline[:80]}'; there are: {known}")
            records = self._reader.ledger.rejected(pipeline, limit=limit, after=after)
            return [_rejected_json(number, record) for number, record in records]

        return JSONResponse({"rejected": await self._in_pool(read)})

    async def _state_now(self, request: Request, _: Grant) -> Response:
        _only(request)
        return JSONResponse(await self._in_pool(self._state.read, time.time_ns() // 1000))

    async def _metrics(self, _: Request, __: Grant) -> Response:
        text = await self._in_pool(self.metrics.text)
        return Response(text, headers={"content-type": CONTENT_TYPE_LATEST})

    async def _healthz(self, _: Request) -> Response:
        """Without a token, so it says nothing about the data."""
        try:
            await self._in_pool(self._reader.ledger.version)
        except (LedgerError, RefusalError) as error:
            _LOG.warning("not healthy: %s", error)
            return JSONResponse({"status": "failing"}, 503)
        return JSONResponse({"status": "ok"})

    async def _openapi(self, _: Request) -> Response:
        return JSONResponse(document(self._more_paths))

    # inside

    def _guarded(self, route: Callable[[Request, Grant], Awaitable[Response]]) -> Endpoint:
        async def endpoint(request: Request) -> Response:
            try:
                return await route(request, self.admitted(request))
            except Exception as error:
                status = status_of(error)
                if status == 500:
                    _LOG.exception("%s %s failed", request.method, request.url.path)
                headers = {"retry-after": "1"} if status == 503 else {}
                if status == 401:
                    headers["www-authenticate"] = "Bearer"
                return JSONResponse({"error": problem(error)}, status, headers)

        return endpoint

    async def _in_pool(self, work: Callable, *arguments: Any) -> Any:
        limits = self._limits
        if self._waiting >= limits.statements_at_once + limits.statements_waiting_max:
            raise RefusalError(503, "busy", "too many statements at once", "ask again in a second")
        self._waiting += 1
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._pool, work, *arguments)
        finally:
            self._waiting -= 1

    async def _statement(self, request: Request) -> str:
        if _content_type(request) == "text/plain":
            text = _decoded(await self._body(request))
        else:
            given = await self._json(request)
            text = given.get("select")
            if not isinstance(text, str) or set(given) != {"select"}:
                raise BadArgument('send {"select": "SELECT …"}')
            unicode_text(text, "select")
        if len(text) > STATEMENT_CHARACTERS_MAX:
            raise RefusalError(
                413, "limit", f"a statement has at most {STATEMENT_CHARACTERS_MAX:,}"
            )
        return text

    async def _json(self, request: Request) -> dict[str, Any]:
        if _content_type(request) != "application/json":
            raise RefusalError(415, "content_type", "send Content-Type: application/json")
        return json_object(_decoded(await self._body(request)), "the body")

    async def _body(self, request: Request) -> bytes:
        parts, size = [], 0
        try:
            async with asyncio.timeout(self._limits.handshake_seconds):
                async for part in request.stream():
                    size += len(part)
                    if size > self._limits.body_bytes_max:
                        most = f"at most {self._limits.body_bytes_max:,} bytes"
                        raise RefusalError(413, "limit", f"the body is too large: {most}")
                    parts.append(part)
        except TimeoutError:
            raise RefusalError(408, "slow", "the body did not come in time") from None
        except ClientDisconnect:
            raise RefusalError(400, "gone", "the connection ended before the body did") from None
        return b"".join(parts)


def _arrow(result: Result) -> Any:
    """The Arrow IPC stream in pieces; the particulars are in the schema's metadata."""
    table = result.to_arrow()
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        for batch in table.to_batches(max_chunksize=ARROW_ROWS):
            stream.write_batch(batch)
            yield sink.getvalue()
            sink.seek(0)
            sink.truncate()
    yield sink.getvalue()


def _rejected_json(number: int, record: Rejected) -> dict[str, Any]:
    return {
        "number": number,
        "reason": record.reason,
        "detail": record.detail,
        "place": record.place,
        "raw": record.raw.decode("utf-8", "replace"),
    }


def _wants_arrow(request: Request) -> bool:
    return ARROW in request.headers.get("accept", "").lower()


def _content_type(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def _decoded(body: bytes) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError:
        raise BadArgument("the body is not UTF-8") from None


def _only(request: Request, *names: str) -> None:
    for name in request.query_params:
        if name not in names:
            known = ", ".join(names) or "none"
            raise BadArgument(f"there is no parameter {ascii(name)[:40]}; there are: {known}")


def _integer(text: str, name: str, low: int, high: int) -> int:
    if text.isascii() and text.isdigit() and len(text) < 20 and low <= int(text) <= high:
        return int(text)
    raise BadArgument(f"{name}: a whole number from {low} to {high}")


def _flag(text: str, name: str) -> bool:
    if text not in ("true", "false"):
        raise BadArgument(f"{name}: true or false")
    return text == "true"


def _instant(text: str | None, name: str) -> int | None:
    if text is None:
        return None
    try:
        return instant_us(text)
    except BadArgument as wrong:
        raise BadArgument(f"{name}: {wrong}") from None
