"""Indicators are sums: what a reader would take for the spread of events is refused."""

from __future__ import annotations

import pytest

from muntin.errors import SelectError
from muntin.select.allowed import AGGREGATES, NOT_OVER
from muntin.select.engine import Engine

SPREAD = ("avg", "median", "mode", "stddev", "var_pop", "var_samp", "skewness", "kurtosis")


@pytest.mark.parametrize("name", SPREAD)
@pytest.mark.parametrize(
    "text",
    [
        "SELECT {}(time) FROM orders(driver)",
        "SELECT {}((time)) FROM orders(driver) FOR ALL",
        "SELECT {}(time::DOUBLE) FROM orders(driver, area) GROUP BY area",
        "SELECT {}(a.time) OVER (ORDER BY driver) FROM orders(driver) AS a",
        "SELECT {}(Y2) FROM vector 1.2",
        "SELECT {}(X1.Y2) FROM vector 1.2",
        "SELECT driver FROM orders(driver) GROUP BY driver HAVING {}(time) > 3",
        "SELECT {}(-time) FILTER (WHERE count > 1) FROM orders",
        "SELECT 1 FROM orders(area) WHERE area > (SELECT {}(DISTINCT time) FROM orders(driver))",
    ],
)
def test_of_sums_is_refused(engine: Engine, name: str, text: str) -> None:
    if name in NOT_OVER:
        text = text.replace(" OVER (ORDER BY driver)", "")
    with pytest.raises(SelectError, match=rf"{name}\(time\) would be that of sums") as caught:
        engine.sql(text.format(name))
    error = caught.value
    assert error.code == "sums"
    assert "AS total" in error.remedy
    found = error.text[error.position : error.position + error.length]
    assert found.lower().split(".")[-1] in ("time", "y2")


@pytest.mark.parametrize("name", ["quantile", "quantile_cont", "quantile_disc"])
def test_quantiles_of_sums_are_refused(engine: Engine, name: str) -> None:
    with pytest.raises(SelectError, match="of a summary of kind quantiles"):
        engine.sql(f"SELECT {name}(time, 0.99) FROM orders(driver)")  # noqa: S608


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("SELECT sum(time) / sum(count) FROM orders(driver)", [[177 / 12]]),
        (
            "SELECT min(time), max(time), sum(time), count(time) FROM orders(driver)",
            [[7, 90, 177, 4]],
        ),
        ("SELECT avg(total) FROM (SELECT time AS total FROM orders(driver))", [[177 / 4]]),
        ("SELECT avg(count) FROM orders(driver)", [[3.0]]),
        ("SELECT round(avg(time / count), 3) FROM orders(driver)", [[13.125]]),
        ("SELECT avg(orders) FROM trend(busiest)", [[4.5]]),
        ("SELECT arg_max(driver, time) FROM orders(driver)", [["d3"]]),
    ],
)
def test_what_means_what_it_says(engine: Engine, text: str, rows: list[list[object]]) -> None:
    assert engine.sql(text).rows == rows


def test_aggregates_over_frames(engine: Engine) -> None:
    """All but those that look at each frame from the start."""
    for name in sorted(NOT_OVER):
        assert name in AGGREGATES
        with pytest.raises(SelectError, match="not available") as caught:
            engine.check(f"SELECT {name}(count) OVER (ORDER BY count) FROM orders(driver)")  # noqa: S608
        assert caught.value.remedy
        assert engine.sql(f"SELECT {name}(count) FROM orders(driver)").rows  # noqa: S608
