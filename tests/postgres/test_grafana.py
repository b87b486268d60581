"""Grafana: what its editor asks of the catalog, and each panel of examples/grafana.

No Grafana process runs here: its macros are filled in as its PostgreSQL data source does
(grafana/grafana, pkg/tsdb/grafana-postgresql-datasource/macros.go).
"""

from __future__ import annotations

import json
import re

import psycopg
import pytest
import yaml

from muntin.demo.flights import PIPELINE, flights
from muntin.ledger.temporary import temporary
from muntin.server.serving import Server
from muntin.spark.ingest import Ingest
from muntin.spark.partials import fold
from muntin.spec import Pipeline
from tests.docs_samples import ROOT

FOLDER = ROOT / "examples" / "grafana"
START, END = "2013-01-01T00:00:00Z", "2013-01-31T00:00:00.123Z"
FLIGHTS = 20_000  # of January's 27,004
DASHBOARD = json.loads((FOLDER / "dashboards" / "flights.json").read_text())


@pytest.fixture(scope="module")
def flown():
    """What `muntin demo` has written after some weeks, without Spark."""
    ledger = temporary()
    ingest = Ingest(Pipeline.of(PIPELINE), ledger, query_id="q")
    ingest.take(0, lambda plan: list(fold(plan, flights().slice(0, FLIGHTS).to_batches())))
    with Server(ledger, port=0, postgres="127.0.0.1:0") as server:
        yield server
    ingest.close()


def filled(text):
    (step,) = DASHBOARD["templating"]["list"]
    text = text.replace("$step", step["current"]["value"])
    text = text.replace("$__timeFrom()", f"'{START}'").replace("$__timeTo()", f"'{END}'")
    return re.sub(r"\$__timeFilter\(([^)]*)\)", rf"\1 BETWEEN '{START}' AND '{END}'", text)


@pytest.mark.parametrize("panel", DASHBOARD["panels"], ids=lambda panel: panel["type"])
def test_each_panel(flown, panel):
    (target,) = panel["targets"]
    with psycopg.connect(flown.postgres_url, autocommit=True) as connected:
        cursor = connected.execute(filled(target["rawSql"]))
        columns, rows = [c.name for c in cursor.description], cursor.fetchall()
    assert target["datasource"]["uid"] == "muntin"
    if panel["type"] == "stat":
        assert rows[0][0] == FLIGHTS
        return
    assert len(rows) >= 10
    if target["format"] == "time_series":  # as Grafana reads it: ascending, one of them the value
        times = [row[columns.index("time")] for row in rows]
        assert times == sorted(times)
        assert columns[1:] in (["events"], ["metric", "mean_delay"], ["metric", "flights"])
        if columns[-1] == "flights":
            assert sum(row[-1] for row in rows) == FLIGHTS


def test_what_is_provisioned():
    (source,) = yaml.safe_load((FOLDER / "provisioning/datasources/muntin.yaml").read_text())[
        "datasources"
    ]
    assert source["uid"] == "muntin"
    assert {p["datasource"]["type"] for p in DASHBOARD["panels"]} == {source["type"]}
    provided = yaml.safe_load((FOLDER / "provisioning/dashboards/muntin.yaml").read_text())
    assert provided["providers"][0]["options"]["path"] == "${MUNTIN_DASHBOARDS}"


@pytest.fixture
def connection(fed):
    with psycopg.connect(fed.postgres_url, autocommit=True) as connected:
        yield connected


def answered(connection, text):
    return connection.execute(text).fetchall()


# what Grafana's editor and health check ask (grafana/grafana, grafana-postgresql-datasource)
ON_PATH = """quote_ident(table_schema) IN (SELECT CASE WHEN trim(s[i]) = '"$user"' THEN user
    ELSE trim(s[i]) END FROM generate_series(
      array_lower(string_to_array(current_setting('search_path'),','),1),
      array_upper(string_to_array(current_setting('search_path'),','),1)) as i,
    string_to_array(current_setting('search_path'),',') s)"""
TABLES = f"""SELECT CASE WHEN {ON_PATH} THEN quote_ident(table_name)
      ELSE quote_ident(table_schema) || '.' || quote_ident(table_name) END AS "table"
    FROM information_schema.tables WHERE quote_ident(table_schema) NOT IN ('information_schema',
      'pg_catalog', '_timescaledb_cache') ORDER BY CASE WHEN {ON_PATH} THEN 0 ELSE 1 END, 1"""  # noqa: S608
COLUMNS = f"""SELECT quote_ident(column_name) AS "column", data_type AS "type"
    FROM information_schema.columns WHERE CASE WHEN array_length(parse_ident('{{name}}'),1) = 2
      THEN quote_ident(table_schema) = (parse_ident('{{name}}'))[1]
        AND quote_ident(table_name) = (parse_ident('{{name}}'))[2]
      ELSE quote_ident(table_name) = '{{name}}' AND {ON_PATH} END"""  # noqa: S608


def test_what_grafana_looks_through(connection):
    version = "SELECT current_setting('server_version_num')::int/100 as version"
    assert answered(connection, version) == [(1500,)]
    asked = "SELECT extversion FROM pg_extension WHERE extname = 'timescaledb'"
    assert answered(connection, asked) == []
    assert answered(connection, TABLES) == [
        (name,) for name in ('"orders(driver)"', '"orders(driver, area)"', '"trend(busiest)"',
                             '"windows(orders)"', "orders")
    ]  # fmt: skip
    found = answered(connection, COLUMNS.format(name='"orders(driver)"'))
    assert found == [("driver", "text")] + [(n, "bigint") for n in ("count", "served", "fare")]
    assert len(answered(connection, COLUMNS.format(name="orders"))) == 3
    assert connection.execute("-- ping").description is None
