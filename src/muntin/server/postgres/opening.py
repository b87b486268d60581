"""How a session of PostgreSQL's protocol begins: TLS, log-in, first settings."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from muntin.server.auth import Auth, Grant
from muntin.server.postgres.certificate import Certificate
from muntin.server.postgres.link import NEWEST, ClientLink, FrameError
from muntin.server.postgres.portal import wire
from muntin.server.postgres.reports import Refusal
from muntin.server.postgres.scram import MECHANISM, ScramError
from muntin.server.postgres.settings import SessionSettings


@dataclass(frozen=True, slots=True)
class Opening:
    """What the server knows of a connection before its session begins."""

    auth: Auth
    number: int
    secret: bytes
    """With the number, another connection may cancel what runs."""
    spare: bool
    """There are too many: it may cancel what another runs, and gets an error otherwise. Not before
    its startup message: while TLS is negotiated, clients hear no error."""
    certificate: Certificate | None
    """Without, TLS is declined."""
    in_the_open: bool
    """Whether this client may go on without TLS."""
    cancel: Callable[[int, bytes], None]
    """(number, secret) -> None, for CancelRequest."""

    async def begin(self, link: ClientLink) -> tuple[Grant, SessionSettings] | None:
        """The client's rights and settings; None where it only cancelled. Raises Refusal,
        ScramError, FrameError, GoneError."""
        for _ in range(4):
            message = await link.startup()
            match message:
                case wire.SSLRequest() if self.certificate and not link.encrypted:
                    await link.encrypt(self.certificate.context())
                case wire.SSLRequest():
                    await link.send(wire.SSLResponse(accepted=False))
                case wire.GSSEncRequest():
                    await link.send(wire.GSSResponse(accepted=False))
                case wire.CancelRequest():
                    self.cancel(message.process_id, message.secret_key)
                    return None
                case wire.StartupMessage() if self.spare:
                    raise Refusal("53300", "too many connections", "come again later")
                case wire.StartupMessage() if not (link.encrypted or self.in_the_open):
                    raise Refusal("28000", "only with TLS from other machines", "sslmode=require")
                case wire.StartupMessage():
                    self._negotiate(link, message)
                    settings = SessionSettings(message.params)
                    grant = await self._log_in(link)
                    await self._welcome(link, settings)
                    return grant, settings
        raise FrameError("too many requests before the startup message")

    def _negotiate(self, link: ClientLink, message: Any) -> None:
        """What the client wants of the protocol beyond what is spoken here."""
        unknown = [name for name in message.params if name.startswith("_pq_.")]
        if unknown or message.protocol_version > NEWEST:
            spoken = min(message.protocol_version, NEWEST)  # major and minor, as PostgreSQL has it
            link.put(wire.NegotiateProtocolVersion(newest_minor=spoken, unrecognized=unknown))

    async def _log_in(self, link: ClientLink) -> Grant:
        grant = self.auth.everybody
        if grant is None:
            exchange = self.auth.exchange()
            await link.send(wire.AuthenticationSASL(mechanisms=[MECHANISM]))
            first = await link.receive()
            if not isinstance(first, wire.SASLInitialResponse) or first.mechanism != MECHANISM:
                raise ScramError(f"only {MECHANISM} is offered")
            challenge = exchange.first(first.data)
            await link.send(wire.AuthenticationSASLContinue(data=challenge))
            last = await link.receive()
            if not isinstance(last, wire.SASLResponse):
                raise ScramError("this is no answer to the challenge")
            proof, grant = exchange.final(last.data)
            await link.send(wire.AuthenticationSASLFinal(data=proof))
        link.put(wire.AuthenticationOk())
        return grant

    async def _welcome(self, link: ClientLink, settings: SessionSettings) -> None:
        for name, value in settings.reported():
            link.put(wire.ParameterStatus(name=name, value=value))
        link.put(wire.BackendKeyData(process_id=self.number, secret_key=self.secret))
        await link.ready()
