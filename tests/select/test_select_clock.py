"""Times are UTC wherever the machine stands, and a statement has one clock."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from muntin.select.engine import Engine

STATEMENTS = (
    "SELECT to_timestamp(0), to_timestamp(0)::VARCHAR, hour(to_timestamp(0)), "
    "to_timestamp(0)::DATE",
    "SELECT date_trunc('day', to_timestamp(1700000000)), dayname(to_timestamp(0))",
    "SELECT strftime(to_timestamp(0), '%Y-%m-%d %H:%M'), to_timestamp(0)::TIMESTAMP",
    "SELECT to_timestamp(0) < now() - INTERVAL '1 hour', current_date = now()::DATE",
    "SELECT to_timestamp(1700000000) - TIMESTAMP '2023-11-14 22:13:20'",
    "SELECT time_bucket(INTERVAL '1 day', to_timestamp(1700000000)), "
    "coalesce(to_timestamp(0), now())",
    "SELECT '2023-03-12 02:30:00'::TIMESTAMP + INTERVAL '1 day', make_timestamp(2023,3,12,2,30,0)",
    "SELECT epoch('2023-11-05 01:30'::TIMESTAMP), epoch_us(now()), current_timestamp",
    "SELECT window_start, hour(window_start), window_start::DATE, window_start::VARCHAR "
    "FROM windows(orders)",
    "SELECT window_end, window_end = to_timestamp(3600), date_part('hour', window_end) "
    "FROM trend(busiest)",
)
_PROGRAM = """
import datetime, json, sys
from select_catalogs import catalog
from muntin.select.engine import Engine
engine = Engine(catalog())
found = []
for text in json.loads(sys.argv[1]):
    result = engine.sql(text, now=datetime.datetime(2026, 3, 29, 1, 30))
    found.append([result.rows, result.to_text().rsplit("|", 1)[0], result.to_csv(),
                  result.to_arrow().schema.types.__repr__(), result.particulars()])
print(json.dumps(found))
"""


def test_the_machines_time_zone_changes_nothing() -> None:
    answers = {}
    for zone in ("UTC", "America/New_York", "Asia/Kolkata"):
        done = subprocess.run(
            [sys.executable, "-c", _PROGRAM, json.dumps(STATEMENTS)],
            capture_output=True,
            text=True,
            timeout=60,
            env={**os.environ, "TZ": zone},
            cwd=Path(__file__).parent,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-2000:]
        answers[zone] = json.loads(done.stdout)
    first = answers["UTC"]
    assert first[0][0] == [["1970-01-01T00:00:00Z", "1970-01-01 00:00:00+00", 0, "1970-01-01"]]
    for zone, found in answers.items():
        assert found == first, zone


@pytest.mark.parametrize(
    "spelled",
    [
        "epoch(now())",
        "1 / (1 / epoch(now()))",
        "10 // (10 // epoch(current_timestamp))",
        "7 % (7 % epoch_us(now()))",
        "max(1 / coalesce(1 / epoch(now()), 0))",
        "CASE WHEN 1 / epoch(now()) IS NULL THEN 1 / (1 / epoch(current_date::TIMESTAMP)) END",
    ],
)
def test_one_clock_also_in_a_divisor(engine: Engine, spelled: str) -> None:
    plan = engine.check(f"SELECT {spelled} AS x")
    assert "now(" not in plan.sql
    assert "current" not in plan.sql.lower()
    assert engine.sql(f"SELECT {spelled} AS x", now=0).rows == [
        [0.0 if spelled[:2] == "ep" else None]
    ]


def test_patterns_in_a_divisor_are_bounded(engine: Engine) -> None:
    """A pattern of many wildcards never reaches DuckDB's own matcher, wherever it stands."""
    text = (
        "SELECT 1 / (1 + CASE WHEN driver LIKE '%a%_b%c_%' THEN 1 ELSE 0 END) FROM orders(driver)"
    )
    assert "regexp_full_match" in engine.check(text).sql
