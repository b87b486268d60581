"""The line of progress: how far behind a run is, and and where it is shown instead of the view."""

import io
import sys

import pytest

from muntin.cli.view import behind, follow
from muntin.spark.progress import job_progress

SECOND = 1_000_000
DAY = 86_400 * SECOND
NOW = 1_700_000_000 * SECOND


def test_how_far_behind():
    assert behind({"orders": {"0": 2_000, "1": 5}}, NOW - DAY, NOW, False) == [
        "2,005 records behind"
    ]
    assert behind({"orders": {"0": 1}}, None, NOW, False) == ["1 record behind"]
    assert behind({}, NOW - 7_500 * SECOND - 3, NOW, False) == ["2 hours behind the clock"]
    assert behind({}, NOW - 3 * DAY - 1, NOW, False) == ["3 days behind the clock"]
    assert behind({}, NOW + SECOND, NOW, False) == ["0 seconds behind the clock"]
    for newest, once in ((None, False), (NOW - DAY, True), (NOW - 5_000 * DAY, False)):
        assert behind({}, newest, NOW, once) == []


class Ended:
    """All of a stream that lines need."""

    def await_termination(self, _seconds: float) -> bool:
        return True


@pytest.mark.parametrize(
    ("name", "value", "terminal"), [("FORCE_COLOR", "1", False), ("TERM", "dumb", True)]
)
def test_the_view_is_for_what_can_redraw_it(monkeypatch, name, value, terminal):
    out = io.StringIO()
    out.isatty = lambda: terminal
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setenv(name, value)
    follow(Ended())
    assert not out.getvalue()


CLOSED = io.StringIO()
CLOSED.close()


@pytest.mark.parametrize("stream", [None, CLOSED, object()])
def test_a_job_needs_no_standard_error(monkeypatch, stream):
    """Which a service may not have, and for which schedulers put objects that only write."""
    monkeypatch.setattr(sys, "stderr", stream)
    with job_progress(None, "summarising"):
        pass
