"""FOR OPEN is the window that closes next, whatever its kind."""

import pytest

from muntin.session import Session
from tests.pipeline.support import START, events, pipeline, run

SECONDS = range(0, 405, 5)


@pytest.mark.parametrize(
    ("window", "length", "every"),
    [
        ({"kind": "floating", "length": "1 minute"}, 60, 60),
        ({"kind": "tumbling", "length": "1 minute"}, 60, 60),
        ({"kind": "sliding", "length": "1 minute", "every": "20 seconds"}, 60, 20),
    ],
)
def test_the_open_window(window, length, every):
    summary = {"keys": ["driver"], "indicators": ["fare"], "window": window}
    rows = [(second, "a", 1, 1, 1) for second in SECONDS]
    with run(pipeline(summaries={"orders": summary}), [[events(rows)]]) as ingest:
        found = Session(ingest.ledger).sql("SELECT count FROM orders FOR OPEN")
        start, end = found.window.covered
        sealed = (START // 10**6 + 400 - 30) // 10 * 10
        if window["kind"] == "floating":
            expected = START // 10**6 + (sealed - START // 10**6) // 60 * 60
        else:
            expected = (sealed - length) // every * every + every
        assert start == expected * 10**6
        inside = sum(start <= START + second * 10**6 < end for second in SECONDS)
        assert found.rows == [[inside]]
