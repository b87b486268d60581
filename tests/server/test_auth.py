"""Who comes in."""

from __future__ import annotations

import httpx
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect as open_socket

from muntin.errors import BadArgument
from muntin.hosts import is_loopback
from muntin.ledger.temporary import temporary
from muntin.server.app import make_app
from muntin.server.auth import Auth
from muntin.server.limits import ServerLimits
from muntin.server.serving import Server

READER, OPERATOR = "reader-0123456789", "operator-0123456789"


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def auth(clock):
    return Auth(reader_token=READER, operator_token=OPERATOR, now=clock)


def bearer(token):
    return {"authorization": f"Bearer {token}"}


def test_tokens(auth):
    assert auth.grant({}) is None
    assert auth.grant(bearer("wrong-0123456789")) is None
    assert auth.grant(bearer("")) is None
    assert auth.grant({"authorization": f"Basic {READER}"}) is None
    assert not auth.grant(bearer(READER)).may_command
    assert auth.grant(bearer(OPERATOR)).may_command


@pytest.mark.parametrize(
    ("token", "why"),
    [("secret", "can be guessed"), (f"{READER}\n{OPERATOR}", "be sent"), (f"{READER} ", "be sent")],
)
def test_a_token_that_can_be_guessed_or_not_be_sent_is_refused(clock, token, why):
    with pytest.raises(BadArgument, match=why):
        Auth(reader_token=token, now=clock)


def test_tickets_serve_once_and_not_for_long(auth, clock):
    grant = auth.grant(bearer(READER))
    ticket = auth.issue(grant)
    assert auth.redeem("x" + ticket) is None
    assert auth.redeem(ticket) == grant
    assert auth.redeem(ticket) is None
    old = auth.issue(grant)
    clock.now += ServerLimits().ticket_seconds
    assert auth.redeem(old) is None


def test_tickets_are_bounded(clock):
    auth = Auth(now=clock, limits=ServerLimits(tickets_max=3))
    grant = auth.grant({})
    tickets = [auth.issue(grant) for _ in range(5)]
    assert [auth.redeem(t) is not None for t in tickets] == [False, False, True, True, True]


@pytest.mark.parametrize(("origin", "allowed"), [
    ("http://127.0.0.1:8787", True),
    ("HTTP://127.0.0.1:8787", True),
    ("https://ops.example", True),
    ("https://ops.example:443", True),
    ("http://ops.example", False),
    ("https://ops.example.evil", False),
    ("https://evil.example", False),
    ("https://127.0.0.1:8787", True),
    ("https://127.0.0.1", False),
    ("http://127.0.0.1:8788", False),
    ("http://127.0.0.1:8787@evil.example", False),
    ("null", False),
    ("", False),
    ("http://127.0.0.1:99999", False),
    ("http://[", False),
    ("file://", False),
    ("https://ops.example/", False),
    ("evil.example", False),
    ("http://127.0.0.1:8787#", False),
    ("chrome-extension://abc", False),
])  # fmt: skip
def test_origins(clock, origin, allowed):
    auth = Auth(origins=["https://ops.example"], now=clock)
    headers = {"origin": origin, "host": "127.0.0.1:8787"}
    assert auth.page_allowed(headers, secure=False) is allowed


@pytest.mark.parametrize("origin", [
    "ops.example", "null", "", "*", "file://", "https://", "https://ops.example/",
    "https://ops.example/page", "https://ops.example?x", "https://a@ops.example",
    "https://ops.example:0", "https://ops.example:99999", "ftp://ops.example", "https://ops x",
])  # fmt: skip
def test_an_origin_that_is_none_is_refused_at_start(clock, ledger, origin):
    with pytest.raises(BadArgument, match=r"origin .* for example https://ops\.example"):
        Auth(origins=["https://ops.example", origin], now=clock)
    with pytest.raises(BadArgument, match="is none"):
        Server(ledger, port=0, origins=[origin])


@pytest.mark.parametrize(("name", "known"), [
    ("Ops.Example", True), ("ops.example:8787", True), ("fe80::1", True), ("[fe80::1]", True),
    ("https://ops.example", False), ("", False), ("a b", False),
])  # fmt: skip
def test_a_host_name_that_is_none_is_refused_at_start(clock, name, known):
    if not known:
        with pytest.raises(BadArgument, match=r"host name .* for example ops\.example"):
            Auth(hosts=[name], now=clock)
        return
    called = "[fe80::1]:8787" if "fe80" in name else "ops.example:8787"
    assert Auth(hosts=[name], now=clock).host_allowed({"host": called})


@pytest.mark.parametrize(("site", "allowed"), [
    ("cross-site", False), ("same-site", False), ("same-origin", True), ("none", True),
    ("", False), ("x", False),
])  # fmt: skip
def test_pages_that_send_no_origin(clock, site, allowed):
    auth = Auth(now=clock)
    assert auth.page_allowed({"sec-fetch-site": site}, secure=False) is allowed
    assert auth.page_allowed({}, secure=False)  # no browser


def test_a_foreign_name_for_loopback_is_refused(clock):
    auth = Auth(hosts=["muntin.lan"], now=clock)
    for host, allowed in (
        ("127.0.0.1:8787", True),
        ("localhost:8787", True),
        ("[::1]:8787", True),
        ("muntin.lan", True),
        ("evil.example:8787", False),
        ("", False),
        ("[::1].evil.com", False),
        ("[::1]evil.com:8787", False),
        ("[[::1]]", False),
        ("::1", False),
        ("127.0.0.1:evil.com", False),
        ("localhost:80@evil.com", False),
    ):
        assert auth.host_allowed({"host": host}) is allowed


def test_loopback_names():
    for name in ("localhost", "127.0.0.1", "127.9.9.9", "::1", "[::1]"):
        assert is_loopback(name)
    for name in ("0.0.0.0", "::", "192.168.0.1", "x", ""):  # noqa: S104
        assert not is_loopback(name)


def test_beyond_loopback_only_with_a_token(ledger):
    with pytest.raises(BadArgument, match="MUNTIN_TOKEN"):
        Server(ledger, host="0.0.0.0", port=0)  # noqa: S104
    with pytest.raises(BadArgument, match="--host is empty"):  # all addresses, to a socket
        Server(ledger, host="", port=0)


def test_http_with_tokens(feeder, ledger):
    with (
        Server(ledger, port=0, reader_token=READER, operator_token=OPERATOR) as server,
        httpx.Client(base_url=server.url) as http,
    ):
        assert http.get("/healthz").status_code == 200
        assert http.get("/").status_code == 200
        for path in ("/summaries", "/windows", "/state", "/metrics", "/events?state=true"):
            for headers, said in (({}, "is needed"), (bearer("wrong-0123456789"), "is not one of")):
                answer = http.get(path, headers=headers)
                assert answer.status_code == 401, path
                assert said in answer.json()["error"]["message"]
        assert http.get("/summaries", headers=bearer(READER)).status_code == 200
        command = {"action": "slow_down", "summary": "orders"}
        refused = http.post("/commands", json=command, headers=bearer(READER))
        assert refused.status_code == 403
        done = http.post("/commands", json=command, headers=bearer(OPERATOR))
        assert done.json()["answer"]["orders"]["done"] is True
        ticket = http.post("/ticket", headers=bearer(READER)).json()
        assert len(ticket["ticket"]) > 30


def test_a_foreign_page_may_not_ask(server):
    with httpx.Client(base_url=server.url) as http:
        foreign = {"origin": "https://evil.example"}
        body = {"select": "SELECT 1"}
        assert http.post("/query", json=body, headers=foreign).status_code == 403
        rebound = {"host": "evil.example"}
        assert http.post("/query", json=body, headers=rebound).status_code == 403


ASKED = [
    *[("GET", path) for path in ("/windows", "/summaries", "/rejected?pipeline=p", "/state",
                                 "/history?pipeline=p", "/catalogue", "/metrics",
                                 "/events?select=SELECT%201", "/events?state=true")],
    *[("HEAD", path) for path in ("/windows", "/state", "/metrics")],
    *[("POST", path) for path in ("/query", "/commands", "/ticket")],
]  # fmt: skip


def test_all_that_reads_or_runs_is_asked_here():
    """A route that is added must be added above, or be one that says nothing of the data."""
    app = make_app(temporary(), Auth(now=Clock()))
    known = {path.partition("?")[0] for _, path in ASKED} | {"/live"}
    harmless = {"/healthz", "/readyz", "/openapi.json", "/", "/panels", "/static"}
    assert {route.path for route in app.routes} == known | harmless


@pytest.mark.parametrize("foreign", [
    {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors", "sec-fetch-dest": "image"},
    {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"},
    {"sec-fetch-site": "same-site"},
    {"origin": "null"},
], ids=["image", "link", "other port", "file"])  # fmt: skip
def test_a_foreign_page_may_not_embed(server, foreign):
    with httpx.Client(base_url=server.url, headers=foreign) as http:
        for method, path in ASKED:
            answer = http.request(method, path)
            assert answer.status_code == 403, (method, path)
            if method != "HEAD":
                assert answer.json()["error"]["code"] == "origin", (method, path)


def test_a_foreign_page_may_link_to_the_dashboard(server):
    for path in ("/", "/static/muntin.js", "/healthz"):
        answer = httpx.get(server.url + path, headers={"sec-fetch-site": "cross-site"})
        assert answer.status_code == 200
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"


def test_a_foreign_page_may_not_follow(server):
    address = server.url.replace("http", "ws") + "/live"
    for foreign in ({"origin": "null"}, {"origin": "http://evil.example"},
                    {"sec-fetch-site": "cross-site"}):  # fmt: skip
        with pytest.raises(InvalidStatus, match="403"):
            open_socket(address, additional_headers=foreign)
