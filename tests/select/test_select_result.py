"""A result in each of its forms."""

from __future__ import annotations

import csv
import datetime as dt
import inspect
import io
import json
import pickle

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from select_catalogs import HOUR, result_of

import muntin
from muntin.errors import BadArgument, UnknownName
from muntin.ledger.open import open_ledger
from muntin.select.catalog import ForClause, LoadedTable, LoadedWindow, Note
from muntin.select.engine import Engine
from muntin.select.result import Result, WindowRead
from muntin.select.values import plain_table


def _result(columns: dict[str, pa.Array], **about: object) -> Result:
    return result_of(plain_table(pa.table(columns), list(columns)), **about)


@pytest.mark.parametrize("kind", [Result, WindowRead, LoadedWindow, LoadedTable, Note])
def test_nothing_that_an_answer_is_true_of_has_a_default(kind: type) -> None:
    parameters = inspect.signature(kind).parameters.values()
    assert [p.name for p in parameters if p.default is not inspect.Parameter.empty] == []
    if kind is Result:
        named = {"exact", "bounds", "windows", "late", "notes", "revision", "watermark", "stale"}
        assert named <= {p.name for p in parameters}


def test_what_came_without_what_it_is_true_of_is_no_result(engine: Engine) -> None:
    said = engine.sql("SELECT count FROM orders").particulars()
    for name in set(said) - {"window"}:
        with pytest.raises(KeyError, match=name):
            Result.of(pa.table({"count": [1]}), {n: said[n] for n in said if n != name})


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
        "notes": [],
        "late": 2,
        "stale": False,
    }


def test_answers_are_compared_by_what_they_say(engine: Engine) -> None:
    text = "SELECT driver, count FROM orders(driver) ORDER BY count"
    result = engine.sql(text)
    again = engine.sql(text)
    assert result.seconds != again.seconds
    assert result == again
    assert result == pickle.loads(pickle.dumps(result))  # noqa: S301
    assert result != engine.sql(text + " LIMIT 1")


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
        "span": ("P1M2DT3.5S", "PT0S", "P1D", None),
        "null": (None, None, None, None),
    }
    assert result.table["narrow"].type == pa.int64()
    assert result.table["wide"].type == pa.decimal128(38, 0)
    assert json.loads(result.to_json())["rows"] == result.rows


def test_what_json_cannot_say_is_said_elsewhere() -> None:
    values = [float("inf"), float("-inf"), float("nan"), None, 0.1]
    result = _result({"d": pa.array(values), "f": pa.array(values, pa.float32())})
    assert result.to_csv() == "d,f\ninf,inf\n-inf,-inf\nnan,nan\n,\n0.1,0.1\n"
    assert result.to_text().split()[4:10] == ["inf", "inf", "-inf", "-inf", "nan", "nan"]
    assert result.rows[0] == [None, None]


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


def test_in_csv_an_empty_text_is_not_null() -> None:
    texts = ["", None, " ", 'say "a, b"', "two\nlines", "\r", "NULL"]
    result = _result({"text": pa.array(texts), "n": pa.array([1, None] + [2] * 5)})
    text = result.to_csv()
    assert text.startswith('text,n\n"",1\n,\n')
    assert [row for row, _ in csv.reader(io.StringIO(text, newline=""))][1:] == [
        value or "" for value in texts
    ]
    read = pl.read_csv(io.BytesIO(text.encode()))
    assert read["text"].to_list() == texts
    assert _result({"a": pa.array([None, ""])}).to_csv() == 'a\n""\n""\n'  # no empty line


lengths = st.tuples(
    st.just(0), st.integers(-1000, 1000), st.integers(-(10**12), 10**12).map(lambda us: us * 1000)
)


@given(st.lists(st.none() | lengths, max_size=5), st.integers(0, 3))
def test_lengths_of_time_are_what_pandas_polars_and_duckdb_read(values, cut) -> None:
    """As timedeltas in frames; as text that each of them reads back to the same length."""
    column = pa.array(values, pa.month_day_nano_interval())
    chunks = pa.chunked_array([column.slice(0, cut), column.slice(cut)])
    result = result_of(plain_table(pa.table({"span": chunks}), ["span"]))
    truth = [v and dt.timedelta(days=v[1], microseconds=v[2] // 1000) for v in values]
    assert result.table["span"].to_pylist() == truth
    assert result.to_polars()["span"].to_list() == truth
    assert [None if pd.isna(v) else v.to_pytimedelta() for v in result["span"]] == truth
    for text, length in zip(result.to_csv().split("\n")[1:-1], truth, strict=True):
        if length is None:
            assert text in ("", '""')
        else:
            assert pd.Timedelta(text).to_pytimedelta() == length
            read = duckdb.sql(f"SELECT INTERVAL '{text}' AS span").to_arrow_table()
            assert plain_table(read, ["span"])["span"].to_pylist() == [length]


def test_a_month_has_no_length() -> None:
    spans = pa.array([(1, 2, 0), None], pa.month_day_nano_interval())
    result = _result({"span": spans})
    assert result.to_polars()["span"].to_list() == ["P1M2D", None]


def test_lengths_of_time_are_shown_as_one_reads_them() -> None:
    values = [86_400_172_032, 172_800_000_000, 90_000_000, 500_000, 0, -1_500_000, -86_401_000_000]
    values[0] *= 1_000
    values[1] += 500_000
    result = _result({"span": pa.array(values, pa.duration("us"))})
    assert result.to_text().splitlines()[2:-1] == [
        "1000 days 00:02:52.032",
        "2 days 00:00:00.5",
        "00:01:30",
        "00:00:00.5",
        "00:00:00",
        "-00:00:01.5",
        "-2 days 23:59:59",
    ]
    assert [row[0] for row in result.rows[2:5]] == ["PT90S", "PT0.5S", "PT0S"]
    assert "2 days 00:00:00.5" in result._repr_html_()


def test_columns_by_name(engine: Engine, tmp_path) -> None:
    result = engine.sql("SELECT driver, count FROM orders(driver) ORDER BY count")
    assert result["count"].sum() == 12
    assert result[["count", "driver"]].shape == (4, 2)
    with pytest.raises(UnknownName, match="no column 'cuont': there are driver, count"):
        _ = result["cuont"]
    assert result.to_csv(tmp_path / "drivers.csv") is None
    written = (tmp_path / "drivers.csv").read_bytes()
    assert written == result.to_csv().encode()
    assert list(pd.read_csv(tmp_path / "drivers.csv")["count"]) == [1, 2, 4, 5]


def test_windows_are_datetimes(engine: Engine) -> None:
    result = engine.sql("SELECT driver, count FROM orders(driver) FOR LAST '1 hour'")
    assert result.window.start == dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    assert result.window.end - result.window.start == dt.timedelta(hours=1)
    assert result.window.covered == (0, HOUR)
    nothing = WindowRead("orders", ForClause("open"), None)
    assert (nothing.start, nothing.end) == (None, None)


def test_text_and_html_are_safe_to_show() -> None:
    result = _result(
        {
            "<b>": pa.array(["<script>alert(1)</script>", "a\x1b[2Jb\n\u202e", "x" * 100, ""]),
            "n": pa.array([1234567, None, 0, 0]),
            "x": [238_337.18, 0.1 + 0.2, 2.0**53 - 1, 1e300],
        },
        windows=(WindowRead("<i>", "OPEN", None),),
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
    shown = [line.split()[-1] for line in text.split("\n")[2:6]]
    assert shown == ["238,337.18", "0.3", "9,007,199,254,740,991", "1e+300"]
    assert len({len(line) for line in text.split("\n")[1:2]}) == 1
    assert "and 3 more" in result.to_text(rows_max=1)
    assert "OPEN: nothing" in result.footer()


def test_null_is_told_apart_from_an_empty_text() -> None:
    result = _result({"k": ["", None, "a"], "n": [1, 2, None]})
    assert result.to_text().splitlines()[2:5] == ["         1", "NULL     2", "a     NULL"]
    assert result._repr_html_().count("<td>NULL</td>") == 2


def test_no_rows_and_no_columns() -> None:
    empty = result_of(pa.table({"a": pa.array([], pa.int64())}))
    assert empty.rows == []
    assert json.loads(empty.to_json())["window"] is None
    assert empty.to_text().startswith("a\n-\n0 rows")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT window_start, orders FROM trend(busiest)",
        "SELECT driver, count FROM orders(driver)",
        "SELECT driver, INTERVAL '1' HOUR AS waited FROM orders(driver)",
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


def test_the_parts_of_a_joined_item_stand_apart() -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    items = ["UA\x1f15", "B6\x1f7"]
    result = _result({"item": pa.array(items), "periodicity": pa.array([3, 4])})
    assert "UA · 15" in result.to_text()
    assert "<td>UA · 15</td>" in result._repr_html_()
    labels = [label.get_text() for label in result.plot().get_yticklabels()]
    assert labels == ["B6 · 7", "UA · 15"]
    assert result.to_csv() == "item,periodicity\nUA\x1f15,3\nB6\x1f7,4\n"
    plt.close("all")


def test_a_plot_over_time_has_a_line_for_each_name() -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    times = pa.array([2, 2, 0, 0, 1, 1], pa.timestamp("us", "UTC"))
    result = _result(
        {
            "window_start": times,
            "revision": pa.array([0] * 6),
            "origin": pa.array(["A", None] * 3),
            "count": pa.array([1, 20, 2, 30, 3, 40]),
        }
    )
    axes = result.plot()
    lines = {line.get_label(): list(line.get_ydata()) for line in axes.lines}
    assert lines == {"A": [2, 3, 1], "null": [30, 40, 20]}
    assert axes.get_ylabel() == "count"
    assert axes.get_xlabel() == "window_start, UTC"
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["null", "A"]
    plt.close("all")


def test_plot_says_what_is_missing(engine: Engine) -> None:
    with pytest.raises(BadArgument, match="empty"):
        engine.sql("SELECT count FROM orders(driver) WHERE false").plot()
    with pytest.raises(BadArgument, match="no column 'z'"):
        engine.sql("SELECT count FROM orders(driver)").plot(y="z")
    with pytest.raises(BadArgument, match="'driver' holds no numbers"):
        engine.sql("SELECT count, driver FROM orders(driver)").plot(x="count", y="driver")
    with pytest.raises(BadArgument, match="no column of numbers"):
        engine.sql("SELECT driver FROM orders(driver)").plot()


def test_a_session_is_not_for_another_process() -> None:
    with (
        muntin.Session(open_ledger("memory://")) as session,
        pytest.raises(TypeError, match=r"hand on its results, .* for muntin\.open"),
    ):
        pickle.dumps(session)


def test_whatever_takes_arrows_streams_takes_a_result() -> None:
    found = _result({"origin": pa.array(["a", None]), "n": pa.array([1, 2])})
    assert pa.table(found).equals(found.to_arrow(), check_metadata=True)
    assert pl.DataFrame(found).rows() == [("a", 1), (None, 2)]
    assert duckdb.sql("SELECT sum(n) FROM found").fetchall() == [(3,)]
