"""A measured figure on a page (README, operations, …) is the one of the newest result file."""

import ast
import itertools
import json
import pkgutil
import re
import runpy
from pathlib import Path

import pytest
from typer import BadParameter

from muntin.cli.reproduce import EXPERIMENTS, script_of

ROOT = Path(__file__).resolve().parent.parent
EVIDENCE = runpy.run_path(str(ROOT / "scripts" / "evidence.py"))
RESULTS = sorted((ROOT / "benchmarks" / "results").glob("*.json"))


# What of a page is prose: no measured part, no code, no address of a link.
ASIDE = re.compile(
    r"<!-- measured:.*?<!-- end -->|^```.*?^```|`[^`\n]*`|\]\([^)\n]*\)", re.DOTALL | re.MULTILINE
)
NUMBER = r"(?<![\w.^/])\d[\d,]*(?:\.\d+)?"
FIGURES = re.compile(
    rf"{NUMBER} ?(?:ns|µs|us|ms)\b"  # times that nobody chooses
    rf"|{NUMBER} ?(?P<time>s|seconds?|minutes?)\b"
    rf"|{NUMBER} ?(?P<size>kB|KB|MB|GB|KiB|MiB|GiB)\b"
    r"|(?<![\w.^/])\d[\d,]*\.\d+ ?%"
    rf"|{NUMBER}(?: times (?!in\b|a\b|and\b)|×)"
    rf"|{NUMBER} (?:million )?(?:\w+ )?(?:a|per) second\b"
)
ROUND_SECONDS = {1, 2, 4, 5, 10, 15, 20, 30, 60}
CHOSEN_SIZES = {10**digits * step for digits in range(3) for step in (1, 2, 5)}


def stated_figures(page, text):
    """Sentences with a figure as measurements have them.

    Whole seconds that are round, and sizes that are a power of two or a round number, are what
    somebody chose: limits and defaults. What else is not measured stands in `GIVEN`.
    """
    for phrases in GIVEN.values():
        for phrase in phrases.get(page, ()):
            text = text.replace(phrase, "")
    text = ASIDE.sub("", text)
    for found in FIGURES.finditer(text):
        number = float(re.sub(r"[^\d.].*", "", found[0].replace(",", "")))
        chosen = ()
        if found["time"]:
            chosen = ROUND_SECONDS
        elif found["size"]:
            chosen = CHOSEN_SIZES | {2**power for power in range(20)}
        if number not in chosen:
            yield text[max(0, found.start() - 60) : found.end() + 40]


# What is no measurement, by what it is instead.
GIVEN = {
    "a limit, or what somebody chose": {
        "docs/ledger.md": ["every 50 ms there"],
        "docs/pipeline-file.md": ["1 ms or longer"],
        "docs/server.md": [
            "100 a second, 400 at once",
            "20 a second, 40 at once",
            "10 a second, fewer",
        ],
        "docs/topk.md": [
            "0.1 s apart at first",
            "200 messages a second beyond",
            "2 hours a second",
        ],
        "docs/fingerprint-index.md": ["`fpp` of 0.1 %"],
    },
    "what a formula gives": {
        "docs/choosing.md": ["1.33 % (k = 200)", "0.0038 % of the ranks off (k = 12)"],
        "docs/fingerprint-index.md": ["a rate 64 times lower"],
        "docs/frequency.md": ["99.3 % at depth 5"],
        "docs/pipeline-file.md": ["1.33 % at 200", "3.8 % at 12", "(2.1 %)", "(1.2 %)"],
        "docs/quantiles.md": [
            "2.296 / k^0.9723: 1.33 % at k = 200",
            "at k = 12, 0.0038 % at 0.999",
            "at most 3.8 % of the tail",
            "| 12 | 3.8 % | 2.1 % |",
            "| 24 | 1.9 % | 1.0 % |",
            "| 64 | 0.70 % | 0.39 % |",
            "| 450 | 0.1 % | 0.06 % |",
        ],
    },
    "what the paper says": {
        "docs/evidence.md": ["5.34 and 2.44 MB at 640,000"],
        "docs/periodic.md": ["published 98 times its speed"],
    },
    "what a test holds": {"docs/topk.md": ["units of 0.25 s"]},
    "what a plan takes as given, said so": {
        "docs/scale.md": ["300 MB a second (three", "10 ms for a read", "pieces of 7 MB"]
    },
}


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


@pytest.mark.parametrize("page", EVIDENCE["PAGES"])
def test_a_measured_figure_stands_in_a_measured_part(page):
    found = list(stated_figures(page, (ROOT / page).read_text(encoding="utf-8")))
    assert not found, "measure it (benchmarks/_record.py), leave it out, or say what it is in GIVEN"


def test_what_is_given_is_still_said():
    for reason, pages in GIVEN.items():
        for page, phrases in pages.items():
            text = (ROOT / page).read_text(encoding="utf-8")
            gone = [phrase for phrase in phrases if phrase not in text]
            assert not gone, f"{reason}, {page}"


@pytest.mark.parametrize(
    "line",
    [
        "It takes 4.6 times as long as `from_json`.",
        "| ten deciles, at the driver | 0.54 ms |",
        "Reading takes 75 to 100 µs each.",
        "| 640,000 rows | 2.5 million rows a second |",
        "0.55× the time of Spark's statement",
        "the driver holds 303 MiB",
        "killed under 1,000 clients: all back after 4.8 s",
    ],
)
def test_a_figure_that_was_typed_is_seen(line):
    assert list(stated_figures("docs/evidence.md", line))


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


RECORD = runpy.run_path(str(ROOT / "benchmarks" / "_record.py"))


@pytest.mark.parametrize(("best", "said"), [(1.2, 0), (0.7, 1)])
def test_a_ratio_that_fell_by_more_than_its_spread_is_told(best, said):
    place = ("sums", "DuckDB", "one thread")
    before = {place: {"worst": 1.0, "median": 1.1, "best": 1.2}}
    now = {place: {"worst": 0.5, "median": 0.6, "best": best}}
    assert len(list(RECORD["fallen"](before, now))) == said


def test_a_wide_spread_asks_for_something_as_well():
    place = ("sums", "DuckDB", "one thread")
    before = {place: {"worst": 10.0, "median": 30.0, "best": 50.0}}
    now = {place: {"worst": 1.0, "median": 1.0, "best": 1.5}}
    assert len(list(RECORD["fallen"](before, now))) == 1


def test_ratios_of_several_runs_are_kept_as_one():
    def run(worst, median, best, milliseconds):
        ratio = {"worst": worst, "median": median, "best": best}
        return [
            RECORD["Table"]("sums", "Sums", ["what", "time", "ms"], [["a", ratio, milliseconds]])
        ]

    kept = RECORD["together"]([run(1, 2, 3, 10), run(2, 4, 5, 11), run(1.5, 2.5, 3.5, 12)])
    assert kept[0].rows == [["a", {"worst": 1, "median": 2.5, "best": 5}, 12]]


def test_a_check_without_a_kept_run_fails():
    with pytest.raises(SystemExit, match="keeps no short run"):
        RECORD["check"]("recovery", [])


def test_a_check_that_compares_nothing_fails():
    with pytest.raises(SystemExit, match="none of the ratios"):
        RECORD["check"]("peers-sums", [])


def test_what_is_ours_in_another_form_may_become_faster():
    ratio = {"worst": 0.7, "median": 0.8, "best": 0.9}
    table = RECORD["Table"]("speed", "Speed", ["what", "build"], [["Muntin REQ", ratio]])
    assert not RECORD["_ratios_of"]([table])


def test_only_peers_are_held_to_their_ratio():
    runs = dict.fromkeys(["ours", "ours, in another form", "a peer"], lambda: None)
    seconds = itertools.count().__next__
    table = RECORD["timed"]("forms", "Forms", runs, 2, ours=2, clock=seconds)
    assert [isinstance(row[1], dict) for row in table.rows] == [False, False, True]


def test_what_a_benchmark_takes_is_there():
    """Nobody runs all of them often: a name that has moved to another file is missed for long."""
    there = {}
    files = sorted((ROOT / "benchmarks").rglob("*.py"))
    for file in files:
        found = there[file] = set()
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef | ast.FunctionDef):
                found.add(node.name)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                found.add(node.id)
            elif isinstance(node, ast.Import | ast.ImportFrom):
                found |= {alias.asname or alias.name for alias in node.names}
    taken = 0
    for file in files:
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if not isinstance(node, ast.ImportFrom) or node.module is None:
                continue
            if node.module.partition(".")[0] == "muntin":
                for alias in node.names:
                    pkgutil.resolve_name(f"{node.module}:{alias.name}")  # or an error
                continue
            for beside in (file.parent, ROOT / "benchmarks"):
                names = there.get(beside / f"{node.module}.py")
                if names is not None:
                    missing = {alias.name for alias in node.names} - names
                    assert not missing, f"{file}: {node.module} has no {missing}"
                    taken += 1
                    break
    assert taken > 20
