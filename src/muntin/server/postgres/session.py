"""One client of PostgreSQL's protocol: from its first message to its last, one at a time."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Hashable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

from pygwire.constants import TransactionStatus
from pygwire.exceptions import PygwireError

from muntin.errors import MuntinError, SelectError
from muntin.select.limits import ASK_LESS
from muntin.server.answering import Question
from muntin.server.auth import Grant
from muntin.server.limits import ServerLimits, TokenBucket
from muntin.server.postgres.commands import Cursor, SessionCommand, write_of
from muntin.server.postgres.link import ClientLink, FrameError, GoneError
from muntin.server.postgres.literals import (
    in_a_zone,
    probed_types,
    stand_ins,
    type_probes,
    with_integer_items,
)
from muntin.server.postgres.opening import Opening
from muntin.server.postgres.portal import (
    Portal,
    Prepared,
    PreparedStatements,
    check_described,
    columns_of,
    prepared,
    row_description,
    wire,
    within_limit,
)
from muntin.server.postgres.reports import Refusal, error_fields, notice_fields
from muntin.server.postgres.rows import formats_of
from muntin.server.postgres.scram import ScramError
from muntin.server.postgres.settings import SessionSettings
from muntin.server.postgres.text import statements_of
from muntin.server.statements import Statements

STATEMENTS_AT_ONCE_MAX = 100  # in one text
MESSAGES_PER_SECOND, MESSAGES_BURST = 5_000.0, 10_000.0  # beyond it, the client waits
TURN_SECONDS = 0.001  # of messages that are there already
ASIDE_BYTES = 4 << 10  # of a statement; a longer one can take a tenth of a second
T = TypeVar("T")
_TEXT_OID = 25
_LOG = logging.getLogger("muntin.server.postgres")


@dataclass(eq=False, repr=False)
class PostgresSession:
    """Used on the loop's thread."""

    _link: ClientLink
    _client: Hashable
    _statements: Statements
    opening: Opening
    _limits: ServerLimits

    def __post_init__(self) -> None:
        self._grant: Grant
        self._settings: SessionSettings
        self._prepared = PreparedStatements()
        self._skipping = False  # until Sync, after an error
        self._asking: asyncio.Future[Any] | None = None
        self._cancelled = False
        now = asyncio.get_running_loop().time()
        self._pace = TokenBucket(MESSAGES_PER_SECOND, MESSAGES_BURST, now)

    async def run(self) -> None:
        """Until the client goes."""
        try:
            async with asyncio.timeout(self._limits.handshake_seconds):
                begun = await self.opening.begin(self._link)
            if begun is not None:
                self._grant, self._settings = begun
                await self._serve()
        except (FrameError, PygwireError) as error:
            await self._link.end(Refusal("08P01", f"this is not PostgreSQL's protocol: {error}"))
        except ScramError as error:
            await self._link.end(
                Refusal("28P01", str(error), "the password is a token of this server")
            )
        except Refusal as error:
            await self._link.end(error)
        except (GoneError, TimeoutError):
            pass
        finally:
            for portal in self._prepared.portals.values():
                self._release(portal)
            self._link.close()

    def cancel(self) -> None:
        """What runs for this client is ended, if something does."""
        if self._asking is not None and not self._asking.done():
            self._cancelled = True
            self._asking.cancel()

    async def leave(self) -> None:
        with contextlib.suppress(GoneError, PygwireError):
            await self._link.end(Refusal("57P01", "the server stops", "connect again later"))
        self._link.close()

    # messages

    async def _serve(self) -> None:
        loop = asyncio.get_running_loop()
        rested = loop.time()
        while True:
            message = await self._link.receive(skipping=self._skipping)
            if isinstance(message, wire.Terminate):
                return
            while not self._pace.spend(loop.time()):
                await asyncio.sleep(0.01)
            if loop.time() - rested > TURN_SECONDS:
                await asyncio.sleep(0)  # others are served in between
                rested = loop.time()
            if message is not None:
                await self._take(message)

    async def _take(self, message: Any) -> None:
        try:
            match message:
                case wire.Query():
                    await self._query(message.query_string)
                case wire.Parse():
                    await _aside(message.query, lambda: self._prepared.parse(message))
                    self._link.put(wire.ParseComplete())
                case wire.Bind():
                    await self._bind(message)
                case wire.Describe():
                    await self._describe(message)
                case wire.Execute():
                    await self._execute(message)
                case wire.Close():
                    self._close(message)
                case wire.Sync():
                    self._skipping = False
                    if self._link.status == TransactionStatus.IDLE:
                        self._drop_portals()
                    await self._link.ready()
                case wire.Flush():
                    await self._link.flush()
                case _:
                    raise FrameError(f"{type(message).__name__} is not expected here")  # noqa: TRY301
            await self._link.flush_some()
        except (GoneError, FrameError, PygwireError, asyncio.CancelledError):
            raise
        except Exception as error:
            if not isinstance(error, MuntinError | Refusal):
                _LOG.exception("a message failed: %s", type(message).__name__)
            if self._link.status == TransactionStatus.IN_TRANSACTION:
                self._link.status = TransactionStatus.ERROR_TRANSACTION
            if isinstance(error, Refusal) and error.fatal:
                raise
            await self._link.send(wire.ErrorResponse(fields=error_fields(error)))
            if isinstance(message, wire.Query):
                await self._link.ready()
            else:
                self._skipping = True

    # the simple protocol

    async def _query(self, text: str) -> None:
        parts = await _aside(text, lambda: statements_of(within_limit(text)))
        if len(parts) > STATEMENTS_AT_ONCE_MAX:
            raise Refusal("54000", f"at most {STATEMENTS_AT_ONCE_MAX} statements in one text")
        if not parts:
            self._link.put(wire.EmptyQueryResponse())
        start = 0
        for part in parts:
            start = text.index(part, start)
            try:
                await self._one(part)
            except SelectError as error:
                raise error.moved(lambda place, start=start: start + place) from None
            start += len(part)
        if self._link.status == TransactionStatus.IDLE:
            self._drop_portals()
        await self._link.ready()

    async def _one(self, text: str) -> None:
        portal = await _aside(text, lambda: prepared(text, ()).bound((), ()))
        try:
            await self._done(portal, 0, told=False)
        finally:
            if portal not in self._prepared.portals.values():  # as a declared cursor is
                self._release(portal)

    async def _done(self, portal: Portal, most: int, *, told: bool) -> None:
        """What a portal's statement asks for; `told`: Describe is for its client to send."""
        said = portal.prepared
        if said.command is not None:
            self._obey(said.command)
            return
        if said.cursor is not None:
            if not told and not said.cursor.select:
                self._link.put(row_description(self._prepared.cursor(said.cursor.name).head, ()))
            await self._with_cursor(portal, said.cursor)
            return
        await self._answered(portal)
        if said.copy is not None:
            await self._copy(portal, said.copy.overall)
            return
        if not told:
            self._link.put(row_description(portal.head, ()))
        elif not portal.described:
            check_described(portal)
        await self._rows(portal, most)

    async def _with_cursor(self, portal: Portal, cursor: Cursor) -> None:
        """DECLARE, whose portal it is, or FETCH in the portal's formats."""
        self._may_ask()
        if cursor.select:
            if self._link.status == TransactionStatus.IDLE and not cursor.hold:
                remedy = "BEGIN first, or DECLARE it WITH HOLD"
                raise Refusal("25P01", "a cursor stands in a transaction", remedy)
            if cursor.name in self._prepared.portals:
                raise Refusal("42P03", f"the cursor {cursor.name[:64]} exists already")
            await self._answered(portal)
            self._prepared.keep(cursor.name, portal)
            portal.held = self._link.status == TransactionStatus.IDLE
            self._link.put(wire.CommandComplete(tag="DECLARE CURSOR"))
            return
        held = self._prepared.cursor(cursor.name)
        columns = len(held.head["columns"])
        if formats_of(held.formats, columns) != formats_of(portal.formats, columns):
            if held.rows_sent:
                raise Refusal("0A000", "a cursor's rows are all in text, or all in binary")
            self._release(held)
            held.formats = portal.formats
            await self._answered(held)
        await self._rows(held, cursor.rows, "FETCH")

    async def _copy(self, portal: Portal, form: int) -> None:
        formats = [form] * len(portal.head["columns"])
        self._tell(portal)
        # not by `_put`: pygwire holds that with the rows the extended protocol ends
        begun = wire.CopyOutResponse(overall_format=form, col_formats=formats)
        self._link.put_rows(begun.to_wire())
        async for piece in portal.rows(0):
            self._link.put_rows(piece)
            await self._link.flush()
        self._link.put_rows(wire.CopyDone().to_wire())
        self._link.put(wire.CommandComplete(tag=f"COPY {portal.rows_sent}"))

    # the extended protocol

    async def _bind(self, message: Any) -> None:
        known = self._prepared.prepared.get(message.statement)
        if known is not None and known.has_rows and in_a_zone(message.param_values, known.types):
            with contextlib.suppress(SelectError):  # which is told with the rows
                await self._learn(known, known.types)
        text = known.text if known else ""
        self._release(await _aside(text, lambda: self._prepared.bind(message)))
        self._link.put(wire.BindComplete())

    async def _describe(self, message: Any) -> None:
        if message.kind == "P":
            portal = self._prepared.portal(message.name)
            if not portal.prepared.has_rows and portal.answer is None:
                self._link.put(wire.NoData())
                return
            cursor = portal.prepared.cursor
            if cursor is None:
                await self._answered(portal)
            head = portal.head if cursor is None else self._prepared.cursor(cursor.name).head
            self._link.put(row_description(head, portal.formats))
            portal.described = True
            return
        known = self._prepared.prepared.get(message.name)
        if message.kind != "S" or known is None:
            raise Refusal("26000", f"there is no statement {message.name[:64]!r}")
        head = None
        if known.cursor is not None and known.has_rows:
            head = self._prepared.cursor(known.cursor.name).head
        elif known.has_rows:
            try:
                head = await self._learn(known, known.types)
            except SelectError:
                others = with_integer_items(known.text, known.types)
                if others != known.types:
                    with contextlib.suppress(SelectError):
                        head = await self._learn(known, others)
                if head is None:
                    raise
        types = [oid or _TEXT_OID for oid in known.types]
        self._link.put(wire.ParameterDescription(type_oids=types))
        self._link.put(wire.NoData() if head is None else row_description(head, ()))
        known.described = None if head is None else columns_of(head)

    async def _learn(self, known: Prepared, types: tuple[int, ...]) -> dict[str, Any]:
        """The types of a statement's parameters, if these are right; the head of its answer."""
        text = known.text
        probes = await _aside(text, lambda: type_probes(text, known.given, types))
        portal = await _aside(text, lambda: known.bound(stand_ins(text, types), ()))
        try:
            await self._answered(portal, describe=[*probes])
            known.types = probed_types(types, probes, portal.head["types"])
            return portal.head
        finally:
            self._release(portal)

    async def _execute(self, message: Any) -> None:
        portal = self._prepared.portal(message.portal)
        if not portal.prepared.text:
            self._link.put(wire.EmptyQueryResponse())
            return
        await self._done(portal, min(message.max_rows, (1 << 31) - 1), told=True)

    def _close(self, message: Any) -> None:
        if message.kind == "S":
            self._prepared.prepared.pop(message.name, None)
        else:
            self._release(self._prepared.portals.pop(message.name, None))
        self._link.put(wire.CloseComplete())

    # answers

    async def _answered(self, portal: Portal, *, describe: Sequence[str] | None = None) -> None:
        """Have the portal's statement answered, once; see `PostgresAnswers.answer`."""
        if portal.answer is not None:
            return
        self._may_ask()
        seconds = self._settings.timeout_seconds
        try:
            async with asyncio.timeout(seconds):
                await self._until_answered(portal, describe)
        except TimeoutError:
            said = f"cancelled: statement_timeout is {seconds:g} s"
            raise Refusal("57014", said, ASK_LESS) from None
        await portal.begin()

    async def _until_answered(self, portal: Portal, describe: Sequence[str] | None) -> None:
        try:
            arguments = {
                "text": self._settings.shown(portal.edited.text),
                "formats": list(portal.formats),
                "describe": describe,
                "copy": None if portal.prepared.copy is None else asdict(portal.prepared.copy),
                "window": self._settings.window,
            }
            self._asking = asyncio.ensure_future(self._ask(portal, arguments))
            await self._asking
        except asyncio.CancelledError:
            if not self._cancelled:
                if self._asking is not None:
                    self._asking.cancel()
                raise
            raise Refusal("57014", "cancelled, as the client asked") from None
        except SelectError as error:
            write = write_of(portal.prepared.text)
            if write:
                said = f"cannot execute {write} in a read-only transaction"
                raise Refusal("25006", said, error.remedy) from None
            raise error.moved(portal.edited.before) from None
        finally:
            self._asking, self._cancelled = None, False

    async def _ask(self, portal: Portal, arguments: dict[str, Any]) -> None:
        """The answer is the portal's at once, to be released with it whatever ends this session."""
        asked = Question("postgres", arguments, self._limits.answer_bytes_max)
        answering = self._statements.answer(asked, self._client, asking=True)
        portal.answer = await answering

    def _may_ask(self) -> None:
        if self.opening.auth.still(self._grant) is None:
            raise Refusal("28000", "the token has been exchanged", "connect again", fatal=True)
        if self._link.status == TransactionStatus.ERROR_TRANSACTION:
            raise Refusal("25P02", "the transaction has failed", "ROLLBACK first")

    def _tell(self, portal: Portal) -> None:
        """What the answer is true of."""
        said = portal.head["notice"]
        if said and not self._settings.is_quiet:
            self._link.put(wire.NoticeResponse(fields=notice_fields(said)))

    async def _rows(self, portal: Portal, most: int, tag: str = "SELECT") -> None:
        before = portal.rows_sent
        if not before:
            self._tell(portal)
        async for piece in portal.rows(most):
            self._link.put_rows(piece)
            await self._link.flush()
        if most and tag == "SELECT" and portal.rows_sent < portal.head.get("rows", 0):
            self._link.put(wire.PortalSuspended())
            return
        self._link.put(wire.CommandComplete(tag=f"{tag} {portal.rows_sent - before}"))

    def _obey(self, command: SessionCommand) -> None:
        failed = self._link.status == TransactionStatus.ERROR_TRANSACTION
        tag = command.tag
        if failed and tag not in ("ROLLBACK", "COMMIT"):
            raise Refusal("25P02", "the transaction has failed", "ROLLBACK first")
        if tag == "BEGIN":
            self._link.status = TransactionStatus.IN_TRANSACTION
        elif tag == "ROLLBACK" and command.name:  # to a savepoint: nothing was done since
            self._link.status = TransactionStatus.IN_TRANSACTION if failed else self._link.status
        elif tag in ("COMMIT", "ROLLBACK"):
            tag = "ROLLBACK" if failed else tag
            for portal in self._prepared.portals.values() if tag == "COMMIT" else ():
                declared = portal.prepared.cursor
                portal.held = portal.held or (declared is not None and declared.hold)
            self._link.status = TransactionStatus.IDLE
        elif tag == "RESET" or (tag == "SET" and command.value.upper() == "DEFAULT"):
            self._settings.reset(command.name)
        elif tag == "SET" and command.name:
            self._settings.set(command.name, command.value)
        if tag in ("DEALLOCATE", "DISCARD ALL"):
            for name in [n for n in self._prepared.prepared if command.name in ("", n)]:
                del self._prepared.prepared[name]
        if tag in ("CLOSE CURSOR", "DISCARD ALL"):
            for name in [n for n in self._prepared.portals if n and command.name in ("", n)]:
                self._release(self._prepared.portals.pop(name))
        if tag == "DISCARD ALL":  # what a pool sends before it lends a connection to another
            self._settings.reset("")
        self._link.put(wire.CommandComplete(tag=tag))

    def _release(self, portal: Portal | None) -> None:
        if portal is not None and portal.answer is not None:
            self._statements.release(portal.answer, self._client)
            portal.answer = None

    def _drop_portals(self) -> None:
        for name, portal in [*self._prepared.portals.items()]:
            if not portal.held:
                self._release(self._prepared.portals.pop(name))


async def _aside(text: str, work: Callable[[], T]) -> T:
    """What is done with a text; with a long one in a thread, so that other clients are served."""
    return work() if len(text) <= ASIDE_BYTES else await asyncio.to_thread(work)
