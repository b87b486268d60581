"""One Spark query feeds several sites, a column says which: against Spark's own group and sort."""

from __future__ import annotations

from contextlib import ExitStack

import pyarrow.parquet as pq
import pytest

import muntin
from muntin.sites import CoordinatorServer, Site
from tests.sites.conftest import until
from tests.sites.fed import START, top
from tests.sites.stream import PANE_US, WINDOW_UNITS, K, coordinator
from tests.sites.test_site_column import VALUES, pane_of_all, spec

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(280)]
PANES, PANES_A_FILE = 60, 10


def test_the_answer_is_sparks_own(tmp_path, spark):
    folder = tmp_path / "events"
    folder.mkdir()
    for first in range(START, START + PANES, PANES_A_FILE):
        path = folder / f"part-{first}.parquet"
        with pq.ParquetWriter(path, pane_of_all(START).schema) as file:
            for pane in range(first, first + PANES_A_FILE):
                file.write_table(pane_of_all(pane))

    with ExitStack() as stack:
        kept = coordinator(tmp_path, missing_after=400, lease=4000)
        server = stack.enter_context(CoordinatorServer(kept, reader_token="", operator_token=""))
        source = {"path": str(folder), "format": "parquet", "maxFilesPerTrigger": 1}
        more = {"source": source, "ledger": f"sqlite:///{tmp_path}/all.db", "trigger": "0 seconds"}
        pipeline = spec(server.address, more=more)
        stream = muntin.stream(None, pipeline)
        stack.callback(stream.stop)
        for name in VALUES:
            stack.enter_context(Site(stream.ledger, pipeline, name))

        def done():
            stream.await_termination(0.01)  # raises what went wrong
            found = top(server)
            return found if found["valid"] and found["unit"] == START + PANES - 2 else None

        found = until(done, 200)

    from pyspark.sql.functions import col, desc, unix_micros

    end = (found["unit"] + 1) * PANE_US
    moment = unix_micros("time")
    groups = (
        spark.read.parquet(str(folder))
        .where(col("region").isin(list(VALUES.values())))
        .where((moment >= end - WINDOW_UNITS * PANE_US) & (moment < end))
        .groupBy("origin")
        .count()
    )
    largest = groups.orderBy(desc("count")).limit(K).collect()
    exact = {row["origin"]: row["count"] for row in groups.collect()}
    items = [one["item"] for one in found["items"]]
    assert len(set(items)) == K
    # of ties, either may be a member
    assert sorted(exact[item] for item in items) == sorted(row["count"] for row in largest)
