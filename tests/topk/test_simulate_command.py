"""`muntin simulate top-k`: what it prints, draws and refuses."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from muntin.cli import app
from muntin.errors import BadArgument
from tests.docs_samples import ROOT, commands_of, samples_of, split


def said(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["simulate", "top-k", *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_table_and_picture(tmp_path) -> None:
    path = tmp_path / "costs.png"
    shown = said("--objects", "40", "--sites", "3", "--windows", "10", "--plot", str(path))
    for policy in ("resolution", "lsa", "gsa", "hybrid", "naive"):
        assert policy in shown
    assert path.read_bytes()[:4] == b"\x89PNG"


def test_json_is_what_compare_says() -> None:
    options = ["--objects", "40", "--sites", "3", "--windows", "10", "--seed", "5", "--runs", "2"]
    found = json.loads(said("-s", "traffic", "-p", "naive", "-p", "hybrid", *options, "--json"))
    assert found["options"]["seed"] == 5
    assert list(found["per_100_windows"]) == ["naive", "hybrid"]
    assert found["per_100_windows"]["naive"]["messages"] == 300
    assert found["per_100_windows"]["hybrid"]["invalid"] == 0


def test_a_file_with_columns_of_other_names(tmp_path) -> None:
    rng = np.random.default_rng(1)
    path = tmp_path / "flights.csv"
    table = pa.table(
        {
            "when": np.sort(rng.integers(0, 3000, 2000)),
            "airport": rng.choice(["ATL", "ORD", "DFW"], 2000, p=[0.5, 0.3, 0.2]),
            "region": rng.choice(["east", "west"], 2000),
            "seats": rng.integers(1, 200, 2000),
        }
    )
    pa.csv.write_csv(table, path)
    columns = ["--time-column", "when", "--object-column", "airport", "--site-column", "region"]
    lengths = ["--window", "1000", "--unit", "10", "--windows", "50", "--k", "1"]
    shown = json.loads(
        said("-s", str(path), *columns, "--value-column", "seats", *lengths, "--json")
    )
    naive = shown["per_100_windows"]["naive"]
    assert naive["messages"] > 0
    assert shown["per_100_windows"]["resolution"]["bytes"] < naive["bytes"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--policy", "best"], "policy 'best': one of"),
        (["--stream", "none.csv"], "none.csv: no such file"),
        (["--sites", "0"], "sites is 0"),
        (["--k", "0"], "k is 0: give 1"),
        (["--epsilon", "-1"], "epsilon is -1"),
        (["--rate", "0.01"], "0.1 records in a unit: give a rate"),
        (["--rate", "nan"], "nan records in a unit"),
        (["--rate", "inf"], "inf records in a unit"),
        (["--affinity", "nan"], "affinity is nan"),
        (["--exponent", "inf"], "exponent is inf"),
        (["--seed", "-1"], "seed -1: give 0 or more"),
        (["--objects", "1000000000000"], "counts: at most 268,435,456"),
        (["--overhead", "-1", "--policy", "hybrid"], "overhead -1: give 0"),
        (["--runs", "0"], "0 runs"),
        (["--window", "25", "--unit", "10"], "whole number of units"),
        (["--window", "a fortnight"], "'a fortnight' is not a duration: write a number"),
        (["--objective", "euros", "--policy", "hybrid"], "'bytes' or 'messages'"),
        (["--plot", "costs.doc"], "ends in .png"),
    ],
)
def test_errors_name_value_and_remedy(arguments: list[str], message: str) -> None:
    with pytest.raises(BadArgument) as problem:
        CliRunner().invoke(
            app, ["simulate", "top-k", "--windows", "3", *arguments], catch_exceptions=False
        )
    assert message in str(problem.value)


def test_a_file_that_is_too_short_or_lacks_a_column(tmp_path) -> None:
    path = tmp_path / "short.csv"
    pa.csv.write_csv(pa.table({"time": [1, 500], "object": ["a", "b"]}), path)
    for arguments, message in (
        (["--window", "100", "--unit", "10"], "give fewer windows"),
        (["--object-column", "airport"], "no column 'airport': the columns are"),
    ):
        with pytest.raises(BadArgument, match=message):
            CliRunner().invoke(
                app, ["simulate", "top-k", "-s", str(path), *arguments], catch_exceptions=False
            )


def test_the_commands_of_the_page(tmp_path, monkeypatch) -> None:
    """As topk.md has them, of fewer windows: a hundred take a minute."""
    monkeypatch.chdir(tmp_path)
    hours = [1_356_998_400_000_000 + n * 3_600_000_000 for n in range(200)]
    flights = {
        "time_hour": pa.array(hours, pa.timestamp("us", "UTC")),
        "origin": [("EWR", "JFK", "LGA")[n % 3] for n in range(200)],
        "carrier": [("AA", "B6", "DL", "UA")[n % 4] for n in range(200)],
    }
    pq.write_table(pa.table(flights), "flights.parquet")
    page = samples_of(ROOT / "docs" / "topk.md")
    (sample,) = (s for s in page if s.text.startswith("muntin simulate top-k"))
    plain, traffic, file = (split(line)[1][3:] for line in commands_of(sample))
    assert "hybrid" in said(*plain, "--windows", "5")
    assert "drawn into costs.png" in said(*traffic, "--windows", "5")
    assert (tmp_path / "costs.png").read_bytes()[:4] == b"\x89PNG"
    found = json.loads(said(*file, "--windows", "5"))
    assert found["options"]["windows"] == 5
    assert found["per_100_windows"]["hybrid"]["invalid"] == 0
