"""Clients' commands: a row in the ledger's control table, which the pipeline's process obeys."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

from starlette.concurrency import run_in_threadpool

from muntin.errors import UnknownName
from muntin.server.limits import ServerLimits
from muntin.server.messages import LiveCommand
from muntin.server.problems import RefusalError
from muntin.server.reader import Reader

LOOK_SECONDS = 0.05
AT_ONCE = 4  # of the threads that also read the page's files, and tokens: some are left for these


class Commands:
    """`slow_down` and `resume`."""

    def __init__(self, reader: Reader, limits: ServerLimits) -> None:
        self._reader = reader
        self._limits = limits
        self._places = asyncio.Semaphore(AT_ONCE)

    async def obey(self, command: LiveCommand, who: str) -> dict[str, Any]:
        """Put the command into the ledger and wait for what was done, by summary. Raises
        MuntinError: there is no such pipeline or summary, or nobody answered in time."""
        pipeline = await self._read(self._pipeline, command)
        ledger = self._reader.ledger
        arguments = {"summary": command.summary} if command.summary else {}
        asked = await self._read(ledger.ask, pipeline, command.action, arguments, client=who)
        deadline = time.monotonic() + self._limits.command_seconds
        while time.monotonic() < deadline:
            await asyncio.sleep(LOOK_SECONDS)
            found = await self._read(ledger.command, asked.id)
            if found is not None and found.answer is not None:
                return dict(found.answer)
        said = f"pipeline {pipeline} did not answer within {self._limits.command_seconds:.0f} s"
        remedy = "is it running? When it runs again it will obey"
        raise RefusalError(504, "no_answer", said, remedy)

    def _pipeline(self, command: LiveCommand) -> str:
        if command.summary:
            found = self._reader.pipeline_of(command.summary)
            if command.pipeline in ("", found):
                return self._reader.pipeline(found).name
            raise UnknownName(f"'{command.summary}' is a summary of {found}")
        pipelines = self._reader.pipelines()
        if not command.pipeline and len(pipelines) == 1:
            return next(iter(pipelines))
        return self._reader.pipeline(command.pipeline).name

    async def _read(self, work: Callable[..., Any], *given: Any, **named: Any) -> Any:
        """Of the ledger, or write to it, which may be locked."""
        try:
            async with asyncio.timeout(self._limits.command_seconds):
                await self._places.acquire()
        except TimeoutError:
            said = "too many commands wait for the ledger"
            raise RefusalError(503, "busy", said, "ask again later") from None
        try:
            return await run_in_threadpool(work, *given, **named)
        finally:
            self._places.release()
