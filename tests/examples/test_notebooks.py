"""The notebooks run from their first cell to the last, and what they show is true."""

from __future__ import annotations

import runpy
from pathlib import Path

import matplotlib as mpl
import pytest

mpl.use("Agg")
FOLDER = Path(__file__).parents[2] / "examples" / "notebooks"


def run(name):
    pytest.importorskip("marimo")
    app = runpy.run_path(str(FOLDER / name), run_name="notebook")["app"]
    _, names = app.run()
    return names


def test_flights():
    names = run("flights.py")
    assert names["by_hand"] == names["from_summaries"] > 5_000
    assert len(names["worst"]) == 10
    assert len(names["days"]) == 29


def test_heartbeats():
    names = run("heartbeats.py")
    assert sorted(names["overdue"]["item"]) == sorted(names["silent"])
    assert len(names["beating"]) >= 55


def test_p99():
    names = run("p99.py")
    inside = [
        low <= value <= high
        for low, value, high in zip(names["lower"], names["exact"], names["upper"], strict=True)
    ]
    assert sum(inside) >= 57  # of 60, at confidence 99 %
    assert all(names["within"])
