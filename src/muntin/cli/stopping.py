"""Ctrl-C and SIGTERM: a clean end at any moment."""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from types import FrameType
from typing import NoReturn

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_GENTLY = "\nstopping; a batch at hand ends first, and what was committed stays\n"
_AT_ONCE = "\nstopped; what was committed stays\n"


class Stop:
    """Whether somebody asked to stop, and what that means by now.

    Until `begun` there is nothing to finish: the first signal ends the process, and Spark's with
    it. From then on it is for the batch at hand to end, and the second signal does not wait.

    No `Event` says so: a handler runs between any two steps of the main thread, also of `wait` or
    of another signal's handler, and would wait for ever for the lock that these hold.
    """

    signal = 0
    """By which somebody has asked."""

    def __init__(self) -> None:
        self._asked = False
        self._wake: SimpleQueue[None] = SimpleQueue()  # whose `put` is for signal handlers, too
        self._on_asked: Callable[[], None] | None = None

    def begun(self, on_asked: Callable[[], None] = lambda: None) -> None:
        """There is a pipeline that must be stopped in order; `on_asked` tells it at once, since
        Java ends by itself where the same signal went to all processes, as by systemd."""
        self._on_asked = on_asked

    def has_begun(self) -> bool:
        return self._on_asked is not None

    def is_set(self) -> bool:
        return self._asked

    def wait(self, seconds: float) -> bool:
        """Whether somebody has asked, after so many seconds at most. For one thread."""
        if not self._asked:
            with suppress(Empty):
                self._wake.get(timeout=seconds)
        return self._asked

    def on_signal(self, number: int, _: FrameType | None) -> None:
        """An exception would come in the middle of a call to Java, and leave Java behind."""
        if self._on_asked is not None and not self.is_set():
            self.signal, self._asked = number, True
            self._wake.put(None)
            self._on_asked()
            _say(_GENTLY)
            return
        end_at_once(number)


def end_at_once(number: int) -> NoReturn:
    """End this process as by a signal, and Spark's with it."""
    for each in _SIGNALS:
        signal.signal(each, signal.SIG_IGN)  # no third one between here and the end
    _say(_AT_ONCE)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # threads that miss Java say so at length
    try:
        if started := sys.modules.get("muntin.spark.java"):
            started.end_all()  # which it does not have yet while it is imported
    finally:  # an error may be lost where Python just is, and then nothing would stop this process
        os._exit(128 + number)


@contextmanager
def stopping() -> Iterator[Stop]:
    """Handle both signals for the block."""
    stop = Stop()
    before = {number: signal.signal(number, stop.on_signal) for number in _SIGNALS}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def stop_spark() -> None:
    """End Spark's processes now, in order, rather than when this one ends."""
    if "pyspark" not in sys.modules:
        return
    from pyspark.sql import SparkSession

    from muntin.spark.failures import unless_java_is_gone
    from muntin.spark.session import is_classic

    with unless_java_is_gone():
        active = SparkSession.getActiveSession()
        if active is not None:
            if is_classic(active):  # tasks that still run say at length what they miss
                active.sparkContext.setLogLevel("OFF")
            active.stop()


def _say(text: str) -> None:
    with suppress(OSError):  # a log's disk may be full
        os.write(2, text.encode())  # a handler may not wait for a lock that a print holds
