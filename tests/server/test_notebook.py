"""Answers in notebooks: tables, charts, conversions, and a live view in a real Jupyter kernel."""

from __future__ import annotations

import polars as pl
import pyarrow as pa
import pytest

import muntin
from muntin.client import Update
from muntin.notebook import watch
from tests.server.conftest import PATIENCE_SECONDS, until

SELECT = "SELECT driver, count, fare FROM orders(driver) FOR ALL ORDER BY driver"


@pytest.fixture
def remote(server):
    with muntin.connect(server.url, timeout=PATIENCE_SECONDS) as client:
        yield client


def test_answers_convert(remote):
    result = remote.sql(SELECT)
    rows = {"driver": list("abcde"), "count": [18] * 5}
    assert result.to_arrow().select(list(rows)).to_pydict() == rows
    assert result.to_pandas()[list(rows)].to_dict("list") == rows
    frame = result.to_polars()
    assert isinstance(frame, pl.DataFrame)
    assert frame.select(list(rows)).to_dict(as_series=False) == rows
    assert frame.schema["fare"] == pl.Int64
    empty = remote.sql("SELECT driver FROM orders(driver) WHERE false")
    assert (len(empty.to_pandas()), empty.to_polars().height, empty.to_arrow().num_rows) == (0,) * 3


def test_answers_show_as_tables(remote):
    shown = remote.sql(SELECT)._repr_html_()
    assert shown.count("<tr") == 6
    assert "<th>driver</th>" in shown.replace(' style="text-align: left"', "")
    rows = pa.table({"<b>": ["<script>alert(1)</script>"]})
    hostile = muntin.select.result.Result.of(rows, remote.sql(SELECT).particulars())
    assert "<script" not in hostile._repr_html_()
    assert "<b>" not in hostile._repr_html_()


def test_updates_show_what_they_are(remote, feeder):
    with remote.subscribe(query="busiest", on="window") as updates:
        feeder.minute()
        update = next(updates)
    shown = update._repr_html_()
    assert f"orders: {update.window['start']} to {update.window['end']}, full" in shown
    assert "<table" in shown
    assert "too_large" in Update(error={"code": "too_large"})._repr_html_()
    assert "&lt;i&gt;" in Update(gap={"windows": "<i>"})._repr_html_()


def test_whatever_ends_a_live_view_is_shown():
    def updates():
        yield Update(error={"code": "too_large"})
        raise KeyError("<gone>")

    table, button = watch(updates()).children
    until(lambda: button.disabled)
    assert button.description == "stopped"
    assert "too_large" in table.value
    assert "KeyError(&#x27;&lt;gone&gt;&#x27;)" in table.value


def test_answers_plot(remote, tmp_path):
    pytest.importorskip("matplotlib").use("Agg")
    axes = remote.sql(SELECT).plot()
    axes.figure.savefig(tmp_path / "chart.png")
    assert (tmp_path / "chart.png").stat().st_size > 1000


CELLS = (
    """
import muntin, time
server = muntin.connect("{url}")
view = server.watch("{select}")
view
""",
    """
table, button = view.children
deadline = time.monotonic() + 30
while "<table" not in table.value and time.monotonic() < deadline:
    time.sleep(0.05)
first = table.value
print("shown" if "<table" in first else table.value)
""",
    """
while table.value == first and time.monotonic() < deadline:
    time.sleep(0.05)
print("moved" if table.value != first else "stands still")
""",
    """
button.click()
while not button.disabled and time.monotonic() < deadline:
    time.sleep(0.05)
print(button.description)
""",
)


@pytest.mark.slow
def test_a_live_view_in_a_real_kernel(server, feeder, tmp_path, monkeypatch):
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    pytest.importorskip("ipywidgets")
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    cells = [
        nbformat.v4.new_code_cell(c.replace("{url}", server.url).replace("{select}", SELECT))
        for c in CELLS
    ]
    client = nbclient.NotebookClient(nbformat.v4.new_notebook(cells=cells), timeout=60)
    with client.setup_kernel():
        for number, cell in enumerate(cells):
            if number == 2:
                feeder.minute()
            client.execute_cell(cell, number)
    view = cells[0].outputs[0].data
    assert "application/vnd.jupyter.widget-view+json" in view
    assert [cell.outputs[0].text.strip() for cell in cells[1:]] == ["shown", "moved", "stopped"]
    # what the browser was told: the table came over the widget's channel
    values = [state.get("value", "") for state in client.widget_state.values()]
    assert any("<table" in str(value) for value in values)
