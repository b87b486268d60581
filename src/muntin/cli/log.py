"""What a pipeline says goes to a log, whose disk may be full: that stops no pipeline."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import Any


class Log:
    """A text stream that leaves out what there is no room for, and says so once there is."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._why = ""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        self._try(self._stream.write, text)
        return len(text)

    def flush(self) -> bool:
        done = self._try(self._stream.flush)
        if done and self._why:
            why, self._why = self._why, ""
            self.write(f"what stood here could not all be written: {why}\n")
        return done

    def _try(self, act: Callable[..., Any], *given: Any) -> bool:
        try:
            act(*given)
        except BrokenPipeError:  # nobody reads on: as ever
            raise
        except OSError as problem:
            self._why = problem.strerror
            return False
        return True


@contextmanager
def logged() -> Iterator[None]:
    """Both streams of this process are such, for the block."""
    logs: Any = Log(sys.stdout), Log(sys.stderr)
    with redirect_stdout(logs[0]), redirect_stderr(logs[1]):
        yield
    for log in logs:
        if not log.flush():  # what is left would be tried again at the end, and be an error
            os.dup2(os.open(os.devnull, os.O_WRONLY), log.fileno())
