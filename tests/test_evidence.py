"""A measured figure on a page (README, operations, …) is the one of the newest result file."""

import json
import runpy
from pathlib import Path

import pytest
from typer import BadParameter

from muntin.cli.reproduce import EXPERIMENTS, script_of

ROOT = Path(__file__).resolve().parent.parent
EVIDENCE = runpy.run_path(str(ROOT / "scripts" / "evidence.py"))
RESULTS = sorted((ROOT / "benchmarks" / "results").glob("*.json"))


@pytest.mark.parametrize("page", EVIDENCE["PAGES"])
def test_a_page_says_what_was_measured(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    assert EVIDENCE["rendered"](text) == text, "run: python scripts/evidence.py"


@pytest.mark.parametrize("image", EVIDENCE["PLOTS"])
def test_a_plot_shows_what_was_measured(image):
    drawn = EVIDENCE["plotted"](EVIDENCE["PLOTS"][image])
    assert (ROOT / image).read_text(encoding="utf-8") == drawn, "run: python scripts/evidence.py"


def test_each_result_is_on_a_page():
    pages = [ROOT / page for page in EVIDENCE["PAGES"]]
    text = "".join(page.read_text(encoding="utf-8") for page in pages)
    for path in RESULTS:
        for run in json.loads(path.read_text(encoding="utf-8")).values():
            for table in run["tables"]:
                assert f"<!-- measured: {path.stem} {table['name']} -->" in text


def test_a_figure_that_was_changed_by_hand_is_seen():
    text = (ROOT / "docs" / "evidence.md").read_text(encoding="utf-8")
    start = text.index("<!-- measured:")
    assert EVIDENCE["rendered"](text[:start] + text[start:].replace("1", "7", 40)) != text[:start]
    changed = text[:start] + text[start:].replace("| **", "| **9", 1)
    assert EVIDENCE["rendered"](changed) == text


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_a_result_names_a_command_that_is_there(path):
    for run in json.loads(path.read_text(encoding="utf-8")).values():
        script = run["command"].split()[1]
        assert (ROOT / script).exists()
        assert all(run[name] for name in ("machine", "date", "versions", "tables"))


def test_each_experiment_that_reproduce_names_is_there():
    for name in EXPERIMENTS:
        assert script_of(name).is_file()


def test_an_unknown_experiment_is_answered_with_those_that_there_are():
    with pytest.raises(BadParameter, match="'fig-9': the experiments are vector-matrix"):
        script_of("fig-9")
