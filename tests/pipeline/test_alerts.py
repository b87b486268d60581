"""Alerts: they fire once, are resolved, outlive restarts and kills, and wait for no webhook."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muntin.assembly import webhook
from muntin.assembly.alerts import ACTIVE_MAX, CHANGES_KEPT, EMPTY, TEXT_MAX, Alerts, _Look, shown
from muntin.demo.broker import free_ports
from muntin.errors import LedgerError, SpecError
from muntin.ledger.open import open_ledger
from muntin.ledger.sqlite_writer import Writer
from muntin.ledger.temporary import temporary
from muntin.server.serving import Server
from muntin.spark.ingest import Ingest
from tests.docs_samples import sample_of
from tests.pipeline.support import SECOND, events, gather, pipeline
from tests.server.beating import OVERDUE, Beating, beating_pipeline, now_us
from tests.server.conftest import until

HERE = Path(__file__).parent
DRIVERS = ("a", "b", "c" * TEXT_MAX + "1", "c" * TEXT_MAX + "2")  # as much is kept of a text
SECRET = "a secret of the tests"  # noqa: S105
SELECT = "SELECT driver, count FROM orders(driver) ORDER BY driver"
MINUTES = ({"a": 9}, {"a": 9, "b": 9}, {"a": 9, "b": 9}, {"a": 2, "b": 9}, {"b": 1}, {"c": 1})
"""Driver -> events, minute by minute; the last two only seal the windows of those before."""


def alerting(alert=None, webhook=None, **changes):
    """A pipeline whose windows are minutes; a driver with more than 5 events is too many."""
    alert = alert or {"when": "count > 5", "for": "2 minutes", "by": "driver"}
    window = {"kind": "tumbling", "length": "1 minute"}
    entries = {
        "lateness": "0 seconds",
        "summaries": {"orders": {"keys": ["driver"], "window": window}},
        "queries": {"busy": {"select": SELECT, "alert": alert}},
    }
    if webhook is not None:
        entries["webhook"] = {"url": webhook, "secret": SECRET}
    return pipeline(**{**entries, **changes})


def minute(number, drivers):
    return [(60 * number + i, d, 0, 1, 1) for d, many in drivers.items() for i in range(many)]


def take(ingest, numbers):
    for number in numbers:
        ingest.take(number, gather([events(minute(number, MINUTES[number]))]))


def changes(ledger, name="orders"):
    """What the ledger keeps of an alert's changes, oldest first: (state, key, minute)."""
    kept = (ledger.alerts(name) or EMPTY)["changes"]
    return [(c["state"], *c["by"].values(), c["at"][14:16]) for c in kept]


EXPECTED = [("firing", "a", "15"), ("firing", "b", "16"), ("resolved", "a", "17"),
            ("resolved", "b", "18")]  # fmt: skip
"""START is 22:13:20; the first whole minute begins at 22:14."""


class Receiver:
    """The receiver's process; it can be killed, and come back at its port."""

    def __init__(self, folder, port=0, status=204):
        self.file = folder / "received"
        arguments = [str(HERE / "receiver.py"), str(self.file), str(port), SECRET, str(status)]
        self.process = subprocess.Popen(
            [sys.executable, *arguments], stdout=subprocess.PIPE, text=True
        )
        self.port = int(self.process.stdout.readline())
        self.url = f"http://127.0.0.1:{self.port}/hook"

    def received(self):
        lines = self.file.read_text().splitlines() if self.file.exists() else []
        return [json.loads(line) for line in lines]

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


@given(
    st.lists(st.tuples(st.sets(st.sampled_from(DRIVERS)), st.booleans()), max_size=12),
    st.integers(0, 4),
)
def test_each_change_is_that_of_a_plain_account(windows, minutes):
    """Window by window, the account looks back over all that came before, and keeps nothing."""
    wait = minutes * 60 * SECOND
    spec = alerting({"when": "true", "for": f"{minutes} minutes" if minutes else 0, "by": "driver"})
    alert = spec.queries["busy"].alert
    state, made, at = json.loads(json.dumps(EMPTY)), [], 0
    account, runs, fired = [], {}, set()
    for number, (drivers, hole) in enumerate(windows):
        start = at + 60 * SECOND * hole
        at = start + 60 * SECOND
        step = _Look(spec, json.loads(json.dumps(state)), number)  # as the ledger gives it back
        step.take("busy", alert, [{"driver": d} for d in sorted(drivers)], start, at)
        state = step.state
        for driver in DRIVERS:
            if driver not in drivers:
                runs.pop(driver, None)
                if driver in fired:
                    fired.remove(driver)
                    account.append(("resolved", driver[:TEXT_MAX], number))
                continue
            begun, last = runs.get(driver, (start, start))
            runs[driver] = (start if last != start and driver not in fired else begun, at)
            if driver not in fired and at - runs[driver][0] >= wait:
                fired.add(driver)
                account.append(("firing", driver[:TEXT_MAX], number))
    made = [(c["state"], c["by"]["driver"], int(c["id"].split(".")[2])) for c in state["changes"]]
    assert sorted(made) == sorted(account)
    assert [c["id"].split(".")[1] for c in state["changes"]] == [
        str(n + 1) for n in range(len(made))
    ]


@pytest.mark.parametrize("on", ["update", "window"])
def test_an_alert_that_is_asked_in_another_time_begins_anew(on):
    """What holds by the clock does not hold from then on in the time of events."""
    state = json.loads(json.dumps(EMPTY))
    for number, (kind, *times) in enumerate(((on, 90, 90), ("window", 30, 40), ("window", 40, 50))):
        queries = {"busy": {"select": SELECT, "on": kind, "alert": {"when": "true"}}}
        step = _Look(alerting(queries=queries), state, number)
        alert = step._pipeline.queries["busy"].alert
        step.end_unknown({"busy": alert})
        step.take("busy", alert, [{"driver": "a"}], *times)
    told = [change["state"] for change in state["changes"]]
    assert told == (["firing", "resolved", "firing"] if on == "update" else ["firing"])


def test_a_clock_that_is_set_back_holds_up_no_alert():
    """One with `on: update` is asked of now: what began in the future begins now."""
    alert = alerting().queries["busy"].alert
    step = _Look(alerting(), json.loads(json.dumps(EMPTY)), 0)
    for at in (100_000, 200, 240, 280, 320):
        step.take("busy", alert, [{"driver": "a"}], at * SECOND, at * SECOND)
    (change,) = step.state["changes"]
    assert change["since"] == "1970-01-01T00:03:20Z"


def test_a_revision_of_the_newest_window_takes_back_what_it_ended():
    spec, state = alerting({"when": "true", "for": "3 minutes"}), json.loads(json.dumps(EMPTY))

    def look(*windows):
        step = _Look(spec, json.loads(json.dumps(state)), 0)
        for minute, count in windows:
            times = minute * 60 * SECOND, (minute + 1) * 60 * SECOND
            step.take("busy", spec.queries["busy"].alert, count * [{"driver": "a"}], *times)
        state.update(step.state)
        return [(change["state"], change["since"][14:16]) for change in state["changes"]]

    assert look((1, 1), (2, 1), (3, 0)) == []
    assert look((3, 1)) == [("firing", "01")]
    assert look((4, 0), (4, 0))[1:] == [("resolved", "01")]
    assert look((4, 1))[2:] == [("firing", "01")]
    look((5, 0), (6, 1), (5 + 1, 1), (7, 1))
    assert look((9, 1), (10, 0))[3:] == [("resolved", "01")]  # nothing in minute 8
    assert look((10, 1), (11, 1))[4:] == [("firing", "09")]


@pytest.mark.parametrize("window", [
    {"kind": "tumbling", "length": "1 minute"},
    {"kind": "sliding", "length": "1 minute", "every": "20 seconds"},
])  # fmt: skip
def test_a_source_that_ends_and_goes_on_holds_up_no_alert(window):
    """Windows that its end had closed close again, and count as if they had been so at once."""
    each = [(60 * m + 10 * i + 40, "a", 0, 1, 1) for m in range(4) for i in range(6)]
    each += [(280, "a", 0, 1, 1), (400, "a", 0, 1, 1)]
    summary = {"keys": ["driver"], "window": window}
    spec = alerting({"when": "count > 5", "for": "3 minutes"}, summaries={"orders": summary})
    fired = []
    for parts in ([each], [each[:14], each[14:]]):
        ledger = temporary()
        for number, part in enumerate(parts):
            ingest = Ingest(spec, ledger, query_id="q")
            ingest.take(number, gather([events(part)]))
            ingest.finish(ended=True)
            ingest.close()
        told = ledger.alerts("orders")["changes"]
        fired.append([(change["state"], change["since"], change["at"]) for change in told])
        ledger.close()
    assert fired[0] == fired[1]
    assert [state for state, *_ in fired[0]] == ["firing", "resolved"]


@given(
    st.lists(st.tuples(st.integers(0, 6), st.booleans(), st.booleans()), max_size=6),
    st.randoms(use_true_random=False),
    st.sampled_from((0, 60, 90, 180)),
)
def test_sliding_windows_that_one_end_has_closed_count_one_by_one(runs, random, wait):
    """And once they come again, as if they had been so at once. Windows of 60 s, each 20 s; the
    account keeps what held in each of them."""
    closings, at = [], 0
    for whole, ends, hole in runs:
        closings += [(at + 20 * n, at + 20 * n + 60) for n in range(whole)]
        at += 20 * whole
        halves = [(at, at + 50), (at + 20, at + 50), (at + 40, at + 50)]
        closings += halves[: random.randint(1, 3)] if ends else []
        at += 200 * (hole and not ends)
    spec = alerting({"when": "true", "for": f"{wait} seconds", "by": "driver"})
    state = json.loads(json.dumps(EMPTY))
    account, firing, held = [], set(), [(-1, 0, {})]  # of a window: start, end, driver -> since
    for number, (start, end) in enumerate(closings):
        drivers = [driver for driver in "ab" if random.random() < 0.7]
        step = _Look(spec, json.loads(json.dumps(state)), number)
        times = start * SECOND, end * SECOND
        step.take("busy", spec.queries["busy"].alert, [{"driver": d} for d in drivers], *times)
        state = step.state
        while held[-1][0] >= start:
            held.pop()
        until, (_, _, before) = max(end for _, end, _ in held), held[-1]
        here = {}
        for driver in drivers:
            since, fired = before.get(driver, (start, False))
            if start > until and not fired:
                since = start
            here[driver] = since, fired or end - since >= wait
        held.append((start, end, here))
        ended = firing - here.keys()
        begun = {driver for driver, (_, fired) in here.items() if fired} - firing
        firing = firing - ended | begun
        account += [("resolved", driver, number) for driver in sorted(ended)]
        account += [("firing", driver, number) for driver in sorted(begun)]
    made = [(c["state"], c["by"]["driver"], int(c["id"].split(".")[2])) for c in state["changes"]]
    assert sorted(made) == sorted(account)


@pytest.mark.parametrize("together", [False, True])
def test_a_revision_that_came_after_a_later_window_does_not_count(together, monkeypatch):
    """However many closings are looked at in one go."""
    monkeypatch.setattr(Alerts, "_watch", lambda _: None)
    ledger = temporary()
    ingest = Ingest(alerting(), ledger, query_id="q")
    came = zip((0, 1, 2, 3, 1, 4, 5), "aaaaaab", (9, 1, 9, 9, 9, 1, 1), strict=True)
    for number, (at, driver, many) in enumerate(came):
        ingest.take(number, gather([events(minute(at, {driver: many}))]))
        if number < 3 or not together:
            ingest._alerts.finish()
    ingest.finish(ended=False)
    ingest.close()
    assert changes(ledger) == [("firing", "a", "17"), ("resolved", "a", "18")]
    ledger.close()


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize(
    ("alert", "expected"),
    [
        ({"when": "count > 5", "by": "driver"}, [("firing", "a", "15"), ("resolved", "a", "16")]),
        ({"when": "true", "for": "3 minutes", "by": "driver"}, [("firing", "a", "16")]),
    ],
)
def test_a_window_is_looked_at_before_a_late_event_revises_it(
    together, alert, expected, monkeypatch
):
    """Whose number a revision takes: where it came first, the window was passed over."""
    monkeypatch.setattr(Alerts, "_watch", lambda _: None)
    ledger = temporary()
    ingest = Ingest(alerting(alert), ledger, query_id="q")
    for number, came in enumerate(({0: 1}, {1: 9}, {2: 1}, {3: 1}, {1: 1, 4: 1}, {5: 1})):
        rows = [row for at, many in came.items() for row in minute(at, {"a": many})]
        ingest.take(number, gather([events(rows)]))
        if not together:
            ingest._alerts.finish()
    ingest.finish(ended=False)
    ingest.close()
    assert changes(ledger) == expected
    ledger.close()


@pytest.mark.parametrize("away", [0, 50, 300])
def test_time_in_which_nobody_looked_does_not_count(away):
    """The clock alone tells how long a condition `on: update` has lasted."""
    alert = alerting().queries["busy"].alert
    state = json.loads(json.dumps(EMPTY))
    looks = [*range(0, 61, 5), *range(65 + away, 200 + away, 5)]
    for at in looks:
        step = _Look(alerting(), state, at * SECOND)
        step.take("busy", alert, [{"driver": "a"}], step.now, step.now)
        if state["changes"]:
            break
    assert at == (120 if away < 60 else 120 + away + 5)
    assert state["changes"][0]["since"] == "1970-01-01T00:00:00Z"


def test_conditions_beyond_the_limit_are_counted():
    spec = alerting({"when": "true", "by": "driver"})
    step = _Look(spec, json.loads(json.dumps(EMPTY)), 0)
    rows = [{"driver": str(n)} for n in range(ACTIVE_MAX + 7)]
    step.take("busy", spec.queries["busy"].alert, rows, 0, 1)
    assert len(step.alert("busy")["active"]) == ACTIVE_MAX
    assert step.alert("busy")["left_out"] == 7


@pytest.fixture(params=["sqlite", "postgresql", "redis_server"])
def url(request, tmp_path):
    """Of a new ledger, in each kind of store; it may be called for another."""
    numbers = itertools.count()

    def new():
        name = f"alerts{os.getpid()}{next(numbers)}{request.node.name[:12]}".lower()
        if request.param == "sqlite":
            return f"sqlite:///{tmp_path}/{name}.db"
        return request.getfixturevalue(request.param).url(schema=name)

    return new


def test_a_restart_between_batches_changes_nothing(url):
    for stop in (2, 3):
        ledger = open_ledger(url())
        for numbers in (range(stop), range(stop, len(MINUTES))):
            ingest = Ingest(alerting(), ledger, query_id="q")
            take(ingest, numbers)
            ingest.finish(ended=False)
            ingest.close()
        assert changes(ledger) == EXPECTED
        ledger.close()


@pytest.mark.parametrize("groups", [[range(6)], [range(2), range(2, 5), range(5, 6)]], ids=str)
def test_windows_are_looked_at_before_history_drops_them(monkeypatch, groups):
    """A pipeline that was away for longer than they are kept closes and drops them in one batch."""
    monkeypatch.setattr(Alerts, "_watch", lambda _: None)
    ledger = temporary()
    ingest = Ingest(alerting(retention={"history": "1 minute"}), ledger, query_id="q")
    for number, group in enumerate(groups):
        rows = [row for each in group for row in minute(each, MINUTES[each])]
        ingest.take(number, gather([events(rows)]))
    ingest.finish(ended=False)
    ingest.close()
    assert changes(ledger) == EXPECTED
    ledger.close()


def test_a_reset_resolves_what_fires_whatever_stops_it(url, monkeypatch):
    """The events are deleted with `resolved` outstanding; a crash before it is said loses none."""
    ledger = open_ledger(url())
    ingest = Ingest(alerting(), ledger, query_id="q")
    take(ingest, range(4))
    until(lambda: len(changes(ledger)) == 2)
    ingest.close()
    with monkeypatch.context() as killed:
        killed.setattr("muntin.assembly.alerts.Alerts._watch", lambda _: None)  # dead as well
        killed.setattr("muntin.assembly.alerts.Alerts.adopt", lambda *_: sys.exit("killed"))
        with pytest.raises(SystemExit):
            Ingest(alerting(), ledger, query_id="again", mode="overwrite")
    assert ledger.pipelines()[0].read == 0
    assert len(changes(ledger)) == 2
    ingest = Ingest(alerting(), ledger, query_id="again")
    assert [c[:2] for c in changes(ledger)[2:]] == [("resolved", "a"), ("resolved", "b")]
    take(ingest, range(len(MINUTES)))
    ingest.finish(ended=False)
    ingest.close()
    assert changes(ledger)[4:] == EXPECTED
    ledger.close()


@pytest.mark.parametrize("before", [None, {"when": "count > 100"}])
def test_windows_that_closed_before_an_alert_was_written_are_not_looked_at(before):
    """Also where it is written while the pipeline runs, and where another was there and went."""
    ledger = temporary()
    without = alerting(queries={"busy": {"select": SELECT}})
    ingest = Ingest(alerting(before) if before else without, ledger, query_id="q")
    take(ingest, (0,))
    ingest._alerts.finish()
    ingest.reconfigure(without)
    ingest._alerts.finish()
    take(ingest, range(1, 4))
    ingest.reconfigure(alerting({"when": "count > 5", "by": "driver"}))
    take(ingest, (4, 5))
    ingest.finish(ended=False)
    ingest.close()
    assert changes(ledger) == [("firing", "b", "17"), ("resolved", "b", "18")]
    ledger.close()


@pytest.mark.parametrize("is_stopped", [False, True])
def test_nor_does_an_alert_look_at_those_that_another_has_yet_to_look_at(is_stopped, monkeypatch):
    alert = {"when": "count > 5", "by": "driver"}
    first = {"first": {"select": SELECT, "alert": alert}}
    before = alerting(queries=first | {"busy": {"select": SELECT}})
    after = alerting(queries=first | {"busy": {"select": SELECT, "alert": alert}})
    ledger = temporary()
    with monkeypatch.context() as busy:
        busy.setattr("muntin.assembly.alerts.Alerts._watch", lambda _: None)
        ingest = Ingest(before, ledger, query_id="q")
        take(ingest, range(4))
    if is_stopped:
        ingest.close()
        ingest = Ingest(after, ledger, query_id="q")
    else:
        ingest.reconfigure(after)
    take(ingest, (4, 5))
    ingest.finish(ended=False)
    ingest.close()
    found = ledger.alerts("orders")["changes"]
    of = {n: [c["state"] for c in found if c["alert"] == n] for n in ("first", "busy")}
    assert of["first"] == ["firing", "firing", "resolved", "resolved"]
    assert of["busy"] == ["firing", "resolved"]
    ledger.close()


def test_what_a_change_of_alerts_says_is_kept_though_nobody_looks_before_the_end(monkeypatch):
    """A new one misses no window of before a crash; what goes and comes back begins anew."""
    monkeypatch.setattr(Alerts, "_watch", lambda _: None)  # as if it had ended
    ledger, new = temporary(), alerting({"when": "count > 5", "by": "driver"})
    without = alerting(queries={"busy": {"select": SELECT}})
    ingest = Ingest(without, ledger, query_id="q")
    take(ingest, range(2))
    ingest.reconfigure(new)
    take(ingest, range(2, 4))
    ingest.close()
    ingest = Ingest(new, ledger, query_id="q")
    ingest.finish(ended=False)
    assert changes(ledger) == [("firing", "a", "15"), ("firing", "b", "15")]
    ingest.reconfigure(without)
    ingest.reconfigure(new)
    assert [change[:2] for change in changes(ledger)[2:]] == [("resolved", "a"), ("resolved", "b")]
    ingest.close()
    ledger.close()


def test_an_alert_that_did_not_go_is_not_stored_as_resolved(monkeypatch):
    """A store took what a changed file says of alerts, and its answer was lost."""
    monkeypatch.setattr(Alerts, "_watch", lambda _: None)
    ledger = temporary()
    ingest = Ingest(alerting(), ledger, query_id="q")
    take(ingest, range(3))
    ingest.finish(ended=False)
    store = Writer.set_alerts

    def lost(writer, alerts):
        store(writer, alerts)
        raise LedgerError("it does not answer")

    with monkeypatch.context() as away:
        away.setattr(Writer, "set_alerts", lost)
        with pytest.raises(LedgerError, match="does not answer"):
            ingest.reconfigure(alerting(queries={"busy": {"select": SELECT}}))
    ingest.finish(ended=False)
    assert changes(ledger) == [("firing", "a", "15")]
    ingest.close()
    ledger.close()


def test_windows_of_another_summary_are_looked_at_from_when_the_query_runs_on_them(monkeypatch):
    """Those that closed before have no rows of it, though nobody has looked at them yet; nor is one
    judged by what started at its time before."""
    monkeypatch.setattr(Alerts, "_watch", lambda _: None)
    monkeypatch.setattr(Alerts, "look_at_windows", lambda _: None)
    window = {"kind": "tumbling", "length": "1 minute"}
    summaries = {"orders": {"keys": ["driver"], "window": window}}
    summaries["pairs"] = {"keys": ["driver"], "window": window | {"length": "2 minutes"}}

    def asking(summary):
        select = SELECT.replace("orders", summary)
        alert = {"when": "count > 5", "by": "driver"}
        return alerting(summaries=summaries, queries={"busy": {"select": select, "alert": alert}})

    ledger = temporary()
    ingest = Ingest(asking("orders"), ledger, query_id="q")
    came = iter(range(20))

    def take(*minutes):
        for at, many in minutes:
            ingest.take(next(came), gather([events(minute(at, {"a": many}))]))

    take((0, 9), (1, 9), (2, 9))
    ingest._alerts.finish()
    take((3, 1), (4, 1), (5, 1), (6, 1), (5, 1))
    ingest.reconfigure(asking("pairs"))
    ingest._alerts.finish()
    take((6, 9), (7, 1))
    ingest._alerts.finish()
    assert changes(ledger) == [("firing", "a", "14")]
    take((9, 1))
    ingest.finish(ended=False)
    ingest.close()
    assert changes(ledger)[1:] == [("resolved", "a", "22")]
    ledger.close()


def test_what_fires_for_long_says_since_when_whatever_else_has_changed():
    state = json.loads(json.dumps(EMPTY))
    spec = alerting({"when": "true", "by": "driver"})
    for number in range(2 * CHANGES_KEPT):
        step = _Look(spec, state, number)
        drivers = [{"driver": "a"}, *([{"driver": "b"}] if number % 2 else [])]
        step.take("busy", spec.queries["busy"].alert, drivers, number * SECOND, number * SECOND + 1)
    assert not any(change["by"]["driver"] == "a" for change in state["changes"])
    (alert,) = shown(state, {})["alerts"]
    assert [(one["by"]["driver"], one["since"][-3:]) for one in alert["longest"]] == [
        ("a", "00Z"), ("b", "19Z"),
    ]  # fmt: skip


def test_values_of_other_columns_are_other_alerts():
    spec, state = alerting(), json.loads(json.dumps(EMPTY))
    for number, by in enumerate(("driver", "area", "area")):
        alert = alerting({"when": "true", "by": by}).queries["busy"].alert
        step = _Look(spec, state, number)
        step.end_unknown({"busy": alert})
        step.take("busy", alert, [{"driver": "1", "area": "1"}], number, number + 1)
    told = [(change["state"], change["by"]) for change in state["changes"]]
    driver, area = {"driver": "1"}, {"area": "1"}
    assert told == [("firing", driver), ("resolved", driver), ("firing", area)]


def test_what_held_by_other_columns_does_not_come_back_with_a_revision():
    """Though nothing holds any more where the alert is changed."""
    state = json.loads(json.dumps(EMPTY))
    seen = (("driver", 1, 1), ("driver", 2, 1), ("driver", 3, 0), ("area", 3, 1))
    for by, minute, count in seen:
        spec = alerting({"when": "true", "for": "3 minutes", "by": by})
        alert = spec.queries["busy"].alert
        step = _Look(spec, json.loads(json.dumps(state)), 0)
        step.end_unknown({"busy": alert})
        times = minute * 60 * SECOND, (minute + 1) * 60 * SECOND
        step.take("busy", alert, count * [{"driver": "1", "area": "1"}], *times)
        state = step.state
    assert state["changes"] == []


@pytest.mark.parametrize("together", [False, True])
def test_values_of_one_window_keep_no_other_from_its_alert(together):
    """However the windows come in batches. A column is one in upper case, too."""
    drivers = ({"1": 9}, {"2": 9}, {"x": 9}, {"3": 9}, {"4": 1}, {"5": 1})
    minutes = [minute(number, each) for number, each in enumerate(drivers)]
    ledger = temporary()
    alert = {"when": "driver::INT < 4 AND count > 5 -- so", "by": "DRIVER"}
    ingest = Ingest(alerting(alert), ledger, query_id="q")
    for number, rows in enumerate([list(itertools.chain(*minutes))] if together else minutes):
        ingest.take(number, gather([events(rows)]))
        ingest._alerts.finish()
    ingest.finish(ended=False)
    ingest.close()
    fired = [c[1:] for c in changes(ledger) if c[0] == "firing"]
    assert fired == [("1", "14"), ("2", "15"), ("3", "17")]
    ledger.close()


def test_an_alert_that_goes_is_resolved_and_one_that_fails_says_so(url):
    ledger = open_ledger(url())
    ingest = Ingest(alerting(), ledger, query_id="q")
    take(ingest, range(4))
    until(lambda: len(changes(ledger)) == 2)
    broken = "CAST(CASE WHEN count > 0 THEN 'x' END AS INTEGER) > 0"
    ingest.reconfigure(alerting(queries={"other": {"select": SELECT, "alert": {"when": broken}}}))
    take(ingest, (4,))
    ingest.finish(ended=False)
    ingest.close()
    assert [c[:2] for c in changes(ledger)[2:]] == [("resolved", "a"), ("resolved", "b")]
    alerts = ledger.alerts("orders")["alerts"]
    assert set(alerts) == {"other"}
    assert "'x'" in alerts["other"]["error"]
    assert "SELECT" not in alerts["other"]["error"]
    assert not alerts["other"]["active"]
    ledger.close()


def test_a_webhook_gets_all_signed_after_it_was_away_and_nobody_waits(url, tmp_path):
    (port,) = free_ports(1)
    ledger = open_ledger(url())
    ingest = Ingest(alerting(webhook=f"http://127.0.0.1:{port}/hook"), ledger, query_id="q")
    take(ingest, range(4))  # there is nobody yet
    until(lambda: ledger.alerts("orders")["waiting"])
    with Server(ledger, port=0) as server:
        receiver = Receiver(tmp_path, port)
        until(lambda: len(receiver.received()) >= 2)
        receiver.kill()
        take(ingest, range(4, len(MINUTES)))
        until(lambda: len(changes(ledger)) == 4)
        receiver = Receiver(tmp_path, port)
        until(lambda: ingest._alerts.said()["delivered"] == 4)
        assert not ledger.alerts("orders")["waiting"]
        ingest.status.say("running")
        shown = httpx.get(f"{server.url}/state").json()["pipelines"][0]["alerts"]
        metrics = httpx.get(f"{server.url}/metrics").text
    ingest.close()
    receiver.kill()
    found = receiver.received()
    assert all(line["signed"] and line["id"] == line["event"]["id"] for line in found)
    once = list({line["id"]: line["event"] for line in found}.values())
    assert [(e["state"], e["by"]["driver"], e["at"][14:16]) for e in once] == EXPECTED
    assert once[0]["rows"][0]["count"] == 9
    shown_in_docs = json.loads(sample_of("alerts.md", '"alert.firing"'))
    assert once[0].keys() == shown_in_docs.keys()
    (row,) = shown_in_docs["rows"]
    assert once[0]["rows"][0].keys() - {"driver", "count"} == row.keys() - {"origin", "p99"}
    assert [c["id"] for c in shown["changes"]] == [e["id"] for e in once][::-1]
    assert shown["alerts"] == [
        {"name": "busy", "firing": 0, "pending": 0, "longest": [], "left_out": 0, "error": ""}
    ]
    assert shown["webhook"]["delivered"] == 4
    assert shown["webhook"]["failures"] > 0
    assert 'muntin_alert_changes_total{pipeline="orders"} 4.0' in metrics
    assert 'muntin_webhook_waiting{pipeline="orders"} 0.0' in metrics


def test_what_is_pushed_at_the_end_is_in_the_status(tmp_path, monkeypatch):
    """A run of cron, say: its last word in the ledger comes before the webhook has all."""
    monkeypatch.setattr("muntin.assembly.webhook.LEAVE_SECONDS", 60.0)
    receiver = Receiver(tmp_path)
    ledger = temporary()
    ingest = Ingest(alerting(webhook=receiver.url), ledger, query_id="q")
    take(ingest, range(len(MINUTES)))
    ingest.finish(ended=True)
    ingest.close()
    receiver.kill()
    status = ledger.status("orders")
    assert status["state"] == "finished"
    assert status["webhook"]["delivered"] == len(receiver.received()) == 4


def test_what_a_webhook_refuses_does_not_hold_up_the_rest(tmp_path):
    receiver = Receiver(tmp_path, status=422)
    ledger = temporary()
    ingest = Ingest(alerting(webhook=receiver.url), ledger, query_id="q")
    take(ingest, range(len(MINUTES)))
    said = until(lambda: (said := ingest._alerts.said())["refused"] == 4 and said)
    ingest.close()
    receiver.kill()
    assert (said["delivered"], said["refused"]) == (0, 4)
    assert len(receiver.received()) == 4


@contextlib.contextmanager
def answering(answer):
    """A receiver that gives this answer again and again, and takes note of what it was sent."""
    asked = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve():
            with contextlib.suppress(OSError):
                while True:
                    connection = server.accept()[0]
                    with connection, contextlib.suppress(OSError):
                        asked.append(connection.recv(65536))
                        while True:
                            connection.sendall(answer() or b"")

        threading.Thread(target=serve, daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}/hook?token=abc", asked
        server.shutdown(socket.SHUT_RDWR)


def test_a_receiver_that_never_ends_its_answer_is_given_up(monkeypatch):
    monkeypatch.setattr(webhook, "TIMEOUT_SECONDS", 0.2)
    event = webhook.WebhookEvent("a.1.2", b"{}")
    with answering(lambda: b"HTTP/1.1 100 Continue\r\n\r\n") as (url, _):
        pushing = webhook.Webhook(url, b"key", lambda: event, lambda _: None)
        said = until(lambda: (said := pushing.said())["error"] and said)
        pushing.close()
    assert said["delivered"] == 0
    # Python's newest versions give up such an answer themselves
    assert said["error"] in ("timed out", "its answer is no HTTP")


def test_an_answer_comes_after_what_is_only_on_the_way():
    events = [webhook.WebhookEvent("a.1.2", b"{}")]
    hints = b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n"
    with answering(lambda: 2 * hints + b"HTTP/1.1 204 No\r\n\r\n") as (url, _):
        pushing = webhook.Webhook(url, b"key", lambda: events[0] if events else None, events.remove)
        said = until(lambda: (said := pushing.said())["delivered"] and said)
        pushing.close()
    assert (said["failures"], events) == (0, [])


def test_a_receiver_that_says_what_it_was_sent_gives_no_address_away():
    event = webhook.WebhookEvent("a.1.2", b"{}")
    with answering(lambda: b"POST /hook?token=abc HTTP/1.1\r\n") as (url, _):
        pushing = webhook.Webhook(url, b"key", lambda: event, lambda _: None)
        said = until(lambda: (said := pushing.said())["error"] and said)
        pushing.close()
    assert said["error"] == "its answer is no HTTP"


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("https://[2001:db8::5]/hook", ("2001:db8::5", 443)),
        ("http://[::1]/hook", ("::1", 80)),
        ("http://[::1]:8080", ("::1", 8080)),
        ("https://alerts.example/hook", ("alerts.example", 443)),
    ],
)
def test_a_receiver_is_where_its_address_says(url, address, monkeypatch):
    asked = []
    monkeypatch.setattr(socket, "create_connection", lambda where, *_: asked.append(where))
    event = webhook.WebhookEvent("a.1.2", b"{}")
    pushing = webhook.Webhook(url, b"key", lambda: event, lambda _: None)
    assert until(lambda: asked[:1]) == [address]
    pushing.close()


def test_an_address_that_was_replaced_gets_no_more():
    """What it was being sent it may have; the rest is the new one's."""
    answer, taken = threading.Event(), []
    event = webhook.WebhookEvent("a.1.2", b"{}")

    def after():
        answer.wait()
        return b"HTTP/1.1 204 No\r\nconnection: close\r\n\r\n"

    with answering(after) as (url, asked):
        pushing = webhook.Webhook(url, b"key", lambda: event, taken.append)
        until(lambda: asked)
        pushing.close()
        answer.set()
        pushing._thread.join()
    assert (len(asked), len(taken)) == (1, 1)


def test_a_file_with_the_same_address_sends_nothing_twice(monkeypatch):
    """What is on its way while the file changes has one sender."""
    monkeypatch.setattr(webhook, "TIMEOUT_SECONDS", 120)  # else a busy machine makes it try again
    answer = threading.Event()

    def after():
        answer.wait()
        return b"HTTP/1.1 204 No\r\nconnection: close\r\n\r\n"

    ledger = temporary()
    with answering(after) as (url, asked):
        ingest = Ingest(alerting(webhook=url), ledger, query_id="q")
        take(ingest, range(len(MINUTES)))
        until(lambda: asked and len(changes(ledger)) == 4)  # they come by and by
        ingest.reconfigure(alerting(webhook=url, max_rejected=0.5))
        answer.set()
        until(lambda: not ledger.alerts("orders")["waiting"])
        ingest.close()
    assert len(asked) == len({one.split(b"webhook-id: ")[1].split()[0] for one in asked}) == 4


@pytest.mark.chaos
def test_a_pipeline_killed_before_it_knew_pushes_the_same_id_again(url, tmp_path):
    """Killed with -9 after the receiver had it: once in the ledger, twice there, with one id."""
    receiver, place = Receiver(tmp_path), url()

    def started(first):
        command = [sys.executable, str(HERE / "alerting_process.py"), place, receiver.url]
        process = subprocess.Popen(
            [*command, str(first)], stdout=subprocess.PIPE, text=True,
            env={**os.environ, "PYTHONPATH": str(HERE.parents[1])},
        )  # fmt: skip
        assert process.stdout.readline() == "taken\n"
        return process

    def killed(process):
        process.kill()
        process.wait()
        process.stdout.close()

    first = started(0)
    until(receiver.received)
    ledger = open_ledger(place)
    until(lambda: len(changes(ledger)) == 4)
    killed(first)
    second = started(len(MINUTES))
    until(lambda: not ledger.alerts("orders")["waiting"])
    killed(second)
    receiver.kill()
    ids = [line["id"] for line in receiver.received()]
    kept = [change["id"] for change in ledger.alerts("orders")["changes"]]
    assert changes(ledger) == EXPECTED
    assert ids == [kept[0], *kept]
    ledger.close()


def test_an_overdue_item_fires_without_an_event_and_is_resolved_when_it_comes(monkeypatch):
    monkeypatch.setattr("muntin.assembly.alerts.EVERY_SECONDS", 0.2)
    alert = {"when": "true", "by": ["driver", "area"]}
    queries = {"overdue": {"select": OVERDUE, "on": "update", "alert": alert}}
    ledger = temporary()
    beating = Beating(ledger, beating_pipeline(queries=queries))
    last = now_us() - 58 * SECOND
    beating.beats([("bus", 1, 3600, 12, now_us() - 1200 * SECOND), ("tram", 2, 60, 15, last)])
    fired = until(lambda: ledger.alerts("calls")["changes"])
    assert now_us() >= last + 60 * SECOND - 1_000
    assert [(c["state"], c["by"]) for c in fired] == [("firing", {"driver": "tram", "area": "2"})]
    beating.beats([("tram", 2, 60, 1, now_us())])
    both = until(lambda: (found := ledger.alerts("calls")["changes"])[1:] and found)
    beating.close()
    assert [c["state"] for c in both] == ["firing", "resolved"]


@pytest.mark.parametrize(
    ("alert", "message"),
    [
        ({"when": "counts > 5"}, r"queries\.busy\.alert\.when: no column 'counts'"),
        ({"when": "count >"}, r"queries\.busy\.alert\.when: "),
        ({"when": "read_csv('x') > 1"}, r"'read_csv'\n  read_csv\('x'\) > 1\n  \^{8}\n"),
        ({"when": "count > 5", "by": "drivers"}, r"no column 'drivers' .*; did you mean 'driver'"),
        ({"when": "count > 5", "by": ["driver", "driver"]}, r"alert\.by: 'driver' stands twice"),
        ({"when": ""}, r"alert\.when"),
        ({"when": "count > 5", "for": "soon"}, r"alert\.for"),
    ],
)
def test_what_an_alert_cannot_mean_is_refused(alert, message):
    with pytest.raises(SpecError, match=message):
        Ingest(alerting(alert), temporary(), query_id="q")


@pytest.mark.parametrize("end", ["-- all", ";", "; -- all"])
def test_a_condition_is_asked_whatever_the_statement_ends_with(end):
    alert = {"when": "counts > 5"}
    queries = {"busy": {"select": f"{SELECT} {end}", "on": "update", "alert": alert}}
    with pytest.raises(SpecError, match=r"alert\.when: no column 'counts'"):
        Ingest(alerting(queries=queries), temporary(), query_id="q")


def test_a_webhook_has_a_secret_that_readers_never_see(monkeypatch):
    spec = alerting(webhook="https://alerts.example/hook?token=abc")
    assert "hook" not in json.dumps(spec.as_json())
    assert SECRET not in repr(spec)
    unsigned = pipeline(webhook={"url": "https://alerts.example/hook"})
    monkeypatch.delenv("MUNTIN_WEBHOOK_SECRET", raising=False)
    with pytest.raises(SpecError, match="set MUNTIN_WEBHOOK_SECRET"):
        Ingest(unsigned, temporary(), query_id="q")
    ingest = Ingest(pipeline(), temporary(), query_id="q")
    with pytest.raises(SpecError, match="set MUNTIN_WEBHOOK_SECRET"):
        ingest.reconfigure(unsigned)
    assert ingest.pipeline == pipeline()
    ingest.close()
    monkeypatch.setenv("MUNTIN_WEBHOOK_SECRET", "whsec_c2VjcmV0IG9mIHRoZSB0ZXN0cw==")
    assert unsigned.webhook.key() == b"secret of the tests"
    for wrong in ("ftp://alerts.example", "https://alerts.example/\x7f"):
        with pytest.raises(SpecError, match=r"webhook\.url"):
            pipeline(webhook={"url": wrong, "secret": SECRET})


def test_without_alerts_there_is_no_thread_and_nothing_is_stored():
    ledger = temporary()
    ingest = Ingest(pipeline(), ledger, query_id="q")
    assert isinstance(ingest._alerts, Alerts)
    assert ingest._alerts._thread is None
    ingest.close()
    assert ledger.alerts("orders") is None
