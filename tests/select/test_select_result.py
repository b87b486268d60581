"""A result in each of its forms."""

from __future__ import annotations

import csv
import io
import json

import polars as pl
import pyarrow as pa
import pytest
from select_catalogs import HOUR

from muntin.errors import BadArgument
from muntin.select import Engine, Result, WindowAsked, WindowRead
from muntin.select.values import plain_table


def _result(columns: dict[str, pa.Array], **about: object) -> Result:
    return Result(plain_table(pa.table(columns)), **about)  # type: ignore[arg-type]


def test_json_is_one_object(engine: Engine) -> None:
    text = "SELECT driver, time / served AS mean FROM orders(driver) FOR LAST '1 hour' ORDER BY 1"
    parsed = json.loads(engine.sql(text).to_json())
    assert parsed == {
        "columns": ["driver", "mean"],
        "types": ["string", "double"],
        "rows": [["d1", 12.5], ["d2", 15.0], ["d3", 11.25], [None, 7.0]],
        "window": {
            "asked": "LAST '1 hour'",
            "covered": {"start": "1970-01-01T00:00:00Z", "end": "1970-01-01T01:00:00Z"},
        },
        "windows": [
            {
                "source": "orders",
                "asked": "LAST '1 hour'",
                "covered": {"start": "1970-01-01T00:00:00Z", "end": "1970-01-01T01:00:00Z"},
            }
        ],
        "watermark": "1970-01-01T01:00:00Z",
        "revision": 0,
        "exact": True,
        "bounds": {},
        "late": 2,
        "stale": False,
    }


def test_json_values() -> None:
    result = _result(
        {
            "float": pa.array([1.5, float("nan"), float("inf"), None]),
            "int": pa.array([2**63 - 1, -(2**63), 2**53 + 1, None]),
            "wide": pa.array([None, 2**64, 1, 0], pa.decimal128(38, 0)),
            "narrow": pa.array([None, 3, 1, 0], pa.decimal128(38, 0)),
            "decimal": pa.array([None, 3, 1, 0], pa.decimal128(10, 2)),
            "time": pa.array([0, 1, HOUR, None], pa.timestamp("us")),
            "zoned": pa.array([0, 1, HOUR, None], pa.timestamp("us", "Asia/Tokyo")),
            "day": pa.array([0, 1, 2, None], pa.date32()),
            "clock": pa.array([0, 1, 2, None], pa.time64("us")),
            "bool": pa.array([True, False, None, None]),
            "bytes": pa.array([b"\x00\xff", b"", b"a", None]),
            "span": pa.array(
                [(1, 2, 3_500_000_000), (0, 0, 0), (0, 1, 0), None], pa.month_day_nano_interval()
            ),
            "null": pa.nulls(4),
        }
    )
    columns = dict(zip(result.columns, zip(*result.rows, strict=True), strict=True))
    assert columns == {
        "float": (1.5, None, None, None),
        "int": (2**63 - 1, -(2**63), 2**53 + 1, None),
        "wide": (None, 2**64, 1, 0),
        "narrow": (None, 3, 1, 0),
        "decimal": (None, 3.0, 1.0, 0.0),
        "time": (
            "1970-01-01T00:00:00Z",
            "1970-01-01T00:00:00.000001Z",
            "1970-01-01T01:00:00Z",
            None,
        ),
        "zoned": (
            "1970-01-01T00:00:00Z",
            "1970-01-01T00:00:00.000001Z",
            "1970-01-01T01:00:00Z",
            None,
        ),
        "day": ("1970-01-01", "1970-01-02", "1970-01-03", None),
        "clock": ("00:00:00", "00:00:00.000001", "00:00:00.000002", None),
        "bool": (True, False, None, None),
        "bytes": ("00ff", "", "61", None),
        "span": ("P1M2DT3.5S", "PT0S", "P1D", None),
        "null": (None, None, None, None),
    }
    assert result.table["narrow"].type == pa.int64()
    assert result.table["wide"].type == pa.decimal128(38, 0)
    assert json.loads(result.to_json())["rows"] == result.rows


def test_other_forms(engine: Engine) -> None:
    result = engine.sql("SELECT driver, count FROM orders(driver) ORDER BY count")
    assert len(result) == 4
    assert list(result) == result.rows
    about = json.loads(result.to_arrow().schema.metadata[b"muntin"])
    assert about["exact"] is True
    assert about == result.particulars()
    assert result.to_polars().equals(pl.DataFrame(result.table))
    assert result.to_pandas()["count"].tolist() == [1, 2, 4, 5]
    read = list(csv.reader(io.StringIO(result.to_csv())))
    assert read == [["driver", "count"], ["", "1"], ["d2", "2"], ["d1", "4"], ["d3", "5"]]


def test_text_and_html_are_safe_to_show() -> None:
    result = _result(
        {
            "<b>": pa.array(["<script>alert(1)</script>", "a\x1b[2Jb\n\u202e", "x" * 100]),
            "n": pa.array([1234567, None, 0]),
        },
        windows=(WindowRead("<i>", WindowAsked("open"), None),),
    )
    html = result._repr_html_()
    assert "<script>" not in html
    assert "<b>" not in html
    assert "<i>" not in html
    assert "&lt;script&gt;" in html
    text = result.to_text()
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "1,234,567" in text
    assert len({len(line) for line in text.split("\n")[1:2]}) == 1
    assert "and 2 more" in result.to_text(rows_max=1)
    assert "nothing yet" in result.footer()


def test_no_rows_and_no_columns() -> None:
    empty = Result(pa.table({"a": pa.array([], pa.int64())}))
    assert empty.rows == []
    assert json.loads(empty.to_json())["window"] is None
    assert empty.to_text().startswith("a\n-\n0 rows")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT window_start, orders FROM trend(busiest)",
        "SELECT driver, count FROM orders(driver)",
        "SELECT count, time FROM orders(driver) ORDER BY count",
        "SELECT count AS x, time AS value, 0 AS lower, 99 AS upper FROM orders(driver) ORDER BY 1",
    ],
)
def test_plot(engine: Engine, text: str) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    axes = engine.sql(text).plot()
    assert axes.has_data()
    plt.close("all")


def test_plot_says_what_is_missing(engine: Engine) -> None:
    with pytest.raises(BadArgument, match="empty"):
        engine.sql("SELECT count FROM orders(driver) WHERE false").plot()
    with pytest.raises(BadArgument, match="no column 'z'"):
        engine.sql("SELECT count FROM orders(driver)").plot(y="z")
    with pytest.raises(BadArgument, match="no column of numbers"):
        engine.sql("SELECT driver FROM orders(driver)").plot()
