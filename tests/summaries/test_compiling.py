"""Whoever waits for a kernel that is compiled is told so, once."""

import logging

from numba.core import event

from muntin.summaries.kernels import compiling


def test_a_word_is_said_once_after_a_second(monkeypatch, caplog):
    now = [100.0]
    watch = compiling._Watch()
    monkeypatch.setattr(compiling.time, "monotonic", lambda: now[0])
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
    assert caplog.messages == ["compiling kernels, once per machine: some seconds more"]


def test_numba_tells_of_each_kernel():
    assert compiling._watch in event._registered["numba:compile"]
    with event.trigger_event("numba:compile"):
        assert compiling.compiling()
    assert not compiling.compiling()
