"""`/mcp`, asked by the protocol's own client."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from muntin.ledger.temporary import temporary
from muntin.server.serving import Server
from tests.docs_samples import sample_of
from tests.server.conftest import fed_server

mcp = pytest.importorskip("mcp", reason="muntin[agents] is not installed")
TOKEN = "0123456789abcdef0123"  # noqa: S105
SELECT = "SELECT driver, count FROM orders(driver) FOR ALL ORDER BY driver"
MANY = "SELECT x.driver FROM " + ", ".join(f"orders(driver) FOR ALL {n}" for n in "vwxyz")  # noqa: S608
CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
ACCEPTS = {"accept": "application/json, text/event-stream"}


@pytest.fixture(scope="module")
def served():
    with fed_server(agents=True) as server:
        yield server


def asked(server, *calls):
    """What tools answer to one client, one after the other."""

    async def ask():
        async with mcp.Client(f"{server.url}/mcp") as client:
            tools = await client.list_tools()
            return tools.tools, [await client.call_tool(name, given) for name, given in calls]

    return asyncio.run(ask())


def test_an_agent_finds_out_and_asks(served):
    tools, answers = asked(
        served,
        ("list_summaries", {}),
        ("describe", {"name": "orders"}),
        ("query", {"select": SELECT, "rows": 5.0}),
        ("explain_bounds", {"select": "SELECT count FROM orders"}),
    )
    assert {tool.name for tool in tools} == {
        "list_summaries", "describe", "query", "explain_bounds",
    }  # fmt: skip
    assert all(tool.annotations.read_only_hint for tool in tools)
    listed, described, rows, explained = (answer.structured_content for answer in answers)
    assert [summary["name"] for summary in listed["summaries"]] == ["orders"]
    assert [query["name"] for query in listed["queries"]] == ["busiest"]
    assert any("fare" in str(row) for row in described["rows"])
    assert rows["rows"] == [[driver, 18] for driver in "abcde"]
    assert rows["exact"] is True
    assert explained["sentences"][0] == "The answer is exact."
    assert any("only the open window is read" in said for said in explained["sentences"])


def test_bounds_are_told_in_words():
    from muntin.server.agents import sentences_of

    bounds = {"keys": 5, "unranked": 2, "k": 10, "standard_error": 0.01625}
    about = dict.fromkeys(("watermark", "late", "stale"), None) | {"windows": [], "notes": []}
    assert sentences_of({**about, "exact": True, "bounds": {"s": bounds}})[1:] == [
        "s: 5 keys have answers of their own.",
        "s: 2 events had no number to rank.",
        "s: at most the 10 highest are named.",
        "s: its standard error is 0.01625 of the value; lower and upper say more.",
    ]
    bounds = {"beats": {"left_out_late": 3}, "orders": {}}
    assert sentences_of({**about, "exact": True, "late": 5, "bounds": bounds})[1:] == [
        "beats: 3 late events were left out.",
        "2 late events are counted in it.",
    ]
    assert len(sentences_of({**about, "exact": True, "late": 3, "bounds": bounds})) == 2
    told = {"delays": {"rank_error": 0.5, "nulls": 1}, "orders": {"uncounted": {"x": 2}}}
    trend = {"worst": told}
    assert sentences_of({**about, "exact": True, "bounds": trend})[1:] == [
        "worst: delays: a rank is off by at most 0.5 of all values.",
        "worst: delays: 1 events had no value.",
        "worst: orders: events that came before a part was declared are not in it: x lacks 2.",
    ]
    nothing = {"source": "s", "asked": "OPEN", "covered": None}
    said = sentences_of({**about, "exact": True, "bounds": {}, "windows": [nothing]})
    assert said[1] == "Nothing was read of s (OPEN)."


@pytest.mark.parametrize(
    ("name", "given", "said"),
    [
        ("query", {"select": "SELECT drivr FROM orders(driver)"}, "did you mean 'driver'?"),
        ("query", {"select": "SELECT * FROM '/etc/passwd'"}, "e.g. FROM orders(driver)"),
        ("query", {"select": SELECT, "rows": 2}, "at most 2 come as JSON"),
        ("query", {"select": SELECT, "rows": 2}, "add LIMIT; `rows` is 1,000 at most"),
        ("query", {"select": SELECT, "rows": 100_000}, "100000 is no whole number from 1 to 1,000"),
        ("query", {"select": SELECT, "rows": 2.5}, "2.5 is no whole number from 1 to 1,000"),
        ("explain_bounds", {"select": MANY}, "3,125 rows; at most 1,000 come"),
        ("explain_bounds", {"select": MANY}, "'remedy': 'add LIMIT'"),
        ("query", {"select": 5}, "a text of at most"),
        ("query", {}, "needs select"),
        ("describe", {"name": "orders", "more": 1}, "no argument 'more'"),
        ("describe", {"name": "nothing"}, "nothing"),
        ("describe", {"name": "orders(x)"}, "no summary or standing query 'orders(x)'"),
        ("drop", {}, "there is no tool 'drop'"),
    ],
)
def test_what_is_wrong_is_told(served, name, given, said):
    _, (answer,) = asked(served, (name, given))
    assert answer.is_error
    assert said in str(answer.structured_content["error"])


def test_the_sample_of_the_page(served, capsys):
    text = sample_of("agents.md", "mcp.Client").replace("http://127.0.0.1:8787", served.url)
    exec(compile(text.replace("FROM flights", "FROM orders"), "agents.md", "exec"), {})  # noqa: S102
    assert capsys.readouterr().out == "[[90]] True\n"


def test_the_doors_are_those_of_all_requests():
    ledger = temporary()
    with Server(ledger, port=0, agents=True, reader_token=TOKEN) as server:
        url = f"{server.url}/mcp"
        assert httpx.post(url, json=CALL, headers=ACCEPTS).status_code == 401
        bearer = {"authorization": f"Bearer {TOKEN}"}
        found = httpx.post(url, json=CALL, headers=ACCEPTS | bearer)
        assert len(found.json()["result"]["tools"]) == 4
        foreign = {"origin": "https://elsewhere.example"}
        assert httpx.post(url, json=CALL, headers=ACCEPTS | bearer | foreign).status_code == 403
        assert httpx.get(url, headers=ACCEPTS | bearer).status_code == 405
        large = httpx.post(url, content=b"x" * (1 << 21), headers=ACCEPTS | bearer)
        assert large.status_code == 413


def test_without_being_asked_for_there_is_none():
    with Server(temporary(), port=0) as server:
        assert httpx.post(f"{server.url}/mcp", json=CALL).status_code == 404
