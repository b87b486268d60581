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
import trustme
import yaml
from typer.main import get_command

from muntin import cli
from muntin.assembly.standing import StandingQueries
from muntin.ledger.open import open_ledger
from muntin.server.serving import Server
from muntin.sites import CoordinatorServer, CoordinatorSpec
from muntin.spec import Pipeline
from muntin.times import duration_us
from muntin.yaml_file import read
from tests.docs_checks import check
from tests.docs_samples import HOW, ROOT, TOKEN, as_input, commands_of, run_python, samples_of
from tests.docs_samples import PAGES as SAMPLE_PAGES
from tests.store_servers import PostgresServer

PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_durations_within_the_text_are_durations():
    """Those of entries: `retention: {panes: 2 days}`."""
    code = [c for page in PAGES for c in re.findall(r"`([^`\n]+)`", page.read_text("utf-8"))]
    found = [text for each in code for text in re.findall(r"\w+: (\d+ [a-z]+)\b", each)]
    assert len(found) >= 5
    for text in found:
        duration_us(text, or_zero=True)  # or it says what is none


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


# Samples: each is run, or the page says above it how, or why it is checked alone.

SAMPLES = [sample for page in SAMPLE_PAGES for sample in samples_of(page)]
RUN = [sample for sample in SAMPLES if sample.how in ("", "until stopped")]
SPARK_PAGES = ("README.md", "server.md", "fingerprint-index.md", "spark.md", "topk.md")
SHELL = ("sh", "console")
CHECKED = [sample for sample in SAMPLES if sample.how == "checked: "]
SUBMITTED = "spark-submit "
SUBMITTED_PAGES = ("spark.md", "topk.md")


def needs_spark(sample):
    """Or what it stands for: a pipeline that has run."""
    return sample.page in SPARK_PAGES and "CoordinatorServer" not in sample.text


PLAIN = sorted({s.page for s in RUN if s.language == "python" and not needs_spark(s)})


def test_what_another_test_runs_is_read_there_from_the_page():
    ran = [sample for sample in SAMPLES if sample.how == "run by "]
    assert len(ran) >= 9
    for sample in ran:
        assert sample.page in (ROOT / sample.more).read_text(encoding="utf-8"), sample.name


@pytest.mark.parametrize("sample", CHECKED, ids=lambda s: s.name)
def test_samples_that_are_not_run_are_checked(sample):
    assert sample.more
    check(sample)
    others = [s for s in SAMPLES if s.page == sample.page and s.language]
    assert any(s.how != "checked: " for s in others)


def test_no_comment_says_something_else():
    for page in SAMPLE_PAGES:
        said = re.findall(r"<!-- ([^\n]*?) -->\n *```", page.read_text(encoding="utf-8"))
        assert [each for each in said if not each.startswith(HOW[1:])] == [], page.name


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
    known = {"python", "yaml", "sql", "json", "js", "mermaid", *SHELL}
    assert {s.name: s.language for s in RUN if s.language and s.language not in known} == {}
    for sample in RUN:
        if not sample.language:
            assert not sample.text.startswith(("muntin ", "python ", "pip ", "$ ")), sample.name
    assert len([s for s in RUN if s.language == "python"]) >= 16
    assert len([s for s in RUN if s.how == "until stopped"]) >= 5


@pytest.mark.parametrize("page", PLAIN)
def test_python_samples_run_in_the_order_of_their_page(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    prepare_sites(tmp_path, monkeypatch.setenv)
    names = {}
    for sample in RUN:
        if (sample.page, sample.language) == (page, "python") and not needs_spark(sample):
            run_python(sample, {}, names)


def test_a_panel_is_a_module_with_one_function(tmp_path):
    """By the Node that Playwright has."""
    driver = pytest.importorskip("playwright._impl._driver")
    (sample,) = (s for s in RUN if s.language == "js")
    (tmp_path / "panel.mjs").write_text(sample.text, encoding="utf-8")
    asked = "import('./panel.mjs').then((m) => m.default({}, {}, {}))"
    node = driver.compute_driver_executable()[0]
    subprocess.run([node, "-e", asked], cwd=tmp_path, check=True, timeout=60)


@pytest.mark.parametrize("sample", [s for s in RUN if s.language == "json"], ids=lambda s: s.name)
def test_json_samples_are_json(sample):
    assert json.loads(sample.text)


@pytest.mark.parametrize("sample", [s for s in RUN if s.language == "yaml"], ids=lambda s: s.name)
def test_yaml_samples_are_what_they_say(sample, tmp_path, monkeypatch):
    """A pipeline, a coordinator, or entries of a pipeline with the summaries of their page."""
    path = tmp_path / "sample.yaml"
    path.write_text(sample.text, encoding="utf-8")
    for variable in ("NORTH_TOKEN", "SOUTH_TOKEN"):
        monkeypatch.setenv(variable, TOKEN)
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
@pytest.mark.parametrize("submits", [False, True], ids=["python", "spark-submit"])
def test_samples_that_need_spark_and_commands(tmp_path, monkeypatch, submits):
    """In order, in one folder with data, as a reader does it; of two pages by spark-submit."""
    # spark.md closes a window each hour, and asks it
    prepare_flights(tmp_path, 240 if submits else 2_000)
    prepare_certificate(tmp_path)
    prepare_sites(tmp_path, monkeypatch.setenv)
    needed = [s for s in RUN if needs_spark(s) and s.language == "python"]
    needed += [s for s in RUN if s.language in SHELL]
    needed += [s for s in CHECKED if SUBMITTED in s.text]
    needed = [s for s in needed if (s.page in SUBMITTED_PAGES) is submits]
    order = ["", "until stopped", "checked: "]
    needed.sort(key=lambda s: (s.language != "python", order.index(s.how), s.page != "README.md"))
    for name, value in {
        "PYTHONPATH": str(ROOT),
        "PYTHONWARNINGS": "ignore",
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PATH": os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]]),  # activated
    }.items():
        monkeypatch.setenv(name, value)
    command = [sys.executable, f"{ROOT}/tests/docs_samples.py", "samples.json"]
    with contextlib.ExitStack() as stack:
        url = stack.enter_context(serving(tmp_path / "served.db"))
        coordinator = CoordinatorServer(tmp_path / "coordinator.yaml", port=0)
        shared = "" if submits else stack.enter_context(stored(tmp_path))
        prepare_pipelines(tmp_path, stack.enter_context(coordinator).address, shared)
        places = {
            "postgresql://muntin@db.example/flights?sslmode=verify-full": shared,
            "http://127.0.0.1:8787": url,
            "s3a://bucket/flights": f"{tmp_path}/timed",
            "/Volumes/main/default/muntin": str(tmp_path),
            "/var/muntin": str(tmp_path),
            "/local_disk0": f"{tmp_path}/data",
        }
        (tmp_path / "samples.json").write_text(as_input(needed, places), encoding="utf-8")
        done = subprocess.run(
            submitted() if submits else command,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )
    lines = (done.stdout + done.stderr).splitlines()
    said = "\n".join(line for line in lines if " INFO " not in line)
    assert done.returncode == 0, said[-6000:]
    assert [s.name for s in needed if f"ran {s.name} " not in said] == []


def submitted():
    """The command of spark.md, with the master, the Python and the program that there are here."""
    (sample,) = (s for s in SAMPLES if s.page == "spark.md" and "spark://host" in s.text)
    (line,) = commands_of(sample)
    places = {
        "spark://host:7077": "local[2]",
        "/opt/muntin/bin/python": sys.executable,
        "job.py": f"{ROOT}/tests/docs_samples.py samples.json",
    }
    for there, here in places.items():
        assert there in line
        line = line.replace(there, here)
    return shlex.split(line)


def prepare_certificate(folder):
    trust = trustme.CA()
    trust.cert_pem.write_to_path(folder / "authority.pem")
    made = trust.issue_cert("localhost", "127.0.0.1")
    (folder / "server.pem").write_bytes(b"".join(p.bytes() for p in made.cert_chain_pems))
    made.private_key_pem.write_to_path(folder / "server.key")


def prepare_flights(folder, number=2_000):
    hours = [1_356_998_400_000_000 + n * 3_600_000_000 for n in range(number)]
    flights = pa.table(
        {
            "date": pa.array(hours, pa.timestamp("us", "UTC")),
            "origin": [("EWR", "JFK", "LGA")[n % 3] for n in range(number)],
            "destination": [("ATL", "LAX", "ORD", "SFO")[n % 4] for n in range(number)],
            "delay": pa.array([n % 61 - 10 for n in range(number)], pa.int64()),
            "distance": pa.array([100 + n % 7 for n in range(number)], pa.int64()),
        }
    )
    timed = flights.rename_columns(["time", "origin", "dest", "delay", "distance"])
    for place, table in (("data/flights", flights), ("timed", timed), ("data/north", timed)):
        (folder / place).mkdir(parents=True)
        pq.write_table(table, folder / place / "flights.parquet")


def prepare_pipelines(folder, address, shared):
    """Files that samples name: of flights, with ledgers of their own, and one of a site."""
    entries = {
        "name": "flights",
        "source": {"format": "parquet", "path": f"{folder}/timed"},
        "time": "time",
        "pane": "1 hour",
        "ledger": f"sqlite:///{folder}/any.db",
        "summaries": {"flights": {"keys": ["origin"], "indicators": ["delay"]}},
    }
    stored = {"ledger": shared, "checkpoint": f"{folder}/checkpoint"}
    for name, more in {"flights": {}, "shared": stored}.items():
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(entries | more), encoding="utf-8")
    north = read(ROOT / "examples" / "sites" / "north.yaml", "").data
    north["sites"]["coordinator"] = address
    (folder / "north.yaml").write_text(yaml.safe_dump(north), encoding="utf-8")


def prepare_sites(folder, setenv):
    entries = read(ROOT / "examples" / "sites" / "coordinator.yaml", "").data
    entries |= {"port": 0, "state": str(folder / "coordinator.state")}
    (folder / "coordinator.yaml").write_text(yaml.safe_dump(entries), encoding="utf-8")
    for name in ("NORTH_TOKEN", "SOUTH_TOKEN"):
        setenv(name, TOKEN)


@contextlib.contextmanager
def stored(folder):
    """A ledger's address in a PostgreSQL that has a certificate, as docs/ledger.md has one."""
    trust = trustme.CA()
    trust.cert_pem.write_to_path(folder / "store.pem")
    server = PostgresServer()
    server.encrypt(trust.issue_cert("127.0.0.1"))
    server.start()
    try:
        yield server.url(ca=folder / "store.pem")
    finally:
        server.close()


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
