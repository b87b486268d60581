"""Sketches out of a ledger, into tables that others read, and such sketches in again."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog
from pyiceberg.utils.config import Config

from muntin.errors import BadArgument, SourceError, UnknownName
from muntin.exporting import delta, export, exporter
from muntin.exporting.parquet import ParquetFolder
from muntin.exporting.target import Overtaken
from muntin.ledger.sqlite import SqliteLedger
from muntin.reading.catalog import LedgerCatalog
from muntin.select.engine import Engine
from muntin.spark.ingest import Ingest
from tests.pipeline.support import SECOND, START, events, gather, pipeline
from tests.s3_server import KEYS, LOOPBACK

datasketches = pytest.importorskip("datasketches")
MINUTE = {"kind": "tumbling", "length": "1 minute"}
SUMMARIES = {
    "fares": {"kind": "quantiles", "value": "fare", "by": "driver", "window": MINUTE},
    "areas": {"kind": "distinct", "item": "area", "window": MINUTE},
    "others": {"kind": "distinct", "item": "driver", "window": MINUTE},
    "tails": {"kind": "quantiles", "value": "fare", "accuracy": "tail", "type": "float32"},
    "top": {"kind": "top_k", "item": "driver", "capacity": 10},
}
FORMS = ("parquet", "delta", "iceberg")


def spec():
    return pipeline(summaries=SUMMARIES, queries={}, rollups=[])


def rows(first, last, step=0.5):
    count = int((last - first) / step)
    return [(first + n * step, "abc"[n % 3], n % 50, 1, n % 97) for n in range(count)]


@pytest.fixture
def ingest(tmp_path):
    made = Ingest(spec(), SqliteLedger(f"{tmp_path}/ledger.db"), query_id="q")
    made.take(0, gather([events(rows(0, 300))]))
    yield made
    made.close()


@pytest.fixture
def place(tmp_path, monkeypatch, request):
    """Where each form writes; PyIceberg's catalog is a SQLite file."""
    monkeypatch.setenv("PYICEBERG_CATALOG__DEFAULT__URI", f"sqlite:///{tmp_path}/catalog.db")
    monkeypatch.setenv("PYICEBERG_CATALOG__DEFAULT__WAREHOUSE", f"file://{tmp_path}/warehouse")
    monkeypatch.setattr("pyiceberg.catalog._ENV_CONFIG", Config())  # as a new process reads it
    return {
        "parquet": f"{tmp_path}/files",
        "delta": f"{tmp_path}/delta",
        "iceberg": "muntin.sketches",
    }


def read(form, place):
    """The table as others read it."""
    if form == "parquet":
        return duckdb.read_parquet(f"{place[form]}/*.parquet").to_arrow_table()
    if form == "delta":
        return DeltaTable(place[form]).to_pyarrow_table()
    return load_catalog("default").load_table(place[form]).scan().to_arrow()


@pytest.mark.parametrize("form", FORMS)
def test_windows_go_out_once_and_again_with_late_events(ingest, place, form):
    ledger, to = ingest.ledger, (form, place[form])
    first = export(ledger, "fares", *to)
    windows = ledger.windows("fares")
    assert first.units == len(windows) > 2
    assert first.rows == 3 * first.units
    assert export(ledger, "fares", *to).rows == 0
    late = rows(70, 80)
    ingest.take(1, gather([events(late)]))
    ingest.finish(ended=False)
    again = export(ledger, "fares", *to)
    new = [w for w in ledger.windows("fares") if w.revision]
    assert again.units >= len(new) == 1
    table = read(form, place).to_pylist()
    keys = Counter((row["start"], row["revision"], row["driver"]) for row in table)
    assert set(keys.values()) == {1}
    revised = {row["driver"]: row for row in table if row["revision"] == 1}
    assert {row["late"] for row in revised.values()} == {len(late)}
    start = (new[0].start - START) / 1e6
    for driver, row in revised.items():
        values = sorted(
            fare
            for at, who, _, _, fare in rows(0, 300) + late
            if start <= at < start + 60 and who == driver
        )
        sketch = datasketches.kll_doubles_sketch.deserialize(row["sketch"])
        assert sketch.n == row["count"] == len(values)
        exact = [values[0], values[-(-len(values) // 2) - 1], values[-1]]
        assert [sketch.get_quantile(q, inclusive=True) for q in (0, 0.5, 1)] == exact


@pytest.mark.parametrize("of", ["windows", "panes"])
def test_what_may_lack_events_is_said(ingest, place, of):
    """A summary that joins a stream at work: the first windows have a part of their events."""
    assert export(ingest.ledger, "areas", "parquet", place["parquet"], of=of).lacking_before is None
    joined = {**SUMMARIES, "late": SUMMARIES["areas"]}
    more = Ingest(
        pipeline(summaries=joined, queries={}, rollups=[]), ingest.ledger, query_id="q", run="2"
    )
    more.take(1, gather([events(rows(290, 500))]))
    said = export(more.ledger, "late", "parquet", place["parquet"] + "2", of=of)
    assert said.units > 2
    assert said.lacking_before == START + 300 * SECOND
    more.close()


@pytest.mark.parametrize("form", FORMS)
def test_panes_go_out_once_they_are_sealed(ingest, place, form):
    ledger, to = ingest.ledger, (form, place[form])
    said = export(ledger, "areas", *to, of="panes")
    ingest.take(1, gather([events(rows(20, 25) + rows(300, 400))]))
    more = export(ledger, "areas", *to, of="panes")
    assert export(ledger, "areas", *to, of="panes").units == 0
    table = read(form, place).to_pylist()
    assert len(table) == said.units + more.units
    newest = {row["start"]: row for row in sorted(table, key=lambda row: row["revision"])}
    sealed = (ledger.pipelines()[0].watermark - START) // 10_000_000 * 10
    assert len(newest) == len({at // 10 for at, *_ in rows(0, 400) if at < sealed})
    assert sorted(row["revision"] for row in table if row["revision"]) == [10]
    union = datasketches.hll_union(12)
    for row in newest.values():
        union.update(datasketches.hll_sketch.deserialize(row["sketch"]))
    assert sum(row["events"] for row in newest.values()) == 2 * sealed + 10
    assert union.get_lower_bound(3) <= 50 <= union.get_upper_bound(3)


def test_a_pane_that_is_dropped_meanwhile_goes_out_whole_or_not_at_all(tmp_path, monkeypatch):
    """What is stored of it then are the late events that came after."""
    monkeypatch.setattr(exporter, "PANES_READ", 1)
    monkeypatch.setattr(exporter, "COMMIT_BYTES", 0)
    kept = spec().model_copy(
        update={"retention": spec().retention.model_copy(update={"panes": 60_000_000})}
    )
    ingest = Ingest(kept, SqliteLedger(f"{tmp_path}/ledger.db"), query_id="q")
    ingest.take(0, gather([events(rows(0, 80))]))
    layout = ingest._assembler.layouts["areas"]
    said = exporter.Exported()
    groups = exporter.panes(ingest.ledger, layout, (START // SECOND + 60) * SECOND, {}, said)
    out = [next(groups)]
    ingest.take(1, gather([events(rows(80, 300))]))
    ingest.take(2, gather([events(rows(15, 16) + rows(300, 301))]))
    assert said.dropped_before is None
    out += groups
    assert {n for group in out for unit in group for n in unit.spans[:, 3].tolist()} == {20}
    assert said.dropped_before == START + 210 * SECOND
    to = ("parquet", f"{tmp_path}/panes")
    for number, last, dropped in ((3, 301, 210), (4, 302, None), (5, 500, 400)):
        ingest.take(number, gather([events(rows(last - 1, last))]))
        told = export(ingest.ledger, "areas", *to, of="panes").dropped_before
        assert told == (dropped and START + dropped * SECOND)
    ingest.close()


@pytest.mark.parametrize(
    ("window", "dropped"), [(MINUTE, 100), (MINUTE | {"kind": "sliding", "every": "20 s"}, 140)]
)
def test_windows_beyond_history_that_were_not_out_are_told(tmp_path, window, dropped):
    kept = pipeline(
        summaries={"fares": SUMMARIES["fares"] | {"window": window}},
        queries={},
        retention={"history": "2 minutes"},
    )
    ingest = Ingest(kept, SqliteLedger(f"{tmp_path}/ledger.db"), query_id="q")

    def told(folder):
        return export(ingest.ledger, "fares", "parquet", f"{tmp_path}/{folder}").dropped_before

    ingest.take(0, gather([events(rows(0, 100))]))
    assert told("behind") is None
    for number in range(1, 5):
        assert told("often") is None
        ingest.take(number, gather([events(rows(50 + 50 * number, 100 + 50 * number))]))
    assert told("often") is None
    assert told("behind") == told("new") == START + dropped * SECOND
    assert told("behind") is None
    ingest.close()


@pytest.mark.parametrize("then", [{"history": "1 hour"}, {}])
def test_windows_that_a_shorter_history_has_dropped_are_told(tmp_path, then):
    """What it is by now does not say what has gone."""
    ledger = SqliteLedger(f"{tmp_path}/ledger.db")
    number = 0
    for kept, coming in (({"history": "2 minutes"}, rows(0, 290)), (then, rows(290, 300))):
        spec_now = pipeline(
            summaries={"fares": SUMMARIES["fares"]}, queries={}, retention=kept, rollups=[]
        )
        ingest = Ingest(spec_now, ledger, query_id="q")
        for rest in (coming[:400], coming[400:]):
            ingest.take(number, gather([events(rest)]))
            number += 1
        ingest.close()
    said = export(ledger, "fares", "parquet", f"{tmp_path}/windows")
    assert said.dropped_before == ledger.windows("fares", limit=1)[0].start > START


@pytest.mark.parametrize("is_away", [False, True])
@pytest.mark.parametrize("window", [MINUTE, MINUTE | {"kind": "floating"}])
def test_windows_that_history_has_dropped_stay_out_where_it_is_made_longer(
    tmp_path, window, is_away
):
    """Closed again, they would be the first revision that is out already, with other events."""
    ledger = SqliteLedger(f"{tmp_path}/ledger.db")
    fares = {"fares": SUMMARIES["fares"] | {"window": window}}
    other = {"sums": {"keys": ["driver"]}}
    number = 0
    for summaries, history, coming in (
        (fares, "2 minutes", [rows(0, 180), rows(70, 72)]),
        (other if is_away else fares, "2 minutes", [rows(180, 600)]),
        (fares, "1 hour", [rows(601, 602), rows(80, 81)]),
    ):
        kept = pipeline(summaries=summaries, queries={}, retention={"history": history})
        ingest = Ingest(kept, ledger, query_id="q")
        for each in coming:
            ingest.take(number, gather([events(each)]))
            number += 1
            if "fares" in summaries:
                export(ledger, "fares", "parquet", f"{tmp_path}/windows")
        ingest.close()
    first = 100 if is_away else 360  # what had not closed when it went
    assert min(window.start for window in ledger.windows("fares")) >= START + first * SECOND
    out = read("parquet", {"parquet": f"{tmp_path}/windows"}).to_pylist()
    keys = Counter((row["start"], row["revision"], row["driver"]) for row in out)
    assert set(keys.values()) == {1}


@pytest.mark.parametrize("ended", [False, True])
def test_history_that_a_start_without_a_batch_drops_stays_dropped(tmp_path, ended):
    ledger = SqliteLedger(f"{tmp_path}/ledger.db")
    fares = {"fares": SUMMARIES["fares"]}
    number = 0
    for history, coming in (
        ("1 hour", [rows(0, 180), rows(180, 600)]),
        ("2 minutes", []),
        ("1 hour", [rows(601, 602), rows(80, 81)]),
    ):
        kept = pipeline(summaries=fares, queries={}, retention={"history": history})
        ingest = Ingest(kept, ledger, query_id="q")
        for each in coming:
            ingest.take(number, gather([events(each)]))
            number += 1
            export(ledger, "fares", "parquet", f"{tmp_path}/windows")
        if not coming:
            ingest.finish(ended=ended)
            first = ledger.windows("fares", limit=1)[0].start
        ingest.close()
    assert ledger.windows("fares", limit=1)[0].start == first > START


def test_windows_that_are_dropped_while_an_export_runs_are_told(tmp_path, monkeypatch):
    monkeypatch.setattr(exporter, "WINDOWS_READ", 1)
    monkeypatch.setattr(exporter, "COMMIT_BYTES", 0)
    summaries = {"fares": SUMMARIES["fares"]}
    kept = pipeline(summaries=summaries, queries={}, retention={"history": "2 minutes"})
    ingest = Ingest(kept, SqliteLedger(f"{tmp_path}/ledger.db"), query_id="q")
    append, to = ParquetFolder.append, (ingest.ledger, "fares", "parquet", f"{tmp_path}/windows")

    def slow(folder, made):
        append(folder, made)
        for number, first, last in coming[:1]:  # after the first file
            coming.clear()
            ingest.take(number, gather([events(rows(first, last, 5))]))

    monkeypatch.setattr(ParquetFolder, "append", slow)
    ingest.take(0, gather([events(rows(0, 180, 5))]))
    coming = [(1, 180, 205)]  # drops the window that is out
    assert export(*to).dropped_before is None
    assert ingest.ledger.closings_dropped()
    ingest.take(2, gather([events(rows(205, 340, 5))]))
    coming = [(3, 340, 700)]
    said = export(*to)
    assert said.units == 3
    assert said.dropped_before == START + 520 * SECOND
    ingest.close()


@pytest.mark.parametrize("of", ["windows", "panes"])
def test_what_is_left_out_is_told_before_what_comes_after_it_is_out(
    tmp_path, monkeypatch, caplog, of
):
    """A run that is killed then has said it; no other one would find it."""
    kept = pipeline(
        summaries={"areas": SUMMARIES["areas"]},
        queries={},
        retention={"panes": "2 minutes", "history": "2 minutes"},
    )
    ingest = Ingest(kept, SqliteLedger(f"{tmp_path}/ledger.db"), query_id="q")
    to = (ingest.ledger, "areas", "parquet", f"{tmp_path}/out")
    ingest.take(0, gather([events(rows(0, 100))]))
    export(*to, of=of)
    for number in range(1, 6):
        ingest.take(number, gather([events(rows(100 * number, 100 * number + 100))]))
    append = ParquetFolder.append

    def killed(folder, made):
        append(folder, made)
        raise KeyboardInterrupt

    with monkeypatch.context() as once:
        once.setattr(ParquetFolder, "append", killed)
        with pytest.raises(KeyboardInterrupt):
            export(*to, of=of)
    assert [each.getMessage().split(": ")[1] for each in caplog.records] == [
        "retention dropped what was not out"
    ]
    assert export(*to, of=of).dropped_before is None
    ingest.close()


def test_late_events_that_went_with_a_pane_that_was_out_are_told(tmp_path):
    """Each run tells of them: they are in no row of the table."""
    kept = pipeline(
        summaries={"areas": SUMMARIES["areas"]},
        queries={},
        rollups=["1 minute"],
        retention={"panes": "2 minutes"},
    )
    ingest = Ingest(kept, SqliteLedger(f"{tmp_path}/ledger.db"), query_id="q")
    to = (ingest.ledger, "areas", "parquet", f"{tmp_path}/panes")
    ingest.take(0, gather([events(rows(0, 200))]))
    assert export(*to, of="panes").lost == 0
    ingest.take(1, gather([events(rows(120, 122) + rows(200, 260))]))  # 4 of a pane that stays
    assert export(*to, of="panes").lost == 0
    ingest.take(2, gather([events(rows(120, 121))]))  # 2 of a pane that is out
    ingest.take(3, gather([events(rows(260, 420))]))  # with which it goes
    ingest.take(4, gather([events(rows(61, 64))]))  # 6 of one that has gone
    for number in (5, 6):
        said = export(*to, of="panes")
        assert (said.lost, said.dropped_before) == (8, None)
        ingest.take(number, gather([events(rows(415 + number, 416 + number))]))
    ingest.close()


@pytest.mark.parametrize("kind", ["tumbling", "floating"])
def test_late_events_whose_window_history_dropped_before_they_were_out_are_told(tmp_path, kind):
    kept = pipeline(
        summaries={"fares": SUMMARIES["fares"] | {"window": MINUTE | {"kind": kind}}},
        queries={},
        retention={"history": "2 minutes"},
    )
    ingest = Ingest(kept, SqliteLedger(f"{tmp_path}/ledger.db"), query_id="q")
    to = (ingest.ledger, "fares", "parquet", f"{tmp_path}/windows")
    ingest.take(0, gather([events(rows(0, 200))]))
    said = export(*to)
    assert said.units
    assert said.lost == 0
    ingest.take(1, gather([events(rows(85, 87))]))  # 4 of a window that is out: a revision
    revisions = [window.revision for window in ingest.ledger.windows("fares", revisions=True)]
    assert 1 in revisions
    for number in range(2, 8):
        first = 200 + 30 * (number - 2)
        ingest.take(number, gather([events(rows(first, first + 30))]))
    assert ingest.ledger.windows("fares", limit=1)[0].start > START + 87 * SECOND
    for number in (8, 9):
        said = export(*to)
        assert said.lost == 4
        ingest.take(number, gather([events(rows(372 + number, 373 + number))]))
    ingest.close()


def test_panes_without_events_are_not_left_out(tmp_path):
    """Retention has dropped what is out, and then time in which nothing came."""
    kept = pipeline(summaries=SUMMARIES, queries={}, retention={"panes": "10 minutes"})
    ingest = Ingest(kept, SqliteLedger(f"{tmp_path}/ledger.db"), query_id="q")
    to = (ingest.ledger, "areas", "parquet", f"{tmp_path}/panes")
    ingest.take(0, gather([events(rows(0, 95) + rows(600, 601))]))
    assert export(*to, of="panes").dropped_before is None
    for number in range(1, 7):
        ingest.take(number, gather([events(rows(500 + 100 * number, 501 + 100 * number))]))
    assert ingest.ledger.horizon("areas", kept.pane) > START + 100 * SECOND
    assert export(*to, of="panes").dropped_before is None
    for number in range(7, 20):
        ingest.take(number, gather([events(rows(500 + 100 * number, 501 + 100 * number))]))
    dropped = ingest.ledger.horizon("areas", kept.pane)
    assert export(*to, of="panes").dropped_before == dropped
    ingest.close()


def test_a_standing_query_is_no_summary_to_export(tmp_path):
    queries = {"fare": {"select": "SELECT * FROM quantiles(fares, 0.5)", "on": "window"}}
    ledger = SqliteLedger(f"{tmp_path}/ledger.db")
    Ingest(pipeline(summaries=SUMMARIES, queries=queries), ledger, query_id="q").close()
    with pytest.raises(UnknownName, match=r"fare is a standing query, .* writes trend\(fare\)"):
        export(ledger, "fare", "parquet", f"{tmp_path}/files")


def test_what_cannot_go_out_says_so(ingest, place, tmp_path):
    ledger, folder = ingest.ledger, place["parquet"]
    with pytest.raises(UnknownName, match="did you mean 'fares'"):
        export(ledger, "fare", "parquet", folder)
    with pytest.raises(BadArgument, match="no sketch for top_k"):
        export(ledger, "top", "parquet", folder)
    with pytest.raises(BadArgument, match="tails has no windows that close"):
        export(ledger, "tails", "parquet", folder)
    assert not Path(folder).exists()
    export(ledger, "fares", "parquet", folder)
    with pytest.raises(BadArgument, match="another place"):
        export(ledger, "areas", "parquet", folder, of="panes")
    export(ledger, "fares", "delta", place["delta"])
    with pytest.raises(BadArgument, match=r"is a Delta Lake table: use .*--to delta"):
        export(ledger, "fares", "parquet", place["delta"])
    with pytest.raises(BadArgument, match=r"files of an export: use .*--to parquet"):
        export(ledger, "fares", "delta", folder)
    with pytest.raises(BadArgument, match=r"whose path has % \[: give another folder"):
        export(ledger, "fares", "delta", f"{tmp_path}/[a%20b")
    DeltaTable(place["delta"]).alter.set_table_properties({"muntin.export": "x"}, False)
    with pytest.raises(BadArgument, match="do not say of what they are"):
        export(ledger, "fares", "delta", place["delta"])
    with pytest.raises(BadArgument, match="is a URL"):
        export(ledger, "fares", "parquet", "s3://bucket/folder")
    other = Ingest(spec(), SqliteLedger(f"{tmp_path}/other.db"), query_id="q")
    other.take(0, gather([events(rows(0, 300, 1))]))
    with pytest.raises(BadArgument, match="the pipeline was reset"):
        export(other.ledger, "fares", "parquet", folder)
    other.close()
    said = export(ledger, "tails", "parquet", f"{folder}-tails", of="panes")
    sketches = read("parquet", {"parquet": f"{folder}-tails"})["sketch"].to_pylist()
    assert len(sketches) == said.units
    assert datasketches.req_floats_sketch.deserialize(sketches[0]).n == 20


@pytest.mark.parametrize("form", FORMS)
def test_a_table_holds_one_thing(ingest, place, form):
    """Starts, revisions and events are often the same; what is behind them is not."""
    sparse = [(0, "a", 1, 1, 5), (60, "a", 2, 1, 6), (120, "a", 3, 1, 7), (500, "a", 4, 1, 8)]
    ledger, to = ingest.ledger, (form, place[form])
    ingest.take(1, gather([events([(1000 + at, *row) for at, *row in sparse])]))
    assert export(ledger, "areas", *to).units
    held = read(form, place)
    for summary, of, said in (
        ("areas", "panes", "holds windows of areas, and panes of areas"),
        ("others", "windows", "holds windows of areas .*item area.*, and windows of others"),
        ("others", "panes", "holds windows of areas .*summary areas.*, and panes of others"),
    ):
        with pytest.raises(BadArgument, match=f"{said} are to go into it: export into another"):
            export(ledger, summary, *to, of=of)
    assert export(ledger, "areas", *to).units == 0
    assert read(form, place).equals(held)


@pytest.mark.parametrize("form", FORMS[1:])
def test_a_table_that_others_made_takes_rows_while_it_is_empty(ingest, place, form):
    ledger, to = ingest.ledger, (form, place[form])
    export(ledger, "areas", *to)
    schema = read(form, place).schema.remove_metadata()
    if form == "delta":
        other = f"{place[form]}-made"
        DeltaTable.create(other, schema)
    else:
        other = f"{place[form]}_made"
        load_catalog("default").create_table(other, schema)
    assert export(ledger, "areas", form, other).units
    with pytest.raises(BadArgument, match="holds windows of areas"):
        export(ledger, "others", form, other)


def test_an_iceberg_table_that_its_owner_has_partitioned_takes_more(ingest, place):
    to = ("iceberg", place["iceberg"])
    first = export(ingest.ledger, "fares", *to)
    with load_catalog("default").load_table(place["iceberg"]).update_spec() as parts:
        parts.add_identity("driver")
    ingest.take(1, gather([events(rows(300, 500))]))
    more = export(ingest.ledger, "fares", *to)
    assert more.rows == 3 * more.units > 0
    assert len(read("iceberg", place)) == first.rows + more.rows
    assert export(ingest.ledger, "fares", *to).rows == 0


@pytest.mark.parametrize("form", FORMS)
def test_of_two_exports_at_once_one_begins_anew(ingest, place, form, monkeypatch):
    """The second comes between what the first has read and what it writes."""
    ledger, to = ingest.ledger, (form, place[form])
    real, met = exporter.windows, []

    def first(*arguments):
        monkeypatch.setattr("muntin.exporting.exporter.windows", real)
        groups = list(real(*arguments))
        met.append(export(ledger, "fares", *to))
        yield from groups

    monkeypatch.setattr("muntin.exporting.exporter.windows", first)
    mine = export(ledger, "fares", *to)
    assert (mine.units, met[0].units) == (0, len(ledger.windows("fares")))
    table = read(form, place)
    assert len(table) == 3 * met[0].units


def test_a_file_that_another_export_has_just_finished_is_passed_over(tmp_path):
    (tmp_path / ".part-00000001.parquet-1-1.tmp").symlink_to("gone")  # listed, and not there
    assert ParquetFolder(str(tmp_path)).about() is None


def test_a_file_that_is_there_is_not_written_over(tmp_path):
    schema = pa.schema([("start", pa.int64())])
    rows = lambda: pa.RecordBatchReader.from_batches(schema, [])  # noqa: E731
    one, two = ParquetFolder(f"{tmp_path}/f"), ParquetFolder(f"{tmp_path}/f")
    one.append(rows())
    with pytest.raises(Overtaken):
        two.append(rows())
    assert [path.name for path in Path(f"{tmp_path}/f").iterdir()] == ["part-00000001.parquet"]


KILLED = """
import signal, sys
from muntin.exporting import delta, export, exporter
from muntin.ledger.sqlite import SqliteLedger
exporter.COMMIT_BYTES = -1
signal.setitimer(signal.ITIMER_PROF, float(sys.argv[4]))  # which ends it at once, as kill -9 does
export(SqliteLedger(sys.argv[1]), "fares", sys.argv[2], sys.argv[3])
"""


@pytest.mark.chaos
@pytest.mark.parametrize(
    "form", ["parquet", *(pytest.param(form, marks=pytest.mark.slow) for form in FORMS[1:])]
)
def test_killed_at_any_time_neither_doubles_nor_loses(ingest, place, form, tmp_path):
    """Each window is a commit of its own; the end comes at random times in the midst of them: of
    the processor's time, however busy the machine is."""
    ingest.take(1, gather([events(rows(300, 4000, 1))]))
    windows = ingest.ledger.windows("fares")
    command = [sys.executable, "-c", KILLED, f"{tmp_path}/ledger.db", form, place[form]]
    rng, killed = np.random.default_rng(7), 0
    for seconds in (*rng.uniform(0.05, 0.6, 2), 0):
        ended = subprocess.run([*command, str(seconds)], check=False).returncode
        assert ended in (0, -signal.SIGPROF)
        killed += ended < 0
    assert ended == 0
    assert killed
    table = read(form, place)
    found = zip(table["start"].cast("int64").to_pylist(), table["driver"].to_pylist(), strict=True)
    assert Counter(found) == Counter((w.start, driver) for w in windows for driver in "abc")


def test_sketches_that_others_made_come_in(tmp_path):
    """`merge: column`: rows whose value is a sketch; what is none is rejected, with its reason."""
    rng = np.random.default_rng(3)
    values = [rng.gamma(2, 20, n) for n in (5, 300, 4000, 0)]
    users = [np.arange(n) for n in (5, 300, 4000, 0)]
    klls, hlls = [], []
    for some, people in zip(values, users, strict=True):
        kll = datasketches.kll_doubles_sketch(200)
        kll.update(some)
        klls.append(kll.serialize())
        hll = datasketches.hll_sketch(12, datasketches.tgt_hll_type.HLL_8)
        for user in people.tolist():
            hll.update(user)
        hlls.append(hll.serialize_compact())
    other = datasketches.kll_doubles_sketch(100)
    other.update(values[0])
    klls += [None, b"no sketch", other.serialize()]
    hlls += [None, hlls[0], hlls[0]]
    times = pa.array([START + n for n in range(7)], pa.timestamp("us", "UTC"))
    table = pa.table({"time": times, "kll": pa.array(klls, pa.binary()), "hll": pa.array(hlls)})
    both = {
        "delays": {"kind": "quantiles", "value": "kll", "merge": "column"},
        "users": {"kind": "distinct", "item": "hll", "merge": "column"},
    }
    ingest = Ingest(
        pipeline(summaries=both, queries={}), SqliteLedger(f"{tmp_path}/l.db"), query_id="q"
    )
    ingest.take(0, gather([table]))
    info = ingest.ledger.pipelines()[0]
    assert (info.counted, info.rejected) == (5, 2)
    details = [record.detail for _, record in ingest.ledger.rejected("orders")]
    assert "KLL: of k=100, not 200" in details[1]
    assert "too few" in details[0] or "KLL" in details[0]
    engine = Engine(LedgerCatalog(ingest.ledger))
    exact = np.sort(np.concatenate(values))
    asked = engine.sql("SELECT q, value, lower, upper FROM quantiles(delays, 0, 0.5, 0.99, 1)")
    for row in asked.table.to_pylist():
        at = round(row["q"] * (len(exact) - 1))
        assert row["lower"] <= exact[at] <= row["upper"]
    found = engine.sql("SELECT * FROM distinct(users)").table.to_pylist()[0]
    assert abs(found["value"] - 4000) < 200
    assert asked.bounds["delays"]["nulls"] == 2
    ingest.close()


def test_a_store_that_takes_connections_and_says_nothing_is_given_up(ingest, monkeypatch):
    """deltalake would ask again for three minutes."""
    monkeypatch.setattr(delta, "_SOON", {**delta._SOON, "retry_timeout": "1s", "timeout": "1s"})
    with socket.create_server((LOOPBACK, 0)) as store:
        url = f"http://{LOOPBACK}:{store.getsockname()[1]}"
        for name, value in {**KEYS, "AWS_ENDPOINT_URL": url, "AWS_ALLOW_HTTP": "true"}.items():
            monkeypatch.setenv(name, value)
        began = time.monotonic()
        with pytest.raises(SourceError, match=r"cannot export to 's3://bucket/t': .*timed out"):
            export(ingest.ledger, "fares", "delta", "s3://bucket/t")
        assert time.monotonic() - began < 20


def test_what_others_raise_is_one_line_that_names_the_place(ingest, place, tmp_path, monkeypatch):
    """A package that is not there, a catalog that does not answer, a place that is none."""
    (tmp_path / "files").write_text("no folder")
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "part-00000001.parquet").write_text("x")
    told = {}
    for form, where, uri in (
        ("iceberg", "a.hive", "thrift://127.0.0.1:9"),
        ("iceberg", "a.sqlite", f"sqlite:///{tmp_path}/no/catalog.db"),
        ("delta", f"{tmp_path}/files/below", ""),
        ("delta", "nowhere://x", ""),
        ("parquet", f"{tmp_path}/files", ""),
        ("parquet", f"{tmp_path}/damaged", ""),
    ):
        monkeypatch.setenv("PYICEBERG_CATALOG__DEFAULT__URI", uri)
        monkeypatch.setattr("pyiceberg.catalog._ENV_CONFIG", Config())
        with pytest.raises(SourceError) as raised:
            export(ingest.ledger, "fares", form, where)
        told[where] = str(raised.value)
        assert "\n" not in told[where]
        assert f"'{where}'" in told[where]
    assert "pip install 'pyiceberg[hive]'" in told["a.hive"]
    assert "unable to open database file" in told["a.sqlite"]
    below = told[f"{tmp_path}/files/below"]
    older = below.endswith(": Invalid table URI")  # all that the oldest deltalake says
    assert older or "; correct the path: part of it is a file" in below
    for form, where, why in (
        ("parquet", "", "name a folder"),
        ("iceberg", "fares", "give namespace.table"),
        ("iceberg", "a.fares?", "no [?] or # in a name"),
    ):
        with pytest.raises(BadArgument, match=why):
            export(ingest.ledger, "fares", form, where)
