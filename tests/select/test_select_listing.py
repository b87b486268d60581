"""SHOW TABLES, DESCRIBE, and errors of those who look for them."""

from __future__ import annotations

import pytest

from muntin.errors import SelectError
from muntin.select import Engine

HELD = ["1970-01-01T00:00:00Z", "1970-01-01T01:00:00Z"]


def test_what_there_is(engine: Engine) -> None:
    result = engine.sql("show tables;")
    assert result.columns == ["name", "kind", "keys", "indicators", "from", "to", "ask"]
    matrix = "driver, area, (driver, area)", "served, time, paid, tip, debt", "orders(driver)"
    assert result.rows == [
        ["busiest", "standing query", None, None, None, None, "trend(busiest)"],
        ["orders", "vector_matrix", *matrix[:2], *HELD, matrix[2]],
    ]


@pytest.mark.parametrize("name", ["orders", "busiest"])
def test_every_column_that_is_described_can_be_asked(engine: Engine, name: str) -> None:
    rows = engine.sql(f"DESCRIBE {name}").rows
    if name == "orders":
        assert rows.pop(0) == ["FOR '{}' TO '{}'".format(*HELD), None, "all that is stored"]
    ways = dict.fromkeys(row[0] for row in rows)
    assert len(ways) == (4 if name == "orders" else 1)
    for way in ways:
        columns = [row[1] for row in rows if row[0] == way]
        assert engine.check(f"SELECT * FROM {way}").columns == tuple(columns)  # noqa: S608


@pytest.mark.parametrize(
    ("text", "message", "remedy"),
    [
        ("DESCRIBE ordrs", "no summary or standing query", "did you mean 'orders'"),
        ("SHOW COLUMNS", "starts with SELECT", "DESCRIBE <name>"),
        ("SELECT driver FROM orders", "one row", "FROM orders(driver)"),
        ("SELECT 1 FROM orders(driver) WHERE count > 1 FOR ALL", "does not follow", "after a summ"),
        ("SELECT 1 FROM orders(driver) LIMIT 3 FOR LAST '1 h'", "does not follow", "after a summ"),
        ("SELECT driver FROM orders(drivr)", "no key 'drivr'", "did you mean 'driver'"),
    ],
)
def test_one_line_with_the_remedy(engine: Engine, text: str, message: str, remedy: str) -> None:
    with pytest.raises(SelectError, match=message) as caught:
        engine.sql(text)
    assert remedy in caught.value.remedy
    assert caught.value.length
