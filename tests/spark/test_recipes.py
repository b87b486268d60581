"""The recipes of docs/recipes.md, on real Spark, beside DuckDB over the same records."""

import datetime as dt
import json
import random

import duckdb
import pytest
import yaml

import muntin
from tests.docs_samples import ROOT, samples_of

pytestmark = pytest.mark.spark
SAMPLES = samples_of(ROOT / "docs" / "recipes.md")
RECIPES = [sample.text for sample in SAMPLES if sample.how == "run by "]
START = dt.datetime(2026, 3, 28, 20, tzinfo=dt.UTC)  # clocks change in the night after
PATIENCE_SECONDS = 300


def here(text, folder):
    """Spark and its Java have a working folder of their own."""
    places = text.replace("data/", f"{folder}/data/")
    return places.replace("sqlite:///", f"sqlite:///{folder}/")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two days of orders, in order of time; some without seconds, some without lines."""
    place, rnd = tmp_path_factory.mktemp("recipes"), random.Random(3)
    (place / "data/orders").mkdir(parents=True)
    with (place / "data/orders/a.json").open("w") as file:
        for number in range(600):
            lines = [
                {"sku": rnd.choice("xyz"), "n": rnd.randint(1, 5), "price": rnd.randint(1, 99) / 4}
                for _ in range(rnd.randint(0, 3))
            ]
            record = {
                "time": (START + dt.timedelta(minutes=5 * number)).isoformat(),
                "customer": f"c{rnd.randint(1, 9)}",
                "shop": rnd.choice(["Berlin", "Bonn"]),
                "seconds": rnd.choice([None, 0.25, 0.75, 1.25, 3.5]),
                "lines": lines,
            }
            file.write(json.dumps(record) + "\n")
    (place / "data/changes").mkdir()
    with (place / "data/changes/a.json").open("w") as file:
        for change in changes(rnd):
            file.write(json.dumps(change) + "\n")
    return place


def changes(rnd):
    """Of a table of invoices, as Debezium tells them: made, changed, deleted."""
    table = {}
    for at in range(500):
        number = rnd.randint(1, 60)
        before = table.get(number)
        after = {
            "id": number,
            "state": rnd.choice(["open", "paid", None]),
            "price": rnd.randint(1, 9_999) / 100,
        }
        if before is not None and rnd.random() < 0.3:
            after = None
        table[number] = after
        op = "c" if before is None else "d" if after is None else "u"
        ms = int(START.timestamp() * 1000) + 1_000 * at
        yield {"before": before, "after": after, "op": op, "ts_ms": ms}


@pytest.fixture(scope="module")
def answers(spark, folder):
    """Of each SQL sample its rows, by the pipeline that stands above it."""
    found, session = [], None
    for text in RECIPES:
        if text.startswith("name: "):
            session = muntin.summarize(None, yaml.safe_load(here(text, folder)))
        elif text.startswith("SELECT"):
            found.append([tuple(row.values()) for row in session.sql(text).table.to_pylist()])
    return found


def test_each_is_what_duckdb_says(folder, answers):
    with duckdb.connect() as connection:
        records = connection.read_json(f"{folder}/data/orders/a.json")
        timed = "* REPLACE (CAST(time AS TIMESTAMPTZ) AS time)"
        records.project(timed).create_view("orders")
        table = connection.read_json(f"{folder}/data/changes/a.json")
        table.create_view("changes")
        connection.execute("SET TimeZone = 'Europe/Berlin'")
        wanted = [
            "SELECT shop, count(*) FILTER (seconds > 1) / count(*) AS share FROM orders WHERE "
            "time > (SELECT max(time) FROM orders) - INTERVAL 1 DAY GROUP BY 1 ORDER BY share DESC",
            "SELECT shop, avg(seconds), stddev_pop(seconds) FROM orders GROUP BY 1 ORDER BY 1",
            "FROM (SELECT shop, 0.0, min(seconds) FROM orders GROUP BY 1 UNION ALL "
            "SELECT shop, 1.0, max(seconds) FROM orders GROUP BY 1) ORDER BY 1, 2",
            "SELECT shop, hour(time), count(*) FROM orders GROUP BY 1, 2 ORDER BY 1, 2",
            "SELECT shop || ' ' || customer, count(*) FROM orders GROUP BY 1 ORDER BY 2 DESC, 1",
            "SELECT l.sku, sum(l.n), sum(l.n * l.price) AS amount FROM "
            "(SELECT unnest(lines) AS l FROM orders) GROUP BY 1 ORDER BY amount DESC",
            "SELECT state, count(*) FILTER (there), sum(price) FILTER (there), sum(n) FROM ("
            "SELECT after.*, after IS NOT NULL AS there, 0 AS n FROM (FROM changes QUALIFY ts_ms = "
            "max(ts_ms) OVER (PARTITION BY coalesce(before.id, after.id)))"
            " UNION ALL SELECT before.*, false, 1 FROM changes WHERE before IS NOT NULL"
            " UNION ALL SELECT after.*, false, 1 FROM changes WHERE after IS NOT NULL)"
            " GROUP BY 1 ORDER BY 1",
        ]
        expected = [connection.sql(statement).fetchall() for statement in wanted]
    expected[4] = expected[4][:3]
    assert len(answers) == len(expected)
    for rows, right in zip(answers, expected, strict=True):
        assert len(rows) == len(right)
        for row, other in zip(rows, right, strict=True):
            assert row == pytest.approx(other)


def test_sessions_are_sparks(spark, folder):
    (text,) = (text for text in RECIPES if "session_window" in text)
    reader = spark.readStream.schema("time timestamp, customer string")
    names = {"muntin": muntin, "df": reader.json(f"{folder}/data/orders")}
    exec(compile(here(text, folder), "recipes.md", "exec"), names)  # noqa: S102  the page's own
    assert names["stream"].await_termination(PATIENCE_SECONDS)
    records = [json.loads(line) for line in (folder / "data/orders/a.json").open()]
    by_customer = {}
    for record in records:
        by_customer.setdefault(record["customer"], []).append(
            dt.datetime.fromisoformat(record["time"])
        )
    pause, sizes = dt.timedelta(minutes=30), []
    newest = max(max(times) for times in by_customer.values())
    for times in by_customer.values():
        last, size = None, 0
        for time in times:
            if last is not None and time - last > pause:  # one at the end of it belongs to it, too
                sizes.append(size)
                size = 0
            last, size = time, size + 1
        if last + pause <= newest - dt.timedelta(minutes=5):  # else Spark still holds it open
            sizes.append(size)
    found = names["stream"].sql("SELECT count, orders FROM sessions FOR ALL").table.to_pylist()
    assert found == [{"count": len(sizes), "orders": sum(sizes)}]
    assert sum(sizes) > len(sizes) > 1
