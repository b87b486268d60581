"""Whoever waits for a kernel that is compiled is told so, once."""

import logging
import os

import pytest
from numba.core import event

from muntin.summaries.kernels import compiling
from tests.server.conftest import until

SAID = "compiling kernels, once per machine: up to a minute more"


@pytest.fixture
def now(monkeypatch, tmp_path):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    clock = [100.0]
    monkeypatch.setattr(compiling.time, "monotonic", lambda: clock[0])
    return clock


def test_a_word_is_said_once_after_a_second(now, caplog):
    watch = compiling._CompileListener()
    with caplog.at_level(logging.WARNING, "muntin"):
        watch.on_start(None)
        assert watch.running
        now[0] += 0.6
        watch.on_start(None)  # one that the first calls
        now[0] += 0.3
        watch.on_end(None)
        assert not caplog.messages
        now[0] += 0.2
        watch.on_end(None)
        assert not watch.running
        now[0] += 50  # nothing is compiled in this time
        watch.on_start(None)
        watch.on_end(None)
    assert caplog.messages == [SAID]


def test_of_a_command_s_processes_one_says_it(now, caplog, tmp_path):
    """Each has a watch of its own, and they share the cache."""
    with caplog.at_level(logging.WARNING, "muntin"):
        for process in range(3):
            if process == 2:  # days later
                os.utime(tmp_path / "compiling", (0, 0))
            watch = compiling._CompileListener()
            watch.on_start(None)
            now[0] += 2
            watch.on_end(None)
    assert caplog.messages == [SAID, SAID]


def test_numba_tells_of_each_kernel():
    assert compiling._watch in event._registered["numba:compile"]
    with event.trigger_event("numba:compile"):
        assert compiling.compiling()
    until(lambda: not compiling.compiling())  # what other tests' threads still compile
