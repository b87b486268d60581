"""/site: where sites connect. Who they are, what they rank, then the protocol of `muntin.topk`."""

import asyncio
import hmac
import logging
import time
from collections.abc import Mapping
from typing import Any

from starlette.websockets import WebSocket, WebSocketDisconnect

from muntin.errors import CorruptMessage
from muntin.server.auth import Auth, bearer, digest
from muntin.server.problems import RefusalError
from muntin.server.sending import refusal
from muntin.server.sockets import socket_of
from muntin.sites import protocol
from muntin.sites.protocol import Refused
from muntin.sites.service import CoordinatorService
from muntin.sites.session import SiteSession

HELLO_SECONDS = 10.0
LOG_SECONDS = 10.0
SPARE_CONNECTIONS = 64  # beyond one for each site: newcomers, and those that are being replaced
_LOG = logging.getLogger("muntin.sites")


class Endpoint:
    """The route. `auth` looks at Host and Origin; sites have tokens of their own."""

    def __init__(self, service: CoordinatorService, tokens: Mapping[str, str], auth: Auth) -> None:
        self._service = service
        self._digests = {name: digest(token) for name, token in tokens.items()}
        self._auth = auth
        self._open = 0
        self._logged: dict[int, float] = {}

    async def serve(self, websocket: WebSocket) -> None:
        """One connection, from the handshake to its end."""
        try:
            self._check_admission(websocket)
        except RefusalError as refused:
            await websocket.send_denial_response(refusal(refused))
            return
        await websocket.accept()
        self._open += 1
        try:
            await self._talk(websocket)
        except Refused as refused:
            self._service.refused[refused.code] += 1
            self._log(refused)
            socket_of(websocket).end(refused.code, refused.reason)
        except WebSocketDisconnect as gone:
            if gone.code == protocol.TOO_LARGE:
                self._service.refused[gone.code] += 1
        finally:
            self._open -= 1

    def _log(self, refused: Refused) -> None:
        """Each code now and then: who comes again and again must not fill the log."""
        now = time.monotonic()
        if now - self._logged.get(refused.code, -LOG_SECONDS) >= LOG_SECONDS:
            self._logged[refused.code] = now
            _LOG.warning("a connection was refused with %s: %s", refused.code, refused)

    def _check_admission(self, websocket: WebSocket) -> None:
        if not self._digests and not self._auth.host_allowed(websocket.headers):
            raise RefusalError(403, "host", "the coordinator is not called so", "add it to hosts")
        if "origin" in websocket.headers:
            raise RefusalError(403, "origin", "pages do not connect here", "follow /live")
        if self._open >= len(self._service.spec.sites) + SPARE_CONNECTIONS:
            raise RefusalError(503, "busy", "too many connections", "come again later")

    async def _talk(self, websocket: WebSocket) -> None:
        allowed = self._sites_of(websocket.headers)
        try:
            async with asyncio.timeout(HELLO_SECONDS):
                text, data = await _frame(websocket)
        except TimeoutError:
            raise Refused(protocol.BAD_MESSAGE, "no hello came") from None
        if text is None or data:
            raise Refused(protocol.BAD_MESSAGE, "say hello first")
        site, said = protocol.parse_hello(text)
        try:
            await self._take_part(websocket, site, said, allowed)
        except Refused as refused:
            self._service.note(site, f"refused with {refused.code}: {refused}")
            raise
        except WebSocketDisconnect as gone:
            if gone.code == protocol.FAILED:
                self._service.note(site, gone.reason)
            raise

    async def _take_part(
        self, websocket: WebSocket, site: str, ranked: Mapping[str, Any], allowed: set[str]
    ) -> None:
        if site not in self._service.spec.sites:
            shown = ascii(site)[:40]
            raise Refused(protocol.UNKNOWN_SITE, f"there is no site {shown} in this ranking")
        if site not in allowed:
            raise Refused(protocol.UNAUTHORISED, f"the token is not that of site {site}")
        protocol.check_agreement(ranked, self._service.spec)
        session = SiteSession(site, websocket)
        kept = self._service.coordinator
        said = protocol.welcome(self._service.run, kept.k, kept.epsilon, kept.missing_after)
        session.outbox.put([said])
        self._service.join(session)
        try:
            await self._listen(websocket, session)
        finally:
            self._service.leave(session)
            await session.end()

    async def _listen(self, websocket: WebSocket, session: SiteSession) -> None:
        while True:
            text, data = await _frame(websocket)
            if not session.spend():
                raise Refused(protocol.TOO_FAST, "too many messages a second")
            try:
                if text is not None:
                    self._service.report(session, text)
                else:
                    self._service.hear(session, data)
            except CorruptMessage as corrupt:
                raise Refused(protocol.BAD_MESSAGE, str(corrupt)) from None

    def _sites_of(self, headers: Mapping[str, str]) -> set[str]:
        """The sites whose token was sent; all where none is needed."""
        if not self._digests:
            return set(self._service.spec.sites)
        given = digest(bearer(headers))
        # all of them, so that time tells nothing
        found = {n for n, known in self._digests.items() if hmac.compare_digest(given, known)}
        if not found:
            raise Refused(protocol.UNAUTHORISED, "the token is missing or wrong")
        return found


async def _frame(websocket: WebSocket) -> tuple[str | None, bytes]:
    """The next frame: a text, or bytes. Raises WebSocketDisconnect."""
    message = await websocket.receive()
    if message["type"] == "websocket.disconnect":
        raise WebSocketDisconnect(message.get("code", 1005), message.get("reason") or "")
    return message.get("text"), message.get("bytes") or b""
