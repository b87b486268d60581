"""A pipeline that is changed between its runs: what it says is true of what it then holds."""

from __future__ import annotations

import json
import os
import time
from types import SimpleNamespace

import pyarrow as pa
import pytest

from muntin.assembly import assembler, cutting
from muntin.assembly.changes import check_changes
from muntin.cli.run import PipelineFile
from muntin.errors import LedgerConflict, LedgerError, SelectError, SourceError, SpecError
from muntin.ledger import shared
from muntin.ledger.files import payload_folder
from muntin.ledger.open import open_ledger
from muntin.ledger.sqlite_writer import Writer
from muntin.ledger.store import StoreAway
from muntin.ledger.temporary import temporary
from muntin.reading.amounts import events_over_time
from muntin.session import Session
from muntin.spark.ingest import Ingest
from muntin.spec import Pipeline
from tests.pipeline.support import SECOND, START, events, gather, pipeline

MATRIX = {"keys": ["driver"], "indicators": ["fare"]}
FARES = {"kind": "quantiles", "value": "fare"}
ONE = {"m": MATRIX}
WINDOW = {"kind": "tumbling", "length": "20 seconds"}


def fed(ledger, summaries, batches, first, *, ended=False, **more):
    """Feed a ledger by a pipeline of these summaries, from the batch of that number on.

    `ended`: so has its source, as in a run with `--once`.
    """
    spec = pipeline(**{"summaries": summaries, "queries": {}, "lateness": "0 s"} | more)
    ingest = Ingest(spec, ledger, query_id="q")
    try:
        for number, seconds in enumerate(batches, first):
            rows = [(second, "d", 1, 1, 10) for second in seconds]
            ingest.take(number, gather([events(rows)]))
        if ended:
            ingest.finish(ended=True)
    finally:
        ingest.close()


def said(ledger, text):
    result = Session(ledger).sql(text)
    lacking = [each["uncounted"] for each in result.bounds.values() if "uncounted" in each]
    return result.rows, result.exact, lacking


def test_a_summary_that_joins_later_says_what_it_lacks():
    """Of the pane in which it joined, and of panes before it to which late events came."""
    ledger = temporary()
    both = {"m": MATRIX, "n": MATRIX | {"window": WINDOW}, "q": FARES}
    asked = {"by_n": "SELECT driver, count FROM n(driver)"}
    fed(ledger, {"m": MATRIX}, [[0, 1, 2], [12, 13]], 0)
    fed(ledger, both, [[14, 15], [3], [25, 45]], 2, queries=asked)
    assert said(ledger, "SELECT count FROM m FOR ALL") == ([[10]], True, [])
    assert said(ledger, "SELECT count FROM n FOR ALL") == ([[5]], False, [{"n": 5}])
    rows = said(ledger, "SELECT n FROM quantiles(q, 0.5) FOR ALL")
    assert rows == ([[5]], False, [{"q": 5}])
    first = "SELECT driver, count FROM n(driver) FOR '2023-11-14 22:13:20' TO '2023-11-14 22:13:40'"
    assert said(ledger, first) == ([["d", 3]], False, [{"n": 5}])
    assert not said(ledger, "SELECT count FROM trend(by_n)")[1]
    since = "SELECT count FROM n FOR '2023-11-14 22:13:40' TO '2023-11-14 22:15'"
    assert said(ledger, since) == ([[2]], True, [])


def test_of_a_time_before_it_joined_a_summary_does_not_say_that_nothing_came():
    ledger = temporary()
    fed(ledger, {"m": MATRIX}, [[0, 1, 2], [12]], 0)
    fed(ledger, {"m": MATRIX, "n": MATRIX}, [], 2)
    assert said(ledger, "SELECT count FROM n FOR ALL")[1:] == (False, [{"n": 4}])
    fed(ledger, {"m": MATRIX, "n": MATRIX}, [[45]], 2)
    assert said(ledger, "SELECT count FROM n FOR ALL") == ([[1]], False, [{"n": 4}])
    asked = "SELECT count FROM n FOR '2023-11-14 22:13' TO '2023-11-14 22:{}'"
    assert said(ledger, asked.format("13:40"))[1:] == (False, [{"n": 4}])
    assert said(ledger, asked.format("15")) == ([[1]], False, [{"n": 4}])
    assert said(ledger, "SELECT count FROM n FOR LAST '1 minute'") == ([[1]], False, [{"n": 4}])
    assert said(ledger, "SELECT count FROM n FOR LAST '20 s'") == ([[1]], True, [])


@pytest.mark.parametrize("rollups", [["20 s"], []])
def test_all_time_is_also_that_before_a_summary_joined_where_its_panes_were_dropped(rollups):
    """Rollups hold what they were; and panes of late events say nothing of later ones."""
    ledger, both = temporary(), {"m": MATRIX, "n": MATRIX}
    kept = {"retention": {"panes": "1 minute"}, "rollups": rollups}
    fed(ledger, ONE, [range(0, 300, 5)], 0, **kept)
    later = [range(300, 400, 5), range(400, 500, 5)] if rollups else [[5], [301]]
    fed(ledger, both, later, 1, **kept)
    assert ledger.horizon("n", 10 * SECOND) is not None
    counted = 40 if rollups else 1
    assert said(ledger, "SELECT count FROM n FOR ALL") == ([[counted]], False, [{"n": 60}])
    assert said(ledger, "SELECT count FROM m FOR ALL")[1:] == (True, [])


@pytest.mark.parametrize("pane", ["5 seconds", "1 minute"])
def test_panes_stay_as_long_as_they_are(pane):
    """Also where rollups go with them: retention is not to blame."""
    ledger = temporary()
    fed(ledger, ONE, [[0, 70]], 0)
    with pytest.raises(SpecError, match=f"^pane: 10 seconds in what is stored, now {pane}"):
        check_changes(pipeline(summaries=ONE, queries={}, pane=pane), ledger)


def test_events_stay_of_the_time_that_they_were_counted_by():
    """Also where all summaries are others, since one that comes back would be of both."""
    fields = {"utc": "to_utc_timestamp(time, 'Europe/Berlin')"}
    ways = (
        ({"time": {"column": "n", "unit": "s"}}, "time in what is stored, now n in s:"),
        (
            {"time": "utc", "fields": fields},
            r"time in .*, now utc, .to_utc_timestamp\(time, .*\).:",
        ),
        ({"fields": {"time": fields["utc"]}}, r"time in .*, now time, .to_utc_timestamp\(time, "),
    )
    for changed, told in ways:
        ledger = temporary()
        fed(ledger, ONE, [], 0)
        fed(ledger, ONE, [], 0, **changed)  # nothing was counted yet
        fed(ledger, ONE, [[0, 70]], 0)
        for summaries in (ONE, {"n": MATRIX}):
            with pytest.raises(SpecError, match=f"^time: {told}"):
                fed(ledger, summaries, [], 1, **changed)
        assert said(ledger, "SELECT count FROM m FOR ALL") == ([[2]], True, [])


def test_rollups_that_are_taken_out_go_whole_or_not_at_all():
    ledger = temporary()
    rungs, kept = ["20 s", "1 minute", "10 minutes"], {"retention": {"panes": "30 s"}}
    batches = [range(at, at + 60, 5) for at in range(0, 1800, 60)]
    fed(ledger, ONE, batches, 0, rollups=rungs, **kept)
    with pytest.raises(SpecError, match=r"nothing but those of 20 seconds holds .*Z, \d+ events"):
        fed(ledger, ONE, [], 30, rollups=rungs[2:], **kept)
    without = [rungs[0], rungs[2]]
    fed(ledger, ONE, [[1810], [1660]], 30, rollups=without, **kept)  # late: they would receive it
    assert {reach.length // SECOND for reach in ledger.coverage("m")} == {20, 600}
    assert said(ledger, "SELECT count FROM m FOR ALL") == ([[362]], True, [])


def test_rollups_of_all_time_are_said_to_hold_it_from_its_beginning():
    """They reach back to 1970, which is no time of the events."""
    ledger = temporary()
    kept = {"retention": {"panes": "30 s"}}
    fed(
        ledger,
        ONE,
        [range(at, at + 60, 5) for at in range(0, 600, 60)],
        0,
        rollups=["20 s"],
        **kept,
    )
    told = r"holds summaries\.m from the first event to 2023-11-14T22:2\d:\d+Z, \d+ events: "
    with pytest.raises(SpecError, match=told):
        fed(ledger, ONE, [], 10, rollups=[], **kept)


def test_rollups_that_come_back_are_made_anew_where_their_deletion_was_interrupted(monkeypatch):
    ledger = temporary()
    batches = [range(at, at + 60, 5) for at in range(0, 300, 60)]
    fed(ledger, ONE, batches, 0, rollups=["1 minute"])
    with monkeypatch.context() as patch:
        patch.setattr(Writer, "_delete_until", lambda *_: 1 // 0)
        with pytest.raises(ZeroDivisionError):
            fed(ledger, ONE, [], 5, rollups=[])
    fed(ledger, ONE, [[310]], 5, rollups=[])
    fed(ledger, ONE, [[320], [380]], 6, rollups=["1 minute"])
    assert said(ledger, "SELECT count FROM m FOR ALL") == ([[63]], True, [])


@pytest.mark.parametrize("before", [["1 minute"], []])
def test_what_rollups_hold_that_came_later_is_all_where_they_begin_with_it(before):
    """FOR ALL is whole where rollups went and came back, not where retention came before them."""
    ledger, kept = temporary(), {"retention": {"panes": "2 minutes"}}
    windows, ever = {"m": MATRIX | {"window": WINDOW}}, {"ever": "SELECT count FROM m FOR ALL"}
    minutes = [range(at, at + 60, 5) for at in range(0, 900, 60)]
    fed(ledger, windows, minutes[:10], 0, rollups=before, **({} if before else kept))
    fed(ledger, windows, [], 10, rollups=[], **({} if before else kept))
    fed(ledger, windows, minutes[10:], 10, rollups=["1 minute"], queries=ever, **kept)
    fed(ledger, windows, [[700, 701]], 15, rollups=["1 minute"], queries=ever, **kept)
    found = Session(ledger).sql("SELECT count FROM trend(ever) FOR LAST '1 minute'")
    less = "what this trend reads begins later" in found.to_text()
    assert (found.rows[-1] == [178], less) == (bool(before), not before)


@pytest.mark.parametrize(
    "kept", [{"rollups": []}, {"retention": {"panes": "1 day", "rollups": "2 days"}}]
)
def test_what_retention_has_not_reached_yet_is_whole(kept):
    ledger = temporary()
    spec = {"retention": {"panes": "1 day"}, "rollups": ["1 minute"]} | kept
    spec |= {"queries": {"ever": "SELECT count FROM m FOR ALL"}}
    minutes = [range(at, at + 60, 5) for at in range(0, 900, 60)]
    fed(ledger, {"m": MATRIX | {"window": WINDOW}}, [*minutes, [700, 701]], 0, **spec)
    found = Session(ledger).sql("SELECT count FROM trend(ever) FOR LAST '1 minute'")
    assert (found.rows[-1], found.exact) == ([178], True)
    fed(ledger, {"m": MATRIX | {"window": WINDOW}}, [[86_400 * 2]], 16, **spec)
    assert (ledger.horizon("m", 10 * SECOND) or 0) > START


def test_rollups_of_a_time_without_events_are_not_taken_out_from_under_longer_ones():
    """The longer ones could not be made: the pipeline would end at its next batch."""
    ledger = temporary()
    rungs, kept = ["20 s", "1 minute"], {"retention": {"panes": "20 s"}}
    fed(ledger, ONE, [[0, 5], [15], [95], [141]], 0, rollups=rungs, **kept)
    with pytest.raises(SpecError, match=r"those of 20 seconds holds summaries\.m .*Z, 0 events: "):
        fed(ledger, ONE, [[165], [225]], 4, rollups=rungs[1:], **kept)
    fed(ledger, ONE, [[165], [225]], 4, rollups=rungs, **kept)
    assert said(ledger, "SELECT count FROM m FOR ALL") == ([[7]], True, [])


def test_a_summary_that_was_away_says_what_it_lacks():
    ledger = temporary()
    fed(ledger, {"m": MATRIX, "n": MATRIX}, [[0, 1]], 0)
    fed(ledger, {"m": MATRIX}, [[20, 21, 22]], 1)
    fed(ledger, {"m": MATRIX, "n": MATRIX}, [[40]], 2)
    fed(ledger, {"m": MATRIX, "n": MATRIX}, [[60]], 3)
    assert said(ledger, "SELECT count FROM n FOR ALL") == ([[4]], False, [{"n": 3}])
    assert said(ledger, "SELECT count FROM n FOR LAST '30 s'") == ([[2]], True, [])


def test_retention_takes_what_is_stored_of_a_summary_that_was_taken_out():
    ledger = temporary()
    both = {"m": MATRIX, "n": MATRIX | {"window": WINDOW}}
    retention = {"panes": "30 s", "rollups": "2 minutes", "history": "2 minutes"}
    kept = {"retention": retention, "rollups": ["20 s", "1 minute"]}
    fed(ledger, both, [range(at, at + 30, 5) for at in range(0, 300, 30)], 0, **kept)
    fed(ledger, ONE, [[600]], 10, **kept)
    fed(ledger, ONE, [[900]], 11, **kept)
    lengths = [each * SECOND for each in (10, 20, 60)]
    assert [ledger.pieces("n", length) for length in lengths] == [[], [], []]
    assert ledger.pieces("m", 10 * SECOND)
    fed(ledger, both, [], 12, **kept)
    notes = [note.message for note in Session(ledger).sql("SELECT * FROM n FOR ALL").notes]
    assert notes[0].startswith("n holds nothing any more: retention has dropped panes before")
    with pytest.raises(SelectError, match="no closed window of n is stored"):
        Session(ledger).sql("SELECT * FROM n FOR WINDOW LAST")
    fed(ledger, both, [[1000], [1010]], 12, **kept)
    assert said(ledger, "SELECT count FROM n FOR LAST '20 s'") == ([[2]], True, [])


def test_a_window_that_is_open_waits_for_a_summary_that_was_taken_out():
    ledger = temporary()
    long = {"kind": "tumbling", "length": "10 minutes"}
    both = {"m": MATRIX, "n": MATRIX | {"window": long}}
    kept = {"retention": {"panes": "30 s"}, "rollups": []}
    fed(ledger, both, [range(at, at + 30, 5) for at in range(0, 120, 30)], 0, **kept)
    fed(ledger, ONE, [[130]], 4, **kept)
    fed(ledger, both, [[140], [700]], 5, **kept)
    assert said(ledger, "SELECT events FROM windows(n)")[0] == [[25]]


BEATS = {"kind": "periodic", "item": "driver", "gap": "1 s", "interval_unit": "1 s"}


def test_a_sequential_summary_says_what_it_lacks():
    """It follows the whole stream: what came before it joined, and while it was away."""
    ledger = temporary()
    asked = "SELECT item FROM periodic(p)"
    fed(ledger, {"m": MATRIX}, [[0, 1, 2], [12]], 0)
    fed(ledger, {"m": MATRIX, "p": BEATS}, [[20, 21], [41]], 2)
    result = Session(ledger).sql(asked)
    assert result.bounds["p"]["uncounted"] == {"p": 4}
    (note,) = [note.message for note in result.notes if note.code == "uncounted"]
    assert note.endswith("p has counted 3 of 7 events, and all since 2023-11-14T22:13:40Z")
    fed(ledger, {"m": MATRIX}, [[60]], 4)
    fed(ledger, {"p": BEATS}, [[80]], 5)
    assert Session(ledger).sql(asked).bounds["p"]["uncounted"] == {"p": 5}
    fed(ledger, {"p": BEATS, "r": BEATS}, [[90]], 6)
    assert Session(ledger).sql(asked).bounds["p"]["uncounted"] == {"p": 5}
    assert Session(ledger).sql("SELECT item FROM periodic(r)").bounds["r"]["uncounted"] == {"r": 9}


def test_windows_that_closed_say_what_they_lack():
    ledger = temporary()
    joined = {"m": MATRIX, "n": MATRIX | {"window": WINDOW}}
    fed(ledger, {"m": MATRIX}, [[0, 1]], 0)
    fed(ledger, joined, [[2], [25], [45], [65]], 1)
    fed(ledger, {"m": MATRIX}, [[26, 66]], 5)
    fed(ledger, joined, [[85], [105]], 6)
    asked = "SELECT events FROM windows(n)"
    assert said(ledger, asked) == ([[1], [1], [1], [1], [1]], False, [{"n": 4}])
    since = f"{asked} FOR '2023-11-14 22:14:40' TO '2023-11-14 22:16'"
    assert said(ledger, since) == ([[1]], True, [])


def test_where_all_summaries_are_replaced_the_first_pane_is_not_called_whole():
    """Those that are gone have counted what the new ones lack."""
    ledger = temporary()
    fed(ledger, {"m": MATRIX}, [[0, 1, 2], [12, 13]], 0)
    fed(ledger, {"n": MATRIX, "o": FARES}, [[14, 15], [25]], 2)
    assert said(ledger, "SELECT count FROM n FOR ALL") == ([[3]], False, [{"n": 5}])
    first = "SELECT count FROM n FOR '2023-11-14 22:13:30' TO '2023-11-14 22:13:40'"
    assert said(ledger, first) == ([[2]], False, [{"n": 2}])
    since = "SELECT count FROM n FOR '2023-11-14 22:13:40' TO '2023-11-14 22:15'"
    assert said(ledger, since) == ([[1]], True, [])
    fed(ledger, {"p": MATRIX}, [[26], [3]], 4)
    assert said(ledger, "SELECT count FROM p FOR ALL") == ([[2]], False, [{"p": 8}])
    fed(ledger, {"n": MATRIX}, [[100]], 6)
    assert said(ledger, "SELECT count FROM n FOR ALL") == ([[4]], False, [{"n": 7}])
    assert said(ledger, "SELECT count FROM n FOR LAST '10 s'") == ([[1]], True, [])


def test_what_overlapping_summaries_have_counted_is_a_bound():
    """Each was there for a part: together they have no fewer events than there were."""
    ledger = temporary()
    fed(ledger, {"a": MATRIX}, [[0, 1]], 0)
    fed(ledger, {"a": MATRIX, "b": MATRIX}, [[2]], 1)
    fed(ledger, {"b": MATRIX}, [[3]], 2)
    fed(ledger, {"b": MATRIX, "c": MATRIX}, [[4]], 3)
    assert said(ledger, "SELECT count FROM b FOR ALL") == ([[3]], False, [{"b": 2}])
    fed(ledger, {"c": MATRIX}, [[5, 6]], 4)
    result = Session(ledger).sql("SELECT count FROM c FOR ALL")
    assert (result.rows, result.exact) == ([[3]], False)
    assert result.bounds["c"]["uncounted"] == {"c": 4}  # all that came before
    (note,) = [note.message for note in result.notes if note.code == "uncounted"]
    assert "c has counted 3 of at most 7 events" in note


def test_a_time_in_which_a_summary_was_away_is_not_empty():
    ledger = temporary()
    fed(ledger, {"m": MATRIX, "n": MATRIX}, [[0]], 0)
    fed(ledger, {"m": MATRIX}, [[20, 21, 40]], 1)
    fed(ledger, {"m": MATRIX, "n": MATRIX}, [[60]], 2)
    gap = "SELECT driver, count FROM n(driver) FOR '2023-11-14 22:13:40' TO '2023-11-14 22:14:00'"
    assert said(ledger, gap) == ([], False, [{"n": 2}])


def test_the_newest_time_is_that_of_the_stream_also_where_a_summary_was_away():
    """What it has of an earlier time is not the answer, still less an exact one."""
    ledger, last = temporary(), "SELECT driver, count FROM n(driver) FOR LAST '20 s'"
    both = {"m": MATRIX, "n": MATRIX}
    fed(ledger, both, [[0], [25]], 0)
    fed(ledger, {"m": MATRIX}, [[60, 80, 85]], 2)
    fed(ledger, both, [], 3)
    assert said(ledger, last) == ([], False, [{"n": 2}])
    assert said(ledger, "SELECT count FROM n") == ([[2]], False, [{"n": 3}])
    fed(ledger, both, [[26]], 3)  # a late one is no news
    assert said(ledger, last) == ([], False, [{"n": 2}])
    fed(ledger, both, [[115]], 4)
    assert said(ledger, last) == ([["d", 1]], True, [])


def windows_of(ledger, name):
    return [
        ((w.start - START) // SECOND, (w.end - START) // SECOND, w.revision, w.events)
        for w in ledger.windows(name)
    ]


FLOATING = {"kind": "floating", "length": "30 seconds"}


def test_windows_of_another_kind_begin_where_those_of_before_ended():
    """Each event of before lies in the windows of before, and none of them is cut anew."""
    ledger = temporary()
    fed(ledger, {"m": MATRIX | {"window": FLOATING}}, [[10], [21], [45], [90]], 0)
    before = windows_of(ledger, "m")
    assert before == [(10, 40, 0, 2), (40, 70, 0, 1)]
    fed(ledger, {"m": MATRIX | {"window": WINDOW}}, [], 4)
    assert said(ledger, "SELECT count FROM m") == ([[1]], True, [])
    fed(ledger, {"m": MATRIX | {"window": WINDOW}}, [[130]], 4)
    assert windows_of(ledger, "m") == [*before, (80, 100, 0, 1)]
    fed(ledger, {"m": MATRIX | {"window": FLOATING}}, [], 5)
    assert said(ledger, "SELECT count FROM m") == ([[1]], True, [])
    fed(ledger, {"m": MATRIX | {"window": FLOATING}}, [[200]], 5)
    assert windows_of(ledger, "m") == [*before, (80, 100, 0, 1), (130, 160, 0, 1)]


def test_a_summary_that_comes_back_goes_on_with_its_windows():
    """Late events had moved where they would begin if they were cut anew."""
    ledger = temporary()
    m = MATRIX | {"window": WINDOW}
    both = {"m": m, "n": MATRIX | {"window": FLOATING}}
    fed(ledger, both, [[20], [31], [55], [61], [95], [5]], 0)
    before = windows_of(ledger, "n")
    assert before == [(0, 20, 0, 1), (20, 50, 0, 2), (50, 80, 0, 2)]
    fed(ledger, {"m": m}, [[100], [115]], 6)
    fed(ledger, {"m": m, "n": MATRIX}, [[117]], 8)
    fed(ledger, both, [[150], [240]], 9)
    assert windows_of(ledger, "n")[:3] == before
    starts = [(start, end) for start, end, *_ in windows_of(ledger, "n")]
    assert starts == [(0, 20), (20, 50), (50, 80), (90, 120), (150, 180)]


def test_a_window_of_which_nobody_kept_the_panes_does_not_close():
    """Late events lie there again, alone."""
    ledger = temporary()
    followed, kept = {"m": MATRIX | {"window": FLOATING}}, {"retention": {"panes": "20 s"}}
    fed(ledger, followed, [[0], [12]], 0, rollups=[], **kept)
    fed(ledger, {"m": MATRIX}, [[15], [100]], 2, rollups=[], **kept)
    fed(ledger, {"m": MATRIX}, [[16]], 4, rollups=[])
    fed(ledger, followed, [[130]], 5, rollups=[])
    assert windows_of(ledger, "m") == [(100, 130, 0, 1)]


def test_a_window_that_is_longer_than_those_of_now_is_revised():
    ledger = temporary()
    longer = WINDOW | {"length": "200 seconds"}
    fed(ledger, {"m": MATRIX | {"window": longer}}, [[0], [210]], 0)
    shorter = {"m": MATRIX | {"window": WINDOW | {"length": "10 seconds"}}}
    fed(ledger, shorter, [[300], [190], [310]], 2)
    assert windows_of(ledger, "m")[:2] == [(0, 200, 1, 2), (210, 220, 0, 1)]


def test_a_window_that_closes_longer_than_those_of_now_is_revised():
    """It was open when the windows became shorter: nobody has seen one so long before."""
    ledger = temporary()
    spans = ("300 s", "10 s")
    longer, shorter = ({"m": MATRIX | {"window": FLOATING | {"length": n}}} for n in spans)
    fed(ledger, longer, [[0, 190], [200]], 0)
    fed(ledger, shorter, [[300], [180], [310]], 2)
    assert windows_of(ledger, "m")[:2] == [(0, 200, 1, 3), (200, 210, 0, 1)]


@pytest.mark.parametrize("ended", [False, True])
def test_a_longer_window_that_begins_in_dropped_history_does_not_close(ended):
    """It would be the first revision of one that was dropped, and that others still have."""
    ledger = temporary()
    kept = {"retention": {"history": "30 s"}, "ended": ended}
    windows = [WINDOW | {"length": length} for length in ("20 s", "200 s")]
    shorter, longer = ({"m": MATRIX | {"window": window}} for window in windows)
    fed(ledger, shorter, [[0, 12], [25], [105]], 0, **kept)
    assert START not in {w.start for w in ledger.windows("m")}
    fed(ledger, longer, [[110, 150], [210]], 3, **kept)
    assert [start for start, *_ in windows_of(ledger, "m") if start < 100] == []
    fed(ledger, longer, [[5], [405]], 5, **kept)
    assert (200, 400, int(ended), 1) in windows_of(ledger, "m")
    assert START not in {w.start for w in ledger.windows("m")}


def trend_of(ledger, clause=""):
    result = Session(ledger).sql(f"SELECT window_start, count FROM trend(by_m) {clause}")  # noqa: S608
    notes = [note.message for note in result.notes if note.code in ("outdated", "uncounted")]
    return [count for _, count in result.rows], result.exact, notes


@pytest.mark.parametrize(
    ("now", "exact"),
    [
        ("WHERE  driver\n<> 'a b' -- it's\nOR true", True),
        ("WHERE driver <> 'a  b' -- it's\nOR true", False),
        ("WHERE driver <> 'a b' -- it's OR true", False),
    ],
)
def test_a_result_is_of_the_statement_but_for_spaces_outside_of_quotes(now, exact):
    ledger = temporary()
    m = {"m": MATRIX | {"window": WINDOW}}
    asked = "SELECT sum(count) AS count FROM m(driver) "
    before = f"{asked} WHERE driver <> 'a b' -- it's\nOR true"
    fed(ledger, m, [[0, 1], [25]], 0, queries={"by_m": before})
    fed(ledger, m, [[26]], 2, queries={"by_m": asked + now})
    assert trend_of(ledger)[1] == exact


def test_results_of_a_query_that_was_away_say_so():
    """Late events revise its windows without it, and windows close of which it has none."""
    ledger = temporary()
    m = {"m": MATRIX | {"window": WINDOW}}
    asked = {"by_m": "SELECT sum(count) AS count FROM m(driver)"}
    fed(ledger, m, [[0, 1], [25], [45]], 0, queries=asked)
    assert trend_of(ledger) == ([2, 1], True, [])
    fed(ledger, m, [[2], [65], [85]], 3)
    fed(ledger, m, [], 6, queries=asked)
    old = "by_m: of its results, 1 lack late events, which came while it was away"
    none = "by_m: of its results, 2 are missing: windows that closed without it"
    assert trend_of(ledger) == ([2, 1], False, [old, none])
    fed(ledger, m, [[105]], 6, queries=asked)
    assert trend_of(ledger) == ([2, 1, 1], False, [old, none])
    second = "FOR '2023-11-14 22:13:40' TO '2023-11-14 22:14:00'"
    assert trend_of(ledger, second) == ([1], True, [])
    third = "FOR '2023-11-14 22:14:00' TO '2023-11-14 22:14:20'"
    assert trend_of(ledger, third) == ([], False, [none.replace("2 are", "1 are")])


@pytest.mark.parametrize(
    ("clause", "counts", "behind"),
    [
        ("LAST '60 s'", [1, 2, 3, 3, 3], 3),
        ("ALL", [1, 2, 3, 4, 5], 5),
        ("'2023-11-14 22:13:20' TO '2023-11-14 22:14:00'", [1, 2, 2, 2, 2], 5),
    ],
)
def test_results_that_late_events_beside_their_windows_did_not_reach_say_so(clause, counts, behind):
    """They came to panes that no window begins in, or to others than the window's."""
    ledger = temporary()
    m = {"m": MATRIX | {"window": WINDOW}}
    asked = {"by_m": f"SELECT count FROM m FOR {clause}"}  # noqa: S608
    fed(ledger, m, [[0], [30], [50], [70], [90], [100]], 0, queries=asked)
    assert trend_of(ledger) == (counts, True, [])
    fed(ledger, m, [[5]], 6)
    fed(ledger, m, [[130]], 7, queries=asked)
    away = "by_m: of its results, 1 lack late events, which came while it was away"
    beside = f"{behind} lack late events in panes that they read, of which no revision tells"
    counts = [*counts, 7 if clause == "ALL" else 3]
    assert trend_of(ledger) == (counts, False, [away, f"by_m: of its results, {beside}"])
    newest = "FOR '2023-11-14 22:15:00' TO '2023-11-14 22:15:20'"
    assert trend_of(ledger, newest) == (counts[-1:], True, [])
    other = {"by_m": f"SELECT count + 0 AS count FROM m FOR {clause}"}  # noqa: S608
    fed(ledger, m, [], 8, queries=other)
    (note, _) = trend_of(ledger)[2]
    assert note == "by_m: of its results, 6 of 6 are of an earlier statement"


def test_results_say_so_too_where_rollups_hold_what_they_read():
    """Of those that end where panes are left; of older ones nobody can tell."""
    ledger = temporary()
    m = {"m": MATRIX | {"window": WINDOW}}
    asked = {"by_m": "SELECT count FROM m FOR ALL"}
    kept = {"retention": {"panes": "100 s"}, "rollups": ["1 minute"]}
    batches = [[0], [30], [50], [70], [90], [400], [430], [450], [470], [500]]
    fed(ledger, m, batches, 0, queries=asked, **kept)
    assert trend_of(ledger) == ([*range(1, 10)], True, [])
    fed(ledger, m, [[5]], 10, **kept)
    fed(ledger, m, [[530]], 11, queries=asked, **kept)
    away = "1 lack late events, which came while it was away"
    told = "4 lack late events in panes that they read, of which no revision tells"
    notes = [f"by_m: of its results, {said}" for said in (away, told)]
    assert trend_of(ledger) == ([*range(1, 10), 11], False, notes)
    assert trend_of(ledger, "FOR '2023-11-14 22:21:40' TO '2023-11-14 22:22'") == ([11], True, [])


def test_windows_that_nothing_revises_any_more_say_so():
    ledger = temporary()
    fed(ledger, {"m": MATRIX | {"window": WINDOW}}, [[0, 1], [25], [45]], 0)
    asked = "SELECT events FROM windows(m)"
    without = temporary()
    fed(without, {"m": MATRIX}, [[0, 1]], 0)
    (note,) = Session(without).sql(asked).notes
    assert note.message == "m: it has no windows that close: give it `window`"
    fed(ledger, {"m": MATRIX}, [[65]], 3)
    assert said(ledger, asked) == ([[2], [1]], True, [])
    fed(ledger, {"m": MATRIX}, [[2]], 4)
    result = Session(ledger).sql(asked)
    assert (result.rows, result.exact) == ([[2], [1]], False)
    (note,) = result.notes
    assert note.message == "m: it has no windows any more, and 1 of these may lack late events"
    fed(ledger, {"m": MATRIX | {"window": WINDOW}}, [[66]], 5)
    assert said(ledger, asked) == ([[3], [1], [1]], True, [])


def test_late_events_are_owed_no_more_to_a_window_that_closes_with_them_at_the_end():
    """The run that follows the windows again has no batch: its source has ended already."""
    ledger = temporary()
    late, kept = {"lateness": "60 s", "rollups": []}, {"retention": {"panes": "30 s"}}
    windows = [WINDOW | {"length": length} for length in ("20 s", "200 s")]
    before, after = ({"m": MATRIX | {"window": window}} for window in windows)
    fed(ledger, before, [[0, 1], [25], [105]], 0, **late)
    fed(ledger, {"m": MATRIX}, [[2], [205]], 3, **late)
    fed(ledger, after, [], 5, ended=True, **late, **kept)
    fed(ledger, after, [[206]], 5, **late, **kept)
    (first, *_) = windows_of(ledger, "m")
    assert (*first[:2], first[3]) == (0, 200, 5)


@pytest.mark.parametrize("bits", [assembler.OWED_BITS, 0])
def test_windows_that_are_followed_again_tell_of_late_events_whose_panes_are_gone(
    bits, monkeypatch
):
    monkeypatch.setattr(assembler, "OWED_BITS", bits)
    ledger = temporary()
    kept = {"retention": {"panes": "20 s"}, "rollups": []}
    followed = {"m": MATRIX | {"window": WINDOW}}
    fed(ledger, followed, [[0, 1], [25], [105]], 0, **kept)
    fed(ledger, {"m": MATRIX}, [[2], [125]], 3, **kept)  # its window's pane went with the third
    fed(ledger, {"m": MATRIX}, [[145]], 5, **kept)
    fed(ledger, followed, [[165]], 6, **kept)
    assert windows_of(ledger, "m")[:2] == [(0, 20, 1, 3), (20, 40, 0, 1)]
    fed(ledger, followed, [[185], [3]], 7, **kept)
    assert windows_of(ledger, "m")[:2] == [(0, 20, 2, 4), (20, 40, 0, 1)]


def test_what_is_owed_to_windows_that_nobody_follows_stays_small(monkeypatch):
    """However many panes late events come to: it is part of each commit that brings some."""
    monkeypatch.setattr(assembler, "OWED_BITS", 4)
    ledger = temporary()
    kept = {"retention": {"panes": "20 s"}, "rollups": []}
    window = {"kind": "sliding", "length": "1000 seconds", "every": "500 seconds"}
    longer = {"retention": {"panes": "1450 s"}, "rollups": []}
    asked = {"queries": {"by_m": "SELECT count FROM m FOR LAST '1450 s'"}}
    followed = {"m": MATRIX | {"window": window}}
    fed(ledger, followed, [range(0, 5200, 10), [5300]], 0, **longer, **asked)
    before = windows_of(ledger, "m")
    assert before[-1][:2] == (4000, 5000)  # it reads from 3550 on
    fed(ledger, {"m": MATRIX}, [range(at, 3600, 50) for at in range(0, 50, 5)], 2, **kept)
    (state,) = ledger.assembler("orders").values()
    assert len(assembler._from_text(state["owed"], "m")) < 32
    fed(ledger, followed, [[5400]], 12, **longer, **asked)
    assert windows_of(ledger, "m")[: len(before)] == [
        (start, end, 1, events + len(range(max(start, 0), min(end, 3600), 5)))
        for start, end, _, events in before
    ]


def test_what_is_owed_is_not_inflated_beyond_what_it_may_have(monkeypatch):
    ledger = temporary()
    fed(ledger, {"m": MATRIX | {"window": WINDOW}}, [[0, 1], [25], [105]], 0)
    fed(ledger, {"m": MATRIX}, [[2]], 3)
    (state,) = ledger.assembler("orders").values()
    assert len(assembler._from_text(state["owed"], "m")) == 1
    damage = {"early": state["owed"][:-8], "odd": "x", "more": state["owed"]}
    monkeypatch.setattr(assembler, "OWED_BYTES_MAX", 23)
    for text in damage.values():
        with pytest.raises(LedgerError, match=r"^memory: what is owed to late .* is damaged \("):
            assembler._from_text(text, "memory")


def test_results_of_an_earlier_statement_say_so():
    ledger = temporary()
    m = {"m": MATRIX | {"window": WINDOW}}
    fed(ledger, m, [[0, 1], [25]], 0, queries={"by_m": "SELECT count FROM m"})
    fed(ledger, m, [[45]], 2, queries={"by_m": "SELECT count  FROM m"})  # spaces do not matter
    assert trend_of(ledger) == ([2, 1], True, [])
    fed(ledger, m, [[65]], 3, queries={"by_m": "SELECT fare AS count FROM m"})
    earlier = "by_m: of its results, 2 of 3 are of an earlier statement"
    assert trend_of(ledger) == ([2, 1, 10], False, [earlier])
    since = "FOR '2023-11-14 22:14:00' TO '2023-11-14 22:15'"
    assert trend_of(ledger, since) == ([10], True, [])


def test_results_over_a_summary_that_was_away_say_so():
    """Nothing revised its windows then."""
    ledger = temporary()
    other = {"n": MATRIX}
    m = {"m": MATRIX | {"window": WINDOW}, **other}
    asked = {"by_m": "SELECT count FROM m"}
    fed(ledger, m, [[0, 1], [25], [45]], 0, queries=asked)
    fed(ledger, other, [[2, 50]], 3)
    fed(ledger, m, [[65]], 4, queries=asked)
    lacking = "by_m: m was not there all the time: they lack at most 1 event"
    counts, exact, notes = trend_of(ledger)
    assert (counts, exact, notes[0]) == ([2, 1, 1], False, lacking)


@pytest.mark.parametrize(
    ("was", "now", "message"),
    [
        (FARES, FARES | {"k": 100}, "q.k: 200 in what is stored, now 100"),
        (FARES, FARES | {"by": "driver"}, "q.by"),
        (FARES, FARES | {"value": "served"}, "q.value: fare in what is stored, now served"),
        (FARES, FARES | {"type": "float32"}, "q.type: float64 in what is stored, now float32"),
        (FARES, FARES | {"accuracy": "tail"}, "q.accuracy: nothing in what is stored, now tail"),
        (
            {"kind": "top_k", "item": "driver"},
            {"kind": "top_k", "item": "driver", "weight": "fare"},
            "q.weight: nothing in what is stored, now fare",
        ),
        (
            {"kind": "distinct", "item": "driver"},
            {"kind": "distinct", "item": "area"},
            "q.item: driver in what is stored, now area",
        ),
        (
            {"kind": "fingerprint", "key": "driver"},
            {"kind": "fingerprint", "key": "area"},
            "q.key: driver in what is stored, now area",
        ),
        (
            {"kind": "periodic", "item": "driver", "gap": "1 s", "interval_unit": "1 s"},
            {"kind": "periodic", "item": "area", "gap": "1 s", "interval_unit": "1 s"},
            r"q.item: \['driver'\] in what is stored, now \['area'\]",
        ),
    ],
)
@pytest.mark.parametrize("away", [False, True])
def test_what_is_stored_of_a_summary_is_of_the_same_columns_and_size(was, now, message, away):
    ledger = temporary()
    fed(ledger, {"m": MATRIX, "q": was}, [[0, 1], [20]], 0)
    if away:
        fed(ledger, {"m": MATRIX}, [[40]], 2)
    with pytest.raises(SpecError, match=message):
        fed(ledger, {"m": MATRIX, "q": now}, [], 3)
    fed(ledger, {"m": MATRIX, "q": was}, [[60]], 2 + away)


def test_a_field_that_is_stored_stays_what_it_is():
    """Its column would be a sum of two things; another name may be anything."""
    ledger = temporary()
    first = {"fare": "coalesce(fare, 0)"}
    fed(ledger, {"m": MATRIX, "p": BEATS}, [[0]], 0, fields=first)
    fed(ledger, {"m": MATRIX, "p": BEATS}, [], 1, fields={"fare": " coalesce(fare,  0)", "x": "1"})
    for other, shown in (({"fare": "2 * fare"}, r"'2 \* fare'"), ({}, "the source's own column")):
        message = rf"fields\.fare: 'coalesce\(fare, 0\)' in what summaries\.m .* now {shown}"
        with pytest.raises(SpecError, match=message):
            fed(ledger, {"m": MATRIX}, [], 1, fields=other)
    with pytest.raises(SpecError, match=r"fields\.driver: the source's own column in what summar"):
        fed(ledger, {"p": BEATS}, [], 1, fields={"driver": "upper(driver)"})
    fed(ledger, {"n": MATRIX}, [[1]], 1, fields={"fare": "2 * fare"})
    fed(ledger, {"n": MATRIX, "o": MATRIX}, [[2]], 2, fields={"fare": "2 * fare"})
    with pytest.raises(
        SpecError, match=r"fields\.fare: 'coalesce\(fare, 0\)' in what summaries\.m"
    ):
        fed(ledger, {"n": MATRIX, "m": MATRIX}, [], 3, fields={"fare": "2 * fare"})
    fed(ledger, {"m": MATRIX}, [[3]], 3, fields=first)


def test_a_field_of_which_nothing_came_may_change():
    """It failed on a row of its first batch, and the run ended; pieces were compacted before."""
    ledger = temporary()
    failed, tried = {"served": "CAST(s AS INT)"}, {"served": "TRY_CAST(s AS INT)"}
    joined = {"m": MATRIX | {"indicators": ["fare", "served"]}}
    fed(ledger, ONE, [[at] for at in range(40)], 0)
    fed(ledger, joined, [], 40, fields=failed)
    fed(ledger, joined, [[40]], 40, fields=tried)
    for fields in (failed, {}):
        with pytest.raises(SpecError, match=r"fields\.served: 'TRY_CAST.* summaries\.m has stored"):
            fed(ledger, joined, [], 41, fields=fields)


def test_a_column_that_comes_back_is_what_it_was():
    """Over restarts, and where its summary was away as well: its sum would be one of two things."""
    ledger = temporary()
    served = {"served": "2 * served"}
    both = {"m": MATRIX | {"indicators": ["fare", "served"]}}
    fed(ledger, both, [[0]], 0, fields=served)
    fed(ledger, ONE, [[1]], 1)
    fed(ledger, ONE, [[2]], 2)
    fed(ledger, {"n": MATRIX}, [[3]], 3)
    for summaries in ({"n": MATRIX}, ONE):
        fed(ledger, summaries, [], 4)
        for fields, now in (({}, "the source's own"), ({"served": "3 * served"}, "'3 ")):
            with pytest.raises(SpecError, match=rf"fields\.served: '2 \* served' .* now {now}"):
                fed(ledger, both, [], 4, fields=fields)
    fed(ledger, both, [[4]], 4, fields=served)
    assert said(ledger, "SELECT served FROM m FOR ALL")[0] == [[2]]


def test_what_an_older_writer_commits_while_another_opens_is_told():
    ledger = temporary()
    one, both = (pipeline(summaries=s, queries={}) for s in (ONE, ONE | {"n": MATRIX}))
    older = Ingest(one, ledger, query_id="q")
    older.take(0, gather([events([(0, "d", 1, 1, 10)])]))

    class Between:
        """Another process is asked for its batch just before this one becomes the writer."""

        def __getattr__(self, name):
            return getattr(ledger, name)

        def open_writer(self, *given, **more):
            older.take(1, gather([events([(1, "d", 1, 1, 10)])]))
            return ledger.open_writer(*given, **more)

    newer = Ingest(both, Between(), query_id="q")
    with pytest.raises(LedgerConflict, match="took over"):
        older.take(2, gather([events([(2, "d", 1, 1, 10)])]))
    older.close()
    newer.take(2, gather([events([(2, "d", 1, 1, 10)])]))
    newer.close()
    assert said(ledger, "SELECT count FROM n FOR ALL") == ([[1]], False, [{"n": 2}])


@pytest.mark.parametrize("server", ["postgresql", "redis_server"])
def test_who_starts_knows_what_others_did_though_the_store_is_slow(server, request, monkeypatch):
    """A ledger that was opened long ago, by which another process has run meanwhile."""
    url = request.getfixturevalue(server).url(schema=f"slow{os.getpid()}")
    ours, theirs = open_ledger(url), open_ledger(url)
    both = {"m": MATRIX, "n": MATRIX}
    fed(ours, both, [[0]], 0)
    fed(theirs, ONE, [[1], [2]], 1)
    store = type(ours._replica.store)
    since, slow_until = store.since, time.monotonic() + 0.5

    def slow(*asked):
        if time.monotonic() < slow_until:
            raise StoreAway("it is busy")
        return since(*asked)

    monkeypatch.setattr(shared, "READER_SECONDS", 0.1)
    monkeypatch.setattr(store, "since", slow)
    fed(ours, both, [[3]], 3)
    assert said(ours, "SELECT count FROM n FOR ALL") == ([[2]], False, [{"n": 2}])
    ours.close()
    theirs.close()


@pytest.mark.parametrize("server", ["postgresql", "redis_server"])
def test_a_file_that_is_not_taken_over_is_not_stored_though_the_store_has_it(
    server, request, monkeypatch
):
    """It took the new spec, and its answer, like all that was asked after it, was lost."""
    url = request.getfixturevalue(server).url(schema=f"lost{os.getpid()}", deadline=1)
    ledger = open_ledger(url)
    one, both = (pipeline(summaries=s, queries={}) for s in (ONE, ONE | {"n": MATRIX}))
    ingest = Ingest(one, ledger, query_id="q")
    ingest.take(0, gather([events([(0, "d", 1, 1, 10)])]))

    def away(*_):
        raise StoreAway("it is busy")

    store = type(ledger._replica.store)
    append = store.append
    with monkeypatch.context() as lost:
        lost.setattr(store, "append", lambda *given: append(*given) and away())
        lost.setattr(store, "since", away)
        with pytest.raises(LedgerError, match="does not answer within"):
            ingest.reconfigure(both)
    ingest.take(1, gather([events([(1, "d", 1, 1, 10)])]))
    assert set(ledger.pipelines()[0].spec["summaries"]) == {"m"}
    ingest.reconfigure(both)
    ingest.take(2, gather([events([(2, "d", 1, 1, 10)])]))
    ingest.close()
    assert said(ledger, "SELECT count FROM n FOR ALL") == ([[1]], False, [{"n": 2}])
    ledger.close()


def test_a_file_is_taken_over_once_its_store_answers_again(
    postgresql, monkeypatch, tmp_path, capsys
):
    monkeypatch.setattr("muntin.cli.run.AGAIN_SECONDS", 0.0)
    ledger = open_ledger(postgresql.url(schema=f"again{os.getpid()}", deadline=1))
    one, both, wrong = (
        pipeline(summaries=s, queries={}) for s in (ONE, ONE | {"n": MATRIX}, {"m": FARES})
    )
    ingest = Ingest(one, ledger, query_id="q")
    ingest.take(0, gather([events([(0, "d", 1, 1, 10)])]))
    file = tmp_path / "p.json"
    file.write_text(json.dumps(one.as_json()))
    watched = PipelineFile(file)
    stream = SimpleNamespace(
        reconfigure=lambda path: ingest.reconfigure(
            Pipeline.from_json(json.loads(path.read_text()))
        )
    )

    def heard():
        watched.take_over(stream)
        return capsys.readouterr().err

    def away(*_):
        raise StoreAway("it is busy")

    assert heard() == ""
    with monkeypatch.context() as lost:
        lost.setattr(type(ledger._replica.store), "append", away)
        file.write_text(json.dumps(both.as_json()))
        assert "goes on as before (it is tried again)" in heard()
        assert heard() == ""
    assert set(ledger.pipelines()[0].spec["summaries"]) == {"m"}
    assert "taken over, as it is now" in heard()
    assert set(ledger.pipelines()[0].spec["summaries"]) == {"m", "n"}
    file.write_text(json.dumps(wrong.as_json()))
    assert "goes on as before: summaries.m" in heard()
    assert heard() == ""
    ingest.close()
    ledger.close()


def test_shards_without_a_place_change_nothing(monkeypatch):
    ledger = temporary()
    ingest = Ingest(pipeline(summaries=ONE, queries={}), ledger, query_id="q")
    stored = ledger.pipelines()[0].spec
    with monkeypatch.context() as without:
        without.setattr(type(ledger), "payload_folder", lambda *_: payload_folder("", "", "p", 0))
        sharded = pipeline(summaries={"m": MATRIX | {"shards": 2}}, queries={})
        with pytest.raises(SpecError, match="payloads: "):
            ingest.reconfigure(sharded)
        ingest.take(0, gather([events([(0, "d", 1, 1, 10)])]))
        with pytest.raises(SpecError, match="payloads: "):
            Ingest(sharded, ledger, query_id="q")
        ingest.take(1, gather([events([(1, "d", 1, 1, 10)])]))
    ingest.close()
    assert ledger.pipelines()[0].spec == stored


DAYS = pa.array([0, 1], pa.date32())
TYPED = {"m": {"keys": ["k"], "window": WINDOW}}


@pytest.mark.parametrize(
    ("summary", "first", "then"),
    [
        ({"keys": ["k"]}, [1, 2], ["a", "b"]),
        ({"keys": ["k"]}, [None, 2], DAYS),
        ({"keys": [["n", "k"]]}, ["a", None], [True, False]),
        ({"kind": "distinct", "item": "n", "by": "k"}, ["a", "b"], [1, 2]),
        ({"kind": "top_k", "item": "k"}, ["a", "b"], [1, 2]),
        ({"kind": "frequency", "item": "k", "track": 0}, [1, 2], ["a", "b"]),
        ({"kind": "fingerprint", "key": "k"}, [1, 2], ["a", "b"]),
    ],
)
def test_a_column_of_another_type_is_not_committed(summary, first, then):
    """It could be merged with nothing that is stored: no window over both would ever answer."""
    ledger = temporary()
    spec = pipeline(summaries={"m": summary}, queries={}, lateness="0 s")

    def table(second, values):
        times = pa.array([START + second * SECOND] * 2, pa.timestamp("us", "UTC"))
        return pa.table({"time": times, "k": values, "n": [1, 2]})

    ingest = Ingest(spec, ledger, query_id="q")
    ingest.take(0, gather([table(0, first)]))
    ingest.take(1, gather([table(1, pa.nulls(2))]))
    with pytest.raises(SourceError, match=r"summaries\.m: .* to that type \(of a file: write"):
        ingest.take(2, gather([table(2, then)]))
    ingest.close()
    again = Ingest(spec, ledger, query_id="q")
    with pytest.raises(SourceError, match=r"summaries\.m: "):
        again.take(2, gather([table(100, then)]))
    again.take(2, gather([table(3, first)]))
    again.finish(ended=True)
    again.close()
    (info,) = ledger.pipelines()
    assert (info.batches, info.counted) == (3, 6)


@pytest.mark.parametrize(
    ("first", "then", "since"),
    [
        ("driver", "count", "int64 since 2023-11-14T22:14:00Z, and string before"),
        ("INTERVAL 1 MONTH", "INTERVAL '-1 day 1 hour'", ""),
        ("count", "18446744073709551616 * count", ""),
    ],
)
def test_a_column_of_a_standing_query_may_become_another(first, then, since):
    ledger, summaries = temporary(), {"m": MATRIX | {"window": WINDOW}}
    for number, asked in enumerate((first, then)):
        queries = {"q": f"SELECT {asked} AS x FROM m(driver)"}  # noqa: S608
        fed(ledger, summaries, [range(80 * number, 80 * number + 60)], number, queries=queries)
    session = Session(ledger)
    text = "SELECT x FROM trend(q) {} ORDER BY window_start"
    if since:
        with pytest.raises(SelectError, match=f"its column 'x' is {since}") as refused:
            session.sql(text.format(""))
        rows = session.sql(text.format(refused.value.remedy)).rows
        assert rows == [[20]] * 3
        return
    rows = session.sql(text.format("")).rows
    closed = len(session.windows("m"))
    assert rows[0] == ["P1M"] if first != "count" else [20]
    assert rows[-1] == ["P-1DT3600S"] if first != "count" else [20 * 2**64]
    assert len(rows) == closed


def typed(second, values):
    times = pa.array([START + second * SECOND] * len(values), pa.timestamp("us", "UTC"))
    return pa.table({"time": times, "k": values, "n": range(len(values))})


@pytest.mark.parametrize("shards", [None, 2])
@pytest.mark.parametrize("between", ["null", "away"])
def test_an_older_piece_tells_the_type_wherever_it_lies(tmp_path, monkeypatch, shards, between):
    """Newer pieces have only nulls of the column, or the key was taken out for a time."""
    if shards:  # all payloads lie in files
        monkeypatch.setattr(cutting, "CUT_BYTES_MIN", 0)
        monkeypatch.setattr(cutting, "FILE_BYTES_MIN", 0)
    ledger = open_ledger(f"sqlite:///{tmp_path}/l.db")
    more = {"shards": shards} if shards else {}
    whole = {"m": {"keys": ["k", "n"], **more}}
    without = {"m": {"keys": ["n"], **more}} if between == "away" else whole

    def taken(summaries, first, tables):
        spec = pipeline(summaries=summaries, queries={}, lateness="0 s")
        ingest = Ingest(spec, ledger, query_id="q")
        try:
            for number, table in enumerate(tables, first):
                ingest.take(number, gather([table]))
        finally:
            ingest.close()

    taken(whole, 0, [typed(0, [number * 7919 % 100_003 for number in range(9_000)])])
    taken(without, 1, [typed(10 * number, pa.nulls(2)) for number in range(1, 17)])
    with pytest.raises(SourceError, match=r"summaries\.m: 'k' is string, and int64 in what is"):
        taken(whole, 17, [typed(500, ["a", "b"])])
    taken(whole, 17, [typed(500, [1, 2])])
    assert ledger.pipelines()[0].batches == 18
    assert ledger.verify() == []


def test_totals_are_told_where_all_keys_were_replaced():
    """By the count of all events, and by the tables of keys that were taken out."""
    ledger = temporary()
    areas = {"keys": ["area"], "indicators": ["fare", "served"]}
    fed(ledger, ONE, [[0, 1, 2]], 0)
    fed(ledger, {"m": areas}, [[12], [45]], 1)
    before = "FROM m FOR '2023-11-14 22:13:20' TO '2023-11-14 22:13:30'"
    assert said(ledger, f"SELECT count, fare {before}") == ([[3, 30]], True, [])
    assert said(ledger, f"SELECT served {before}") == ([[None]], False, [{"served": 3}])
    assert said(ledger, "SELECT count FROM m FOR ALL") == ([[5]], True, [])
    every = "SELECT count, fare FROM m FOR ALL"
    assert said(ledger, every) == ([[5, 30]], False, [{"fare": 2}])
    of_key = "SELECT sum(count) FROM m(area) FOR ALL"
    assert said(ledger, of_key) == ([[2]], False, [{"area": 3}])


def test_what_is_said_of_an_indicator_is_that_of_the_rows_that_are_shown():
    """Not what another key has counted of it."""
    ledger = temporary()
    areas = {"keys": ["area"], "indicators": ["fare"]}
    fed(ledger, {"m": {"keys": ["driver"]}}, [range(6)], 0)
    fed(ledger, {"m": areas}, [[0, 1, 2]], 1)
    fed(ledger, {"m": areas | {"keys": ["driver", "area"]}}, [[3]], 2)
    drivers = said(ledger, "SELECT count, fare FROM m(driver) FOR ALL")
    assert drivers == ([[7, 10]], False, [{"driver": 3, "fare": 9}])
    assert said(ledger, "SELECT count, fare FROM m(area) FOR ALL")[1:] == (False, [{"area": 6}])
    assert said(ledger, "SELECT count, fare FROM m FOR ALL") == ([[10, 40]], False, [{"fare": 6}])


def test_what_was_an_indicator_may_become_a_key():
    ledger = temporary()
    fed(ledger, {"m": MATRIX}, [[0, 1]], 0)
    fed(ledger, {"m": {"keys": ["fare"]}}, [[2]], 1)
    rows = said(ledger, "SELECT fare, count FROM m(fare) FOR ALL")
    assert rows == ([[10, 1]], False, [{"fare": 2}])


def test_history_is_told_by_who_was_there_all_the_time():
    ledger = temporary()
    fed(ledger, {"b": MATRIX, "a": MATRIX}, [[0, 1]], 0)
    fed(ledger, {"b": MATRIX}, [[2, 3, 4]], 1)
    fed(ledger, {"b": MATRIX, "a": MATRIX}, [[5]], 2)
    spec = pipeline(summaries={"b": MATRIX, "a": MATRIX}, queries={})
    assert [n for _, n in events_over_time(ledger, spec, None, None)["points"]] == [6]


def test_history_begins_with_summaries_that_were_replaced():
    ledger = temporary()
    fed(ledger, {"m": MATRIX}, [[0, 1, 2], [12]], 0)
    fed(ledger, {"n": MATRIX}, [[3], [25]], 2)
    spec = pipeline(summaries={"n": MATRIX}, queries={})
    assert [n for _, n in events_over_time(ledger, spec, None, None)["points"]] == [3, 1, 1]


def test_with_a_shorter_lateness_any_batch_seals_what_it_lets_wait_no_longer():
    """Not only one with events that are newer than what the longer one had sealed."""
    ledger, summaries = temporary(), {"m": MATRIX | {"window": WINDOW}}
    fed(ledger, summaries, [[0, 100]], 0, lateness="1 hour")
    fed(ledger, summaries, [[50]], 1, lateness="10 s")
    (info,) = ledger.pipelines()
    assert (info.watermark, info.late) == (START + 90 * SECOND, 0)
    closed = [(w.start - START) // SECOND for w in ledger.windows()]
    assert closed == [0, 40]
