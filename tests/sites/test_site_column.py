"""One pipeline feeds several sites: a column says which."""

from __future__ import annotations

from contextlib import ExitStack

import pyarrow as pa
import pytest

from muntin.errors import SpecError, SummaryOverflow
from muntin.ledger.temporary import temporary
from muntin.reading import pieces
from muntin.sites import CoordinatorServer, Site
from muntin.sites.follower import PaneReader
from muntin.spark.ingest import Ingest
from muntin.spec import Pipeline
from tests.pipeline.support import gather
from tests.sites.conftest import until
from tests.sites.fed import START, sites, top
from tests.sites.stream import HEARTBEAT, PANE_US, RANKING, check_top, coordinator, events

VALUES = {"north": "N", "south": "S"}
PANES = 90


def spec(address="ws://127.0.0.1:1", keys=(("region", "origin"),), more=None, **sites):
    column = {"site_column": "region", "site_values": VALUES}
    entries = {"coordinator": address, "heartbeat": HEARTBEAT, **RANKING, **column, **sites}
    return Pipeline.of(
        {
            "name": "flights",
            "time": "time",
            "pane": f"{PANE_US} us",
            "summaries": {"flights": {"keys": [list(key) for key in keys]}},
            "sites": {name: value for name, value in entries.items() if value is not None},
        }
        | (more or {})
    )


def pane_of_all(pane):
    """Both sites' events, and those of a region that is no site, in one table."""
    parts = []
    for name, region in [*VALUES.items(), ("north", "elsewhere"), ("south", None)]:
        table = events(name, pane)
        column = pa.array([region] * table.num_rows, pa.string())
        parts.append(table.append_column("region", column))
    return pa.concat_tables(parts)


def test_the_answer_is_exact(tmp_path):
    with ExitStack() as stack:
        server = stack.enter_context(
            CoordinatorServer(
                coordinator(tmp_path, missing_after=400, lease=4000),
                reader_token="",
                operator_token="",
            )
        )
        pipeline, ledger = spec(server.address), temporary()
        ingest = Ingest(pipeline, ledger, query_id="q")
        stack.callback(ingest.close)
        for name in VALUES:
            stack.enter_context(Site(ledger, pipeline, name))
        for batch in range(PANES):
            ingest.take(batch, gather([pane_of_all(START + batch)]))

        def done():
            found = top(server)
            return found if found["valid"] and found["unit"] == START + PANES - 2 else None

        found = until(done)
        check_top([one["item"] for one in found["items"]], found["unit"], START)


def test_what_one_site_has_read_is_there_for_all(monkeypatch):
    """With 32 sites each piece was decoded 32 times, and kept as often: up to 32 MB a site."""
    pipeline, ledger, decoded = spec(), temporary(), []
    ingest = Ingest(pipeline, ledger, query_id="q")
    for batch in range(5):
        ingest.take(batch, gather([pane_of_all(START + batch)]))
    decode = pieces.decode
    monkeypatch.setattr(pieces, "decode", lambda *given: (decoded.append(1), decode(*given))[1])
    read = []
    for name in VALUES:
        reader = PaneReader(ledger, pipeline, pipeline.sites.of_site(name), float)
        units = reader.look().units
        read.append([dict(zip(*unit, strict=True)) for unit in units.values()])
        assert len(units) == 4
    assert 0 < len(decoded) <= 4  # by the first
    assert [unit["here"] for unit in read[0]] == [1] * 4
    assert read[0] != read[1]
    ingest.close()


def test_a_value_that_no_event_has_is_told(tmp_path):
    """A mistyped one made a site of zeros without a word."""
    with CoordinatorServer(coordinator(tmp_path), reader_token="", operator_token="") as server:
        pipeline, ledger = spec(server.address, site_values=VALUES | {"south": "s"}), temporary()
        ingest = Ingest(pipeline, ledger, query_id="q")
        with Site(ledger, pipeline, "south") as south, Site(ledger, pipeline, "north") as north:
            for batch in range(3):
                ingest.take(batch, gather([pane_of_all(START + batch)]))
            told = until(lambda: {s["name"]: s["problem"] for s in sites(server)}["south"])
            assert told == "no event so far has region 's'; did you mean 'S'?"
            until(lambda: south.status["problem"] == told)
            until(lambda: "phase" in north.status)
            assert not north.status["problem"]
            late = pane_of_all(START)
            region = pa.array(["s"] * late.num_rows)
            ingest.take(
                3, gather([late.set_column(late.schema.names.index("region"), "region", region)])
            )
            until(lambda: not any(s["problem"] for s in sites(server)))
            until(lambda: not south.status["problem"])
        ingest.close()


def test_a_sum_beyond_its_type_keeps_out_the_site_that_has_it():
    """It kept out all sites of that ledger."""
    summaries = {"flights": {"keys": [["region", "origin"]], "indicators": {"paid": "int64"}}}
    pipeline, ledger = spec(more={"summaries": summaries}, value="paid"), temporary()
    ingest = Ingest(pipeline, ledger, query_id="q")
    rows = [("N", "a", 1 << 62), ("N", "a", 1 << 62), ("S", "a", 7), (None, "a", 1 << 62)] * 2
    regions, origins, paid = zip(*rows, strict=True)
    for batch in range(2):
        times = pa.array([(START + batch) * PANE_US] * len(rows), pa.timestamp("us", "UTC"))
        columns = {"time": times, "region": regions, "origin": origins, "paid": paid}
        ingest.take(batch, gather([pa.table(columns)]))
    north, south = (
        PaneReader(ledger, pipeline, pipeline.sites.of_site(name), float) for name in VALUES
    )
    assert south.look().units == {START: (["a"], [14])}
    with pytest.raises(SummaryOverflow, match=r"'paid': a sum is beyond int64 \(.*region 'N'"):
        north.look()
    ingest.close()


@pytest.mark.parametrize(("changes", "message"), [
    ({"site": "north"}, "give the name of this site, or a site_column"),
    ({"site_values": None}, "site_values: goes with site_column"),
    ({"site_values": {"north": "N", "south": "N"}}, "a value stands twice"),
    ({"site_values": {"North": "N"}}, "is not a name"),
    ({"keys": [("origin",)]}, "is not kept by origin, region"),
    ({"key": "region"}, "rank something else"),
])  # fmt: skip
def test_what_does_not_fit_is_refused(changes, message):
    with pytest.raises(SpecError, match=message):
        spec(**changes)


def test_a_site_is_named():
    with pytest.raises(SpecError, match="which of north, south"):
        Site(temporary(), spec())
    assert Site(temporary(), spec(), "south").spec.site_values == {"south": "S"}
