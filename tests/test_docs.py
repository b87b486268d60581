"""Links in the documents lead somewhere, and what they show is what there is."""

import contextlib
import json
import os
import re
import shlex
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from typer.main import get_command

from muntin import cli
from muntin.assembly.standing import StandingQueries
from muntin.ledger.open import open_ledger
from muntin.server.serving import Server
from muntin.sites.spec import CoordinatorSpec
from muntin.spec import Pipeline
from muntin.yaml_file import read
from tests.docs_samples import PAGES as SAMPLE_PAGES
from tests.docs_samples import ROOT, as_input, commands_of, samples_of

PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_every_document_is_reached_from_the_readme():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    missing = [p.name for p in (ROOT / "docs").glob("*.md") if f"docs/{p.name}" not in readme]
    assert not missing


CODE = ("architecture.md", "adding-a-kind.md", "ledger.md")


@pytest.mark.parametrize("page", CODE)
def test_what_is_named_of_the_code_is_there(page):
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    files = re.findall(r"`((?:\w+/)+\w+\.py)`", text)
    assert files
    for file in files:
        assert any((ROOT / base / file).exists() for base in ("", "src/muntin")), file
    source = "\n".join(path.read_text() for path in (ROOT / "src" / "muntin").rglob("*.py"))
    for owner, name in re.findall(r"`([A-Z]\w+)\.(\w+)`", text):
        assert re.search(rf"^class {owner}\b", source, re.MULTILINE), owner
        assert re.search(rf"^    (?:async )?(?:def )?{name}\b", source, re.MULTILINE), name


def test_each_promise_names_tests_that_are_there():
    text = (ROOT / "docs" / "promises.md").read_text(encoding="utf-8")
    promises = re.findall(r"^\| [PF]\d+ \| .*$", text, re.MULTILINE)
    assert len(promises) >= 30
    for promise in promises:
        named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", promise)
        assert named, promise
        for file, test in named:
            assert f"def {test or 'test_'}" in (ROOT / file).read_text(encoding="utf-8"), test


# Samples: each is run, or the page says above it why not (<!-- not run here: ... -->).

SAMPLES = [sample for page in SAMPLE_PAGES for sample in samples_of(page)]
RUN = [sample for sample in SAMPLES if not sample.why_not and not sample.by]
SPARK_PAGES = ("README.md", "server.md", "fingerprint-index.md")
SHELL = ("sh", "console")
PLAIN = sorted({s.page for s in RUN if s.language == "python"} - set(SPARK_PAGES))


def test_what_another_test_runs_is_read_there_from_the_page():
    ran = [sample for sample in SAMPLES if sample.by]
    assert len(ran) >= 9
    for sample in ran:
        assert sample.page in (ROOT / sample.by).read_text(encoding="utf-8"), sample.name


def test_commands_are_as_the_command_line_takes_them():
    """Those of all samples, run or not: each command is there, and its options and arguments."""
    lines = [line for s in SAMPLES if s.language in SHELL for line in commands_of(s)]
    form = re.compile(r"(?:\w+=\S* )*(?:uvx \S+ \S+ )?(?:\S*/)?muntin (.*)")
    asked = [found[1] for line in lines if (found := form.match(line))]
    assert len(asked) >= 30
    for line in asked:
        words = shlex.split(line, comments=True)
        words = words[: next((n for n, word in enumerate(words) if word in "|>&;"), len(words))]
        command, context, name = get_command(cli.app), None, "muntin"
        while hasattr(command, "resolve_command"):
            context = command.make_context(name, words[:1], parent=context, resilient_parsing=True)
            name, command, words = command.resolve_command(context, words)
        command.make_context(name, words, parent=context)  # raises what the command line would say


def test_every_sample_is_of_a_language_that_is_run():
    """What is only shown (an answer, an error) is text without a language, or JSON."""
    known = {"python", "yaml", "sql", "json", "mermaid", *SHELL}
    assert {s.name: s.language for s in RUN if s.language and s.language not in known} == {}
    for sample in RUN:
        if not sample.language:
            assert not sample.text.startswith(("muntin ", "python ", "pip ", "$ ")), sample.name
    assert len([s for s in RUN if s.language == "python"]) >= 9


@pytest.mark.parametrize("page", PLAIN)
def test_python_samples_run_in_the_order_of_their_page(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    for sample in RUN:
        if (sample.page, sample.language) == (page, "python"):
            exec(compile(sample.text, sample.name, "exec"), names)  # noqa: S102 (our own)


@pytest.mark.parametrize("sample", [s for s in RUN if s.language == "json"], ids=lambda s: s.name)
def test_json_samples_are_json(sample):
    assert json.loads(sample.text)


@pytest.mark.parametrize("sample", [s for s in RUN if s.language == "yaml"], ids=lambda s: s.name)
def test_yaml_samples_are_what_they_say(sample, tmp_path, monkeypatch):
    """A pipeline, a coordinator, or entries of a pipeline with the summaries of their page."""
    path = tmp_path / "sample.yaml"
    path.write_text(sample.text, encoding="utf-8")
    for variable in ("NORTH_TOKEN", "SOUTH_TOKEN"):
        monkeypatch.setenv(variable, "0123456789abcdef")
    data = read(path, "").data
    if "state" in data:
        assert CoordinatorSpec.of(path).sites
    elif "pane" in data:
        _check(Pipeline.of(path))
    else:
        _check(_pipeline(sample.page, data))


def _pipeline(page, data):
    """Entries of a pipeline file, or of its summaries, made whole."""
    summaries = data.get("summaries") or {k: v for k, v in data.items() if k != "queries"}
    if not summaries:
        summaries = _summaries_of(page)
    entries = {"name": "sample", "time": "time", "pane": "1 second", "summaries": summaries}
    return Pipeline.of(entries | {"queries": data.get("queries", {})})


def _summaries_of(page):
    found = {}
    for sample in RUN:
        if sample.page == page and sample.language == "yaml":
            data = yaml.safe_load(sample.text)
            if "pane" not in data and "state" not in data:
                found |= data.get("summaries") or {k: v for k, v in data.items() if k != "queries"}
    return found


def _check(pipeline):
    StandingQueries(pipeline, open_ledger("memory://docs")).close()


def test_sql_samples_are_right():
    """Those of select.md and postgres.md are asked in tests/select and tests/postgres."""
    elsewhere = ("select.md", "postgres.md")
    asked = [s for s in RUN if s.language == "sql" and s.page not in elsewhere]
    assert asked
    for sample in asked:
        for at, line in enumerate(sample.text.splitlines()):
            queries = {f"line{at}": {"select": line.partition(" -- ")[0], "on": "update"}}
            _check(_pipeline(sample.page, {"queries": queries}))


@pytest.mark.spark
def test_samples_that_need_spark_and_commands(tmp_path):
    """In order, in one folder with data, by a process of its own: as a reader does it."""
    hours = [1_356_998_400_000_000 + n * 3_600_000_000 for n in range(2_000)]
    flights = pa.table(
        {
            "date": pa.array(hours, pa.timestamp("us", "UTC")),
            "origin": [("EWR", "JFK", "LGA")[n % 3] for n in range(2_000)],
            "destination": [("ATL", "LAX", "ORD", "SFO")[n % 4] for n in range(2_000)],
            "delay": pa.array([n % 61 - 10 for n in range(2_000)], pa.int64()),
            "distance": pa.array([100 + n % 7 for n in range(2_000)], pa.int64()),
        }
    )
    (tmp_path / "data" / "flights").mkdir(parents=True)
    pq.write_table(flights, tmp_path / "data" / "flights" / "flights.parquet")
    named = flights.rename_columns(["time_hour", "origin", "carrier", "delay", "distance"])
    pq.write_table(named, tmp_path / "flights.parquet")
    needed = [s for s in RUN if s.page in SPARK_PAGES and s.language == "python"]
    needed += [s for s in RUN if s.language in SHELL]
    assert len(needed) >= 6
    needed.sort(key=lambda s: (SPARK_PAGES.index(s.page) if s.page in SPARK_PAGES else 9, s.line))
    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])  # activated
    with serving(tmp_path / "served.db") as url:
        text = as_input(needed).replace("http://127.0.0.1:8787", url)
        done = subprocess.run(
            [sys.executable, ROOT / "tests" / "docs_samples.py"],
            input=text,
            cwd=tmp_path,
            env={**os.environ, "PYTHONWARNINGS": "ignore", "PATH": path},
            capture_output=True,
            text=True,
            timeout=500,
        )
    assert done.returncode == 0, done.stderr[-4000:]
    assert [s.name for s in needed if f"ran {s.name} " not in done.stderr] == []


@contextlib.contextmanager
def serving(path):
    """A server of a ledger of flights, as docs/server.md has one."""
    ledger = open_ledger(f"sqlite:///{path}")
    entries = {"keys": ["origin"], "window": {"length": "1 day"}}
    spec = Pipeline.of(
        {"name": "flights", "time": "time", "pane": "1 hour", "summaries": {"flights": entries}}
    )
    ledger.open_writer("flights", spec.as_json(), query_id="docs").close()
    server = Server(ledger, port=0)
    server.start()
    try:
        yield server.url
    finally:
        server.stop()
        ledger.close()
