"""Server-Sent Events: the plain fallback."""

from __future__ import annotations

import json

import httpx
import pytest

from tests.server.conftest import until


def lines(answer):
    event = {}
    for line in answer.iter_lines():
        if not line:
            if "data" in event:
                yield event
            event = {}
        elif not line.startswith(":"):
            name, _, value = line.partition(": ")
            event[name] = value


def test_windows_and_coming_back(server, feeder):
    with httpx.stream("GET", server.url + "/events?windows=true", timeout=10) as answer:
        assert answer.headers["content-type"] == "text/event-stream"
        found = lines(answer)
        feeder.minute()
        first = next(e for e in found if '"window"' in e["data"])
    feeder.minute()
    back = {"last-event-id": first["id"]}
    with httpx.stream(
        "GET", server.url + "/events?windows=true", headers=back, timeout=10
    ) as again:
        second = next(e for e in lines(again) if '"window"' in e["data"])
    starts = [json.loads(e["data"])["window"]["start"] for e in (first, second)]
    assert starts[0] < starts[1]
    until(lambda: "muntin_streams 0.0" in httpx.get(server.url + "/metrics").text)


def test_a_statement(server):
    about = {"select": "SELECT count FROM orders FOR ALL"}
    with httpx.stream("GET", server.url + "/events", params=about, timeout=10) as answer:
        data = json.loads(next(lines(answer))["data"])
    assert data["result"]["rows"] == [[90]]


@pytest.mark.parametrize("parameters", [
    {}, {"select": "SELECT"}, {"other": "x"}, {"windows": "true", "on": "update"},
    {"select": "SELECT 1", "after": "x"},
])  # fmt: skip
def test_wrong_requests(server, parameters):
    answer = httpx.get(server.url + "/events", params=parameters)
    assert answer.status_code == 400
    assert answer.json()["error"]["message"]
