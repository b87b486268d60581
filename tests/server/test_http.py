"""HTTP: what is answered, how errors read, and that the OpenAPI document says so."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import re
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pyarrow as pa
import pytest
from starlette.applications import Starlette
from websockets.sync.client import connect

from muntin.ledger.temporary import temporary
from muntin.server.app import FOLDER, page_routes
from muntin.server.commands import Commands
from muntin.server.http import described
from muntin.server.serving import Server
from muntin.spark.ingest import Ingest
from tests.pipeline.support import START
from tests.server.beating import OVERDUE, beating_pipeline
from tests.server.conftest import PATIENCE_SECONDS, fed_server, until

DOCS = Path(__file__).parents[2] / "docs"
SELECT = "SELECT driver, count FROM orders(driver) FOR ALL ORDER BY driver"
ARROW = "application/vnd.apache.arrow.stream"


@pytest.fixture(scope="module")
def fed():
    """A ledger that does not change while it is asked."""
    with fed_server() as server:
        yield server


@pytest.fixture
def http(fed):
    with httpx.Client(base_url=fed.url) as client:
        yield client


def ask(http, statement, **headers):
    return http.post("/query", json={"select": statement}, headers=headers)


def test_nothing_waits_for_a_receipt(fed):
    """Without TCP_NODELAY an answer's second piece waits until the first is acknowledged."""
    hub = fed.app.state.hub
    with connect("ws" + fed.url[4:] + "/live") as client:
        client.recv(timeout=60)
        (there,) = hub.clients
        connected = there._socket.transport.get_extra_info("socket")
        assert connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_commands_that_wait_hold_up_no_page(feeder, ledger, server, monkeypatch):
    """Where a ledger is locked, or its store slow, each takes a thread for seconds."""
    asked, free, ask = [], threading.Event(), ledger.ask

    async def obey(commands, *given, obey=Commands.obey):
        asked.append(given)
        return await obey(commands, *given)

    def locked(*given, **named):
        assert free.wait(PATIENCE_SECONDS)
        return ask(*given, **named)

    monkeypatch.setattr(Commands, "obey", obey)
    monkeypatch.setattr(ledger, "ask", locked)

    def command(_):
        given = {"action": "slow_down", "summary": "orders"}
        return httpx.post(f"{server.url}/commands", json=given, timeout=PATIENCE_SECONDS)

    with ThreadPoolExecutor(50) as pool:
        answers = pool.map(command, range(50))
        try:
            until(lambda: len(asked) == 50)
            page = httpx.get(server.url, timeout=PATIENCE_SECONDS / 4)
        finally:
            free.set()
        assert {answer.status_code for answer in answers} <= {200, 503}
    assert page.is_success


def test_query_json(http):
    answer = ask(http, SELECT)
    assert answer.status_code == 200
    found = answer.json()
    assert found["columns"] == ["driver", "count"]
    assert found["rows"] == [["a", 18], ["b", 18], ["c", 18], ["d", 18], ["e", 18]]
    assert found["exact"] is True
    assert found["stale"] is False
    assert found["window"]["covered"]["start"] <= found["watermark"]


def test_query_as_text(http):
    answer = http.post("/query", content=SELECT, headers={"content-type": "text/plain"})
    assert answer.json()["rows"][0] == ["a", 18]


def test_query_arrow_has_the_particulars(http):
    answer = ask(http, SELECT, accept=ARROW)
    assert answer.headers["content-type"] == ARROW
    table = pa.ipc.open_stream(answer.content).read_all()
    assert table.to_pydict() == {"driver": list("abcde"), "count": [18] * 5}
    about = json.loads(table.schema.metadata[b"muntin"])
    assert about["exact"] is True
    never = ask(http, SELECT, accept=f"{ARROW};q=0, application/json")
    assert about["watermark"] == never.json()["watermark"]


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        (f"application/json, {ARROW}", ARROW),
        (f"application/json;q=0.5, {ARROW};q=0.9", ARROW),
        (f"application/json, {ARROW};q=0.9", "application/json"),
        (f"{ARROW};q=0.5, */*", "application/json"),
        (f"{ARROW};q=0.5, application/json;q=0.1, */*", ARROW),
        (f"text/html, {ARROW};q=0.5", ARROW),
        (f"{ARROW};q=0.000", "application/json"),
        ("*/*", "application/json"),
    ],
)
def test_the_form_is_the_one_that_a_client_prefers(http, accept, form):
    assert ask(http, SELECT, accept=accept).headers["content-type"] == form


def test_a_wrong_statement_shows_its_place(http):
    text = "SELECT drivr FROM orders(driver)"
    answer = ask(http, text)
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert error["code"] == "unknown_column"
    assert text[error["position"] : error["position"] + error["length"]] == "drivr"
    assert "driver" in error["remedy"]


@pytest.mark.parametrize(("body", "kind", "status"), [
    (b"{", "application/json", 400),
    (b"[" * 60_000, "application/json", 400),
    (b"[]", "application/json", 400),
    (b'{"select": 1}', "application/json", 400),
    (b'{"select": "SELECT 1", "more": 1}', "application/json", 400),
    (b"\xff\xfe", "application/json", 400),
    (b"\xff\xfe", "text/plain", 400),
    (b"SELECT 1", "application/x-www-form-urlencoded", 415),
    (b"x" * 33_000, "text/plain", 413),
    (b"x" * 70_000, "text/plain", 413),
    (b'{"select": "SELECT 1"}' + b" " * 65_536, "application/json", 413),
    (b"COPY (SELECT 1) TO '/tmp/x'", "text/plain", 400),
    (b"SELECT * FROM read_csv('/etc/passwd')", "text/plain", 400),
])  # fmt: skip
def test_bad_bodies(http, body, kind, status):
    answer = http.post("/query", content=body, headers={"content-type": kind})
    assert answer.status_code == status
    error = answer.json()["error"]
    assert error["code"]
    assert error["message"]


def test_a_body_that_is_compressed_is_named(http):
    given = {"content-type": "text/plain", "content-encoding": "gzip"}
    answer = http.post("/query", content=gzip.compress(b"SELECT 1"), headers=given)
    assert answer.status_code == 415
    assert "Content-Encoding: 'gzip'" in answer.text


def test_windows(http):
    found = http.get("/windows", params={"summary": "orders"}).json()["windows"]
    assert found
    assert {w["reason"] for w in found} == {"full"}
    assert all(w["fill"]["driver"] == 5 for w in found)
    newest = http.get("/windows", params={"limit": 1, "newest_first": "true"}).json()["windows"]
    assert newest == [found[-1]]
    later = http.get("/windows", params={"start": found[-1]["start"]}).json()["windows"]
    assert later == newest


@pytest.mark.parametrize("parameters", [
    {"limit": "0"}, {"limit": "x"}, {"start": "yesterday"}, {"summary": "none"}, {"other": "1"},
    {"newest_first": "yes"}, {"limit": "9" * 40}, {"limit": "²"},
    {"limit": ["1", "2"]},
])  # fmt: skip
def test_bad_parameters(http, parameters):
    answer = http.get("/windows", params=parameters)
    assert answer.status_code == 400
    assert answer.json()["error"]["message"]


def test_a_long_query_string_is_not_read(http, monkeypatch):
    read = "muntin.server.http.Request.query_params"
    monkeypatch.setattr(read, property(lambda _: pytest.fail("it was read")))
    for path in ("/windows?", "/state?", "/rejected?pipeline="):
        answer = http.get(path + "%41" * 1_000)
        assert answer.status_code == 400
        assert "of more than 2,048 bytes" in answer.json()["error"]["message"]


@pytest.mark.parametrize("path", ["/history", "/rejected"])
def test_a_pipeline_that_is_not_named(http, path):
    said = http.get(path).json()["error"]["message"]
    assert said == "pipeline: name one; there are: orders"


def test_summaries(http):
    found = http.get("/summaries").json()
    assert found["summaries"][0]["keys"] == [["driver"], ["driver", "area"]]
    assert found["summaries"][0]["windows"] == "floating"
    assert found["summaries"][0]["parts"] == []
    assert found["queries"][0]["name"] == "busiest"
    assert found["queries"][0]["on"] == "window"


def test_summaries_of_joined_items_name_their_columns():
    ledger = temporary()
    ingest = Ingest(beating_pipeline(), ledger, query_id="q")
    with Server(ledger, port=0) as server:
        found = httpx.get(server.url + "/summaries").json()
    ingest.close()
    assert found["summaries"][0]["parts"] == ["driver", "area"]
    overdue = {"name": "overdue", "select": OVERDUE, "on": "update", "pipeline": "calls"}
    assert found["queries"] == [overdue]


def test_state(http):
    state = http.get("/state").json()["pipelines"][0]
    assert state["read"] == state["counted"] == 90
    assert state["open"]["orders"]["length_us"] == 60_000_000
    assert state["watermark"] >= START


def test_rejected(server, feeder):
    feeder.rows([(60 * 60 * 24 * 365 * 20, "a", 0, 1, 1)])  # far in the future
    feeder.rows([(-START // 1_000_000 - 1, "a", 0, 1, 1), (60 * 60 * 24 * 365 * 20, "b", 0, 1, 1)])
    found = httpx.get(server.url + "/rejected?pipeline=orders&limit=2").json()
    assert [r["reason"] for r in found["rejected"]] == ["future", "before_1970"]
    assert list(found["reasons"].items()) == [("future", 2), ("before_1970", 1)]
    found = httpx.get(server.url + "/rejected?pipeline=orders&newest_first=true&after=1").json()
    assert [r["number"] for r in found["rejected"]] == [3, 2]
    assert httpx.get(server.url + "/rejected?pipeline=other").status_code == 400


def test_health_and_metrics(http):
    ask(http, SELECT)
    health = http.get("/healthz").json()
    assert health["status"] == "ok"
    assert health["pipelines"] in ({"running": 1}, {"idle": 1})  # as long as the start took
    until(lambda: http.get("/readyz").json() == {"ready": True})
    text = http.get("/metrics").text
    assert 'muntin_read_total{pipeline="orders"} 90.0' in text
    assert "muntin_query_seconds_bucket" in text
    assert 'muntin_queries_total{outcome="answered"}' in text


def test_each_metric_is_in_the_documents(http):
    told = "".join(page.read_text("utf-8") for page in DOCS.glob("*.md"))
    text = re.sub(r"^# TYPE \w+_created .*", "", http.get("/metrics").text, flags=re.MULTILINE)
    named = re.findall(r"^# TYPE (\w+)", text, re.MULTILINE)
    assert [name for name in named if not re.search(rf"`{name}\b", told)] == []


def test_beside_a_pipeline_nothing_is_ready_before_it_has_begun(ledger, feeder):
    begun = threading.Event()
    with Server(ledger, port=0, begun=begun.is_set) as server:
        early = httpx.get(server.url + "/readyz")
        assert (early.status_code, early.json()) == (503, {"ready": False})
        assert httpx.get(server.url + "/healthz").status_code == 200  # nobody is to be killed
        begun.set()
        until(lambda: httpx.get(server.url + "/readyz").status_code == 200)


def test_every_documented_route_answers(http):
    served = http.get("/openapi.json").json()
    assert served == described("muntin.server")
    assert "'type': 'array'}" not in str(served)  # generators of clients refuse one without items
    for path, route in served["paths"].items():
        for method, about in route.items():
            bare = http.request(method, path)
            documented = about["responses"]
            assert str(bare.status_code) in documented or "default" in documented
            if bare.status_code != 200:
                assert set(bare.json()) == {"error"}, path
        other = http.request("DELETE", path)
        assert (other.status_code, other.json()["error"]["code"]) == (405, "method")


def test_what_no_route_takes_is_an_error_as_any_other(http):
    nothing, missing = http.get("/quer"), http.get("/static/none.js")
    wrong, written = http.get("/query"), http.post("/static/muntin.js")
    no_upgrade = http.get("/live")
    for answer, status, code in (
        (nothing, 404, "path"), (missing, 404, "path"), (wrong, 405, "method"),
        (written, 405, "method"), (no_upgrade, 426, "upgrade"),
    ):  # fmt: skip
        assert answer.status_code == status
        assert set(answer.json()["error"]) == {"code", "message", "position", "length", "remedy"}
        assert answer.json()["error"]["code"] == code
    assert "'/quer'" in nothing.json()["error"]["message"]
    assert wrong.headers["allow"] in wrong.json()["error"]["remedy"] == "send POST"


def test_nothing_is_redirected(http):
    """Where a proxy speaks TLS, or adds a path, the server does not know its own URL."""
    slash = http.get("/summaries/")
    assert slash.status_code == 404
    assert slash.json()["error"]["remedy"].startswith("leave out the / at the end")


def test_a_page_that_is_known_is_not_sent_again(http):
    for path in ("/", "/static/muntin.js"):
        known = {"if-none-match": http.get(path).headers["etag"]}
        assert http.get(path, headers=known).status_code == 304


def test_a_file_that_was_replaced_is_sent_whatever_its_size_and_time(tmp_path):
    file = tmp_path / "a.js"
    app = Starlette(routes=page_routes(tmp_path, "/static"))

    async def sent():
        tag = ""
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(app), base_url="http://localhost"
        ) as asked:
            for text in ("old", "new"):
                file.write_text(text)
                os.utime(file, (0, 0))  # as a reproducible build has it
                answer = await asked.get("/static/a.js", headers={"if-none-match": tag})
                assert answer.text == text
                tag = answer.headers["etag"]

    asyncio.run(sent())


def test_the_page_asks_for_its_modules_at_once():
    """Else each waits for the one that imports it."""
    page = (FOLDER / "index.html").read_text()
    wanted, found = ["muntin.js"], set()
    while wanted:
        text = (FOLDER / wanted.pop()).read_text()
        new = set(re.findall(r'^import .* from "\./(.*)";', text, re.MULTILINE)) - found
        wanted += new
        found |= new
    assert set(re.findall(r'rel="modulepreload" href="static/(.*?)"', page)) == found


@pytest.mark.parametrize("path", [
    "/static/../app.py", "/static/..%2fapp.py", "/static/%2e%2e/app.py", "/static/..\\app.py",
    "/static/panels/../../app.py", "/static//etc/passwd", "/static/%00", "/static/" + "a" * 5000,
    "/app.py", "/static/%2e%2e%2f%2e%2e%2fserver%2fapp.py",
])  # fmt: skip
def test_no_path_out_of_the_static_files(http, path):
    answer = http.send(
        httpx.Request("GET", http.base_url.join(path).copy_with(raw_path=path.encode()))
    )
    assert answer.status_code in (400, 404, 405)
    assert b"Starlette" not in answer.content


def test_pages_are_kept_to_themselves(http):
    headers = http.get("/").headers
    assert "script-src 'self'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers.get_list("cache-control") == ["no-cache"]
    with http.stream("GET", "/events?state=true") as answer:  # where a route says another, it holds
        assert answer.headers.get_list("cache-control") == ["no-store"]
        assert answer.headers["referrer-policy"] == "no-referrer"
