"""FOR OPEN is the window that closes next, whatever its kind."""

import pytest

from muntin.errors import SelectError
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


@pytest.mark.parametrize(
    ("clause", "batches", "message", "remedy"),
    [
        ("plain FOR WINDOW LAST", 1, "plain has no windows that close", "give it one"),
        ("orders FOR WINDOW LAST", 0, "no closed window of orders is", "FOR OPEN"),
        ("plain FOR WINDOW '2023-11-14'", 1, "starts at 2023-11-14T00:00:00Z", "needs no window"),
        ("orders FOR WINDOW '2023-11-14'", 1, "no closed window", "first one starts at 2023-11-14"),
        ("orders FOR WINDOW '2023-11-15'", 1, "no closed window", "before it starts at 2023-11-14"),
    ],
)
def test_where_there_is_no_such_window_the_error_says_what_there_is(
    clause, batches, message, remedy
):
    keys = {"keys": ["driver"]}
    orders = keys | {"window": {"kind": "tumbling", "length": "1 minute"}}
    summaries = {"orders": orders, "plain": keys}
    rows = [(second, "a", 1, 1, 1) for second in SECONDS]
    with run(pipeline(summaries=summaries), [[events(rows)]] * batches) as ingest:
        with pytest.raises(SelectError, match=message) as refused:
            Session(ingest.ledger).sql(f"SELECT count FROM {clause}")  # noqa: S608
        assert remedy in refused.value.remedy
