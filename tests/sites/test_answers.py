"""What a coordinator tells: HTTP, SELECT, pushes, metrics, and what it says of its sites."""

from __future__ import annotations

import json
import os
import random
import time
from contextlib import ExitStack
from functools import partial
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

import muntin
from muntin.errors import BadArgument, LedgerError, SelectError
from muntin.ledger.temporary import TemporaryLedger
from muntin.server.limits import ServerLimits
from muntin.sites import CoordinatorServer, coordinating, follower, link
from muntin.sites.counts import SiteCounts
from muntin.sites.service import CoordinatorService
from muntin.sites.status import Status
from muntin.times import duration_text, instant_text
from muntin.topk import Coordinator, Monitor
from tests.pipeline.support import gather
from tests.sites.conftest import get, until
from tests.sites.fed import START, Fed, coordinated, settled, sites, top, valid
from tests.sites.proxy import Proxy
from tests.sites.stream import (
    LEASE,
    PANE_US,
    SITES,
    WINDOW_UNITS,
    check_top,
    coordinator,
    events,
    totals,
)


@pytest.fixture(scope="module")
def fed(tmp_path_factory):
    spec = coordinator(tmp_path_factory.mktemp("fed"), missing_after=4000, lease=4000)
    with coordinated(spec) as server:
        yield server


def test_top_k(fed):
    found = top(fed)
    unit = found["unit"]
    check_top([item["item"] for item in found["items"]], unit, START)
    end = (unit + 1) * PANE_US
    window = {"start": instant_text(end - WINDOW_UNITS * PANE_US), "end": instant_text(end)}
    assert found | {"items": []} == {
        "k": 4,
        "epsilon": 0,
        "valid": True,
        "as_of": instant_text(end),
        "unit": unit,
        "window": window,
        "missing_sites": [],
        "bound": 0,
        "stale": False,
        "items": [],
    }
    values = [item["value"] for item in found["items"]]
    assert values == sorted(values, reverse=True)


def test_select(fed):
    client = muntin.connect(fed.url)
    found = client.sql("SELECT * FROM top_k(global, 10)")
    expected = top(fed)
    assert found.columns == ["item", "value", "valid", "as_of"]
    assert [row[:2] for row in found.rows] == [list(i.values()) for i in expected["items"]]
    assert found.bounds["global"] == {
        name: expected[name] for name in ("k", "valid", "as_of", "missing_sites", "bound", "stale")
    }
    assert not found.stale
    assert found.to_arrow().schema.field("value").type == "int64"
    two = client.sql("SELECT item FROM top_k(global, 2) WHERE valid ORDER BY value DESC")
    assert two.rows == [[i["item"]] for i in expected["items"][:2]]
    assert client.summaries()["summaries"][0]["name"] == "global"


@pytest.mark.parametrize(("statement", "message"), [
    ("SELECT * FROM top_k(other, 3)", "no summary 'other'"),
    ("SELECT * FROM top_k(global, 0)", "is not a number of rows"),
    ("SELECT * FROM top_k(global, 3) FOR LAST 1 HOUR", "keeps the newest window only"),
    ("SELECT * FROM quantiles(global, 0.5)", "cannot be asked of global"),
    ("SELECT * FROM global", "top_k(global, 10)"),
    ("SELECT * FROM windows(global)", "no windows that close"),
])  # fmt: skip
def test_statements_that_are_none(fed, statement, message):
    with pytest.raises(SelectError) as wrong:
        muntin.connect(fed.url).sql(statement)
    assert message in str(wrong.value)


def test_news_is_pushed(fed):
    before = valid(fed)["unit"]
    with muntin.connect(fed.url).subscribe("SELECT * FROM top_k(global, 4)") as following:
        assert next(following).result.rows
        for each in fed.fed:
            each.feed(50)  # ranks have moved by one
        for update in following:
            if update.result.bounds["global"]["valid"]:
                found = top(fed)
                if found["valid"] and found["unit"] >= before + 50:
                    break
    check_top([item["item"] for item in found["items"]], found["unit"], START)


def test_a_bug_does_not_end_the_service(fed):
    """A coordinator that cannot go on is made anew, in a higher epoch, and asks its sites."""
    epoch = fed.service.coordinator.epoch
    fed.service.coordinator.membership.sites.clear()

    def again():
        state = get(fed, "/sites").json()
        return state["answer"] if state["epoch"] > epoch and state["answer"]["valid"] else None

    found = until(again)
    check_top([item["item"] for item in found["items"]], found["unit"], START)


def test_sites_whose_items_are_of_two_types_have_no_valid_answer(tmp_path):
    """5 here and '5' there were two items, and an answer without their sum was valid."""

    class OfIntegers(Fed):
        def feed(self, panes):
            for number in range(panes):
                table = events(self.name, START + number)
                table = table.set_column(1, "origin", pa.array([number % 3] * len(table)))
                self.ingest.take(number, gather([table]))

    with ExitStack() as stack:
        server = CoordinatorServer(coordinator(tmp_path), reader_token="", operator_token="")
        stack.enter_context(server)
        for kind, name in ((Fed, "north"), (OfIntegers, "south")):
            site = kind(name, server.address)
            stack.callback(site.close)
            site.feed(21)
            site.site.start()
        found = until(lambda: answer if (answer := top(server)).get("problem") else None)
        expected = "items are text at north, integers at south: cast the key to one type"
        assert found["problem"].startswith(expected)
        until(lambda: {site["phase"] for site in sites(server)} <= {"calm", "watching"} or None)
        found = top(server)
        assert (found["valid"], found["bound"]) == (False, None)
        bounds = muntin.connect(server.url).sql("SELECT * FROM top_k(global, 3)").bounds
        assert bounds["global"]["problem"] == found["problem"]


def test_late_events_correct_the_answer(tmp_path):
    """A sealed pane grows: its unit does, and T with it."""
    with coordinated(coordinator(tmp_path, missing_after=4000)) as server:
        site = server.fed[0]
        table = events("north", START + site.panes - 3)
        late = table.set_column(1, "origin", [["late"] * len(table)])
        many = -(-5000 // len(table))
        site.ingest.take(site.panes + site.more_batches, gather([late] * many))
        site.more_batches += 1

        for each in server.fed:
            each.feed(2)
        found = until(lambda: next((i for i in top(server)["items"] if i["item"] == "late"), None))
        assert found["value"] == many * len(table)


def test_the_state_of_the_sites(fed):
    state = settled(fed)
    assert state["ranking"]["key"] == ["origin"]
    assert [(s["name"], s["connected"], s["missing"]) for s in state["sites"]] == [
        (name, True, False) for name in SITES
    ]
    for site in state["sites"]:
        assert site["phase"] in ("calm", "alerted", "watching")
        assert site["unit"] >= state["answer"]["unit"]
        assert site["up"]["messages"] > 0
        assert site["up"]["bytes"] > site["up"]["messages"]
    sums = state["traffic"]
    for what in ("messages", "entries", "bytes"):
        assert sums["up"][what] == sum(site["up"][what] for site in state["sites"])
        assert sums["sent"][what] == sums["up"][what] + sums["down"][what]
    assert state["history"][0]["left"] == []
    assert len(state["history"][0]["entered"]) == 4
    same = get(fed, "/state").json()["coordinator"]
    assert same.keys() == state.keys() - {"pace"}
    assert len(same["history"]) <= 16
    metrics = get(fed, "/metrics").text
    assert "muntin_topk_valid 1.0" in metrics
    assert 'muntin_topk_connected{site="north"} 1.0' in metrics
    assert 'muntin_topk_bytes_total{direction="up",site="south"}' in metrics


def test_the_document_says_what_is_answered(fed):
    """/openapi.json lists what a coordinator adds, and its answers are of that form."""
    jsonschema = pytest.importorskip("jsonschema")
    document = get(fed, "/openapi.json").json()
    assert {"/query", "/top_k", "/sites"} <= document["paths"].keys()
    for path in ("/top_k", "/sites"):
        answer = get(fed, path)
        said = document["paths"][path]["get"]["responses"]["200"]["content"]["application/json"]
        jsonschema.validate(answer.json(), said["schema"])
        assert answer.json().keys() == said["schema"]["properties"].keys()


def test_what_naive_push_would_have_cost_is_told(fed):
    def told():
        for each in fed.fed:
            each.feed(1)
        return all(site["naive"]["messages"] > 2 for site in sites(fed))

    until(told)
    assert all(site["naive"]["bytes"] > 20 * site["naive"]["messages"] for site in sites(fed))


def test_a_second_coordinator_on_the_same_state_is_refused(fed):
    with pytest.raises(LedgerError, match="another coordinator's, which runs"):
        CoordinatorServer(fed.spec, reader_token="")


def test_scaled_sums_come_back_in_their_own_unit(tmp_path):
    ranking = {"scale": 0.5}
    with ExitStack() as stack:
        spec = coordinator(tmp_path, **ranking)
        server = stack.enter_context(CoordinatorServer(spec, reader_token="", operator_token=""))
        for name in SITES:
            each = Fed(name, server.address, **ranking)
            stack.callback(each.close)
            each.feed(14)
            each.site.start()
        found = valid(server)
        exact = totals(found["unit"], START)
        for item in found["items"]:  # each unit of each site was rounded to whole twos
            assert abs(item["value"] - exact[item["item"]]) <= 2 * WINDOW_UNITS
            assert item["value"] % 2 == 0
        column = muntin.connect(server.url).sql("SELECT value FROM top_k(global, 4)").table
        assert column.schema.field("value").type == "double"


def test_streams_that_stand_still_are_stale_and_not_missing(tmp_path):
    """The sites are there; what they say is old."""
    with ExitStack() as stack:
        spec = coordinator(tmp_path, missing_after=16, lease=4)
        server = stack.enter_context(CoordinatorServer(spec, reader_token="", operator_token=""))
        for name in SITES:
            each = Fed(name, server.address)
            stack.callback(each.close)
            each.feed(14)
            each.site.start()
        until(lambda: top(server)["stale"])
        heard = sites(server)[0]["up"]["messages"]
        until(lambda: sites(server)[0]["up"]["messages"] > heard + 10)  # 20 units, at HEARTBEAT

        def old_but_there():
            found = top(server)
            return (found["valid"], found["stale"], found["missing_sites"]) == (True, True, [])

        until(old_but_there)
        assert muntin.connect(server.url).sql("SELECT * FROM top_k(global)").stale


def test_sites_whose_times_are_far_apart_are_named(tmp_path):
    with coordinated(coordinator(tmp_path, missing_after=4000)) as server:
        north, south = server.fed
        south.feed(int(LEASE) + 5)
        found = until(lambda: answer if (answer := top(server)).get("problem") else None)
        expected = "south is ahead of north by more than the lease, 10 units: wait until north"
        assert found["problem"].startswith(expected)
        assert (found["valid"], found["unit"], found["bound"]) == (False, START + 19, 0)
        north.feed(int(LEASE) + 5)
        settled(server)
        assert "problem" not in top(server)


def test_sites_that_come_at_once_are_shown_at_once(tmp_path):
    """All were, for each that came: with 1,024 the coordinator had no time left to greet them."""
    names = [f"s{number}" for number in range(1024)]
    service = CoordinatorService(coordinator(tmp_path, sites=names), TemporaryLedger())
    before = service.status.state
    for name in names:
        service.join(SimpleNamespace(site=name, since=1))
        service.note(name, "it is connected")
    assert service.status.state is before
    service._publish()
    assert all(site["connected"] for site in service.status.state["sites"])
    service.close()


def test_no_more_items_are_shown_than_are_kept(tmp_path):
    """Where k became smaller, all of before were, until a survey: which waits for the sites."""
    service = CoordinatorService(coordinator(tmp_path), TemporaryLedger())
    service.coordinator.membership.top = ("a", "b", "c", "d")
    service.coordinator.set_k(2)
    service._publish()
    shown = service.status.state["answer"]
    assert (shown["k"], [item["item"] for item in shown["items"]]) == (2, ["a", "b"])
    service.close()


@pytest.mark.parametrize(("behind", "swing"), [(0, 2), (8, 2), (0, 60), (8, 60)])
def test_values_that_change_before_they_are_settled_are_named(tmp_path, behind, swing):
    """South is behind by less than the lease, and resolutions followed each other for ever."""
    spec = coordinator(tmp_path, hybrid="none", lease=18)
    found = Coordinator(SITES, 2, retry=spec.retry, lease=spec.lease, missing_after=40)
    status = Status(spec, "run", {name: SiteCounts() for name in SITES}, {}, {})
    monitors = {name: Monitor(life=1) for name in SITES}
    values = {name: random.Random(name) for name in SITES}
    held = {name: np.zeros(6, np.int64) for name in SITES}

    def carry(name, messages, now):
        for message in messages:
            for to, answer in found.receive(name, message, now):
                carry(to, monitors[to].receive(answer), now)

    told = []
    for now in range(100):
        for name, monitor in monitors.items():
            unit = now - behind * (name == "south")
            moved = np.array([values[name].randrange(swing) + 30 * i for i in range(6)])
            if unit >= 0:
                rows = monitor.rows(list("abcdef"))
                carry(name, monitor.slide(unit, rows, moved - held[name]), now)
                held[name] = moved
            carry(name, monitor.tick(now), now)
        for to, message in found.tick(now):
            carry(to, monitors[to].receive(message), now)
        status.renew(found, {}, now, "")
        told.append(status.snapshot.to_dict().get("problem", ""))
    if (behind, swing) != (8, 60):
        assert set(told) == {""}
        return
    assert told[-1] == (
        "values change before resolutions have settled, and no answer was valid for the lease, "
        "18 units: enlarge epsilon or the unit, or set  hybrid: bytes, or wait until south has "
        "caught up with north"
    )


def test_more_ties_than_can_be_told_are_named(tmp_path):
    """For ever no answer came, and nothing said why."""

    class Once(Fed):
        def feed_ties(self):
            names = [f"{self.name}{number}" for number in range(17_000)]
            times = pa.array([START * PANE_US] * len(names), pa.timestamp("us", "UTC"))
            self.ingest.take(0, gather([pa.table({"time": times, "origin": names})]))
            self.panes = 1
            self.feed(1)

    with ExitStack() as stack:
        spec = coordinator(tmp_path, hybrid="none", missing_after=4000)
        server = CoordinatorServer(spec, reader_token="", operator_token="")
        stack.enter_context(server)
        both = [Once(name, server.address) for name in SITES]
        for each in both:
            stack.callback(each.close)
            each.feed_ties()
            each.site.start()
        found = until(lambda: answer if (answer := top(server)).get("problem") else None)
        assert found["problem"].startswith("more items tie than a message holds")
        assert not found["valid"]
        for each in both:
            each.feed(WINDOW_UNITS)
        settled(server)
        assert "problem" not in top(server)


def test_a_site_goes_on_without_a_coordinator(tmp_path):
    """The pipeline commits, the window moves, and the site says why it is away."""
    with ExitStack() as stack:
        first = Fed("north", "ws://127.0.0.1:9")
        stack.callback(first.close)
        first.site.start()
        first.feed(14)
        until(lambda: first.site.status["state"] == "away")
        assert "9" in first.site.status["problem"]
        until(lambda: first.site.status["unit"] == START + 12)
        first.feed(3)
        assert first.ledger.pipelines()[0].batches == 17


def test_a_connection_that_is_lost_again_is_told_again(tmp_path, monkeypatch, caplog):
    """Where it had lasted; what fails again and again is told once."""
    monkeypatch.setattr(link, "PAUSE_SECONDS_MAX", 0.2)
    caplog.set_level("WARNING", "muntin.sites")

    def told():
        said = [each.getMessage() for each in caplog.records]
        return [each for each in said if "north is away" in each and "was lost" in each]

    with coordinated(coordinator(tmp_path)) as server:
        proxy = Proxy(int(server.url.rpartition(":")[2]))
        north = Fed("north", f"ws://127.0.0.1:{proxy.port}")
        server.fed[0].site.stop()
        north.feed(21)
        north.site.start()
        for times in (1, 2):
            until(lambda: north.site.status["state"] == "connected")
            time.sleep(0.5)
            proxy.cut()
            proxy.heal()
            until(lambda: len(told()) == times)  # noqa: B023
        proxy.close()
        north.close()


def test_a_slow_line_is_no_dead_one(tmp_path, monkeypatch):
    """A ping's answer waits behind what is on its way, for the time of many pings."""
    monkeypatch.setattr(link, "PING_SECONDS", 0.05)
    limits = partial(ServerLimits, ping_seconds=0.05)
    monkeypatch.setattr(coordinating, "ServerLimits", limits)
    spec = coordinator(tmp_path, missing_after=4000, lease=4000)
    with ExitStack() as stack:
        server = CoordinatorServer(spec, reader_token="", operator_token="")
        stack.enter_context(server)
        proxy = Proxy(int(server.url.rpartition(":")[2]))
        stack.callback(proxy.close)
        proxy.delay = 0.2
        for name in SITES:
            each = Fed(name, f"ws://127.0.0.1:{proxy.port}")
            stack.callback(each.close)
            each.feed(21)
            each.site.start()
        settled(server)


def test_a_refused_site_says_why(fed):
    other = Fed("north", fed.address, key="origin", window=f"{2 * WINDOW_UNITS * PANE_US} us")
    try:
        other.feed(3)
        other.site.start()
        status = until(lambda: other.site.status if other.site.status["problem"] else None)
        assert status["state"] == "away"
        assert status["problem"].startswith("refused with 4003: window_us: the site says")
    finally:
        other.close()


@pytest.mark.slow
def test_no_answer_over_a_line_that_cuts_messages_in_two_is_wrong(tmp_path):
    """Pieces of any length come at any time, or half, and with them ends the connection."""
    chance, seen = random.Random(1), {}
    with ExitStack() as stack:
        server = CoordinatorServer(
            coordinator(tmp_path, missing_after=12, lease=30), reader_token="", operator_token=""
        )
        stack.enter_context(server)
        proxies = [Proxy(int(server.url.rpartition(":")[2]), seed) for seed in range(len(SITES))]
        fed = []
        for name, proxy in zip(SITES, proxies, strict=True):
            stack.callback(proxy.close)
            fed.append(Fed(name, f"ws://127.0.0.1:{proxy.port}"))
            stack.callback(fed[-1].close)
            fed[-1].feed(21)
            fed[-1].site.start()
            proxy.loses, proxy.delay = 0.08, 0.05
        begun, lacked = time.monotonic(), False
        while (took := time.monotonic() - begun) < 15 or (took < 120 and not lacked):
            chance.choice(fed).feed(chance.choice((0, 0, 1, 2, 5)))
            answer = top(server)
            seen[json.dumps(answer)] = answer
            told = answer["bound"] is not None and answer["items"]
            lacked |= bool(told and answer["missing_sites"])
        for proxy in proxies:
            proxy.loses = proxy.delay = 0.0
        newest = max(each.panes for each in fed)
        for each in fed:
            each.feed(newest - each.panes)
        healed = until(
            lambda: found if (found := valid(server))["unit"] == START + newest - 2 else None
        )
    seen["healed"] = healed
    told = [answer for answer in seen.values() if answer["bound"] is not None and answer["items"]]
    assert lacked
    for answer in told:
        there = [name for name in SITES if name not in answer["missing_sites"]]
        exact = totals(answer["unit"], START, there)
        least = min(exact.pop(each["item"]) for each in answer["items"])
        assert max(exact.values()) - least <= answer["bound"], answer


def test_the_coordinator_says_why_a_site_takes_no_part(tmp_path, monkeypatch):
    with coordinated(coordinator(tmp_path, missing_after=4)) as server:
        assert {each["problem"] for each in sites(server)} == {""}
        server.fed[0].site.stop()
        twice = f"{2 * WINDOW_UNITS * PANE_US} us"
        other = Fed(SITES[0], server.address, key="origin", window=twice)
        other.feed(3)
        with other.site:
            said = until(lambda: sites(server)[0]["problem"])
        other.ingest.close()
        assert said.startswith("refused with 4003: window_us: the site says")
        north = Fed(SITES[0], server.address)
        north.feed(21)
        north.site.start()
        until(lambda: sites(server)[0]["connected"])
        assert not sites(server)[0]["problem"]

        def unrankable(*_):
            raise BadArgument("sums beyond 2^50")

        monkeypatch.setattr(follower.PaneReader, "_changed", unrankable)
        north.feed(1)
        until(lambda: sites(server)[0]["problem"] == "sums beyond 2^50")
        north.close()


def test_a_ledger_that_cannot_be_read_is_told_until_it_can(fed, monkeypatch, caplog):
    site = fed.fed[0].site
    caplog.set_level("WARNING", "muntin.sites")

    def busy(*_):
        raise LedgerError("it is busy")

    with monkeypatch.context() as for_a_while:
        for_a_while.setattr(site._ledger, "wait", busy)
        until(lambda: site.status["problem"] == "it is busy")
        until(lambda: sites(fed)[0]["problem"] == "it is busy")
        assert sites(fed)[0]["connected"]
        assert [each.getMessage() for each in caplog.records if "busy" in each.getMessage()] == [
            f"site {SITES[0]} cannot read its ledger: it is busy"
        ]
    until(lambda: not site.status["problem"])
    assert site.status["state"] == "connected"
    until(lambda: not sites(fed)[0]["problem"])


def test_a_site_whose_ledger_cannot_be_read_from_the_start_says_so(tmp_path, monkeypatch):
    def gone(*_):
        raise LedgerError("it is damaged")

    with coordinated(coordinator(tmp_path)) as server:
        server.fed[0].site.stop()
        monkeypatch.setattr(follower.PaneReader, "look", gone)
        north = Fed(SITES[0], server.address)
        north.site.start()
        until(lambda: sites(server)[0]["problem"] == "it is damaged")
        north.close()


def test_k_may_change_while_it_runs(tmp_path, caplog):
    file = tmp_path / "coordinator.yaml"
    entries = coordinator(tmp_path).model_dump(mode="json", exclude_defaults=True)
    for name in ("window", "unit"):
        entries[name] = duration_text(entries[name])
    file.write_text(json.dumps(entries))
    with ExitStack() as stack:
        server = stack.enter_context(CoordinatorServer(file, reader_token="", operator_token=""))
        for name in SITES:
            each = Fed(name, server.address, k=7, epsilon=0)  # what it expects, no more
            stack.callback(each.close)
            each.feed(14)
            each.site.start()
        valid(server)
        assert "site north asks for k: 7, the coordinator keeps 4" in caplog.text
        assert "epsilon" not in caplog.text
        for text in ("k: no", json.dumps(entries | {"k": 2, "epsilon": 3})):
            file.write_text(text)
            os.utime(file, (0, 0))  # both at one moment of a file system's clock
            until(lambda: "is not taken over" in caplog.text)
        found = until(lambda: now if (now := top(server))["valid"] and now["k"] == 2 else None)
        assert found["epsilon"] == 3
        check_top([item["item"] for item in found["items"]], found["unit"], START, k=2)
