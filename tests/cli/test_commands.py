"""The commands that need no Spark, as a user types them."""

import contextlib
import io
import json
import os
import re
import signal
import sqlite3
import sys
import tempfile
from importlib.metadata import version
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.csv as pcsv
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from muntin.cli import doctor
from muntin.cli.produce import options_of
from muntin.cli.run import check_rejected, print_progress
from muntin.cli.tables import rich_table
from muntin.errors import SourceError
from muntin.kinds import KINDS
from muntin.ledger.open import open_ledger
from muntin.ledger.sqlite import SqliteLedger
from muntin.progress import Progress
from muntin.spark import java
from muntin.spec import Pipeline
from tests.disks import remounted, small_disk
from tests.pipeline.support import events, pipeline, run

TIME = pa.timestamp("us", "UTC")
ROWS = [(s, "abc"[s % 3], s % 2, 1, s) for s in range(300)]


@pytest.fixture(scope="module")
def ledger(tmp_path_factory):
    url = f"sqlite:///{tmp_path_factory.mktemp('ledger')}/orders.db"
    bad = events(ROWS).set_column(0, "time", pa.array([None] * 300, TIME))
    with run(pipeline(), [[events(ROWS)], [bad.slice(0, 3)]], open_ledger(url)):
        pass
    return url


SELECT = "SELECT driver, count, fare FROM orders(driver) FOR ALL ORDER BY driver"


def test_query_json(muntin, ledger):
    code, out, _ = muntin("query", "--ledger", ledger, SELECT, "--format", "json")
    found = json.loads(out)
    assert code == 0
    assert found["columns"] == ["driver", "count", "fare"]
    assert found["rows"] == [["a", 100, 14850], ["b", 100, 14950], ["c", 100, 15050]]
    assert found["exact"] is True
    assert found["late"] == 0
    assert found["window"]["covered"]["start"] == "2023-11-14T22:13:20Z"
    assert {"watermark", "stale"} <= set(found)


def test_query_table_and_csv(muntin, ledger):
    _, out, _ = muntin("query", "-l", ledger, SELECT)
    assert "14,850" in out
    assert "exact" in out
    _, out, _ = muntin("query", "-l", ledger, SELECT, "-f", "csv")
    assert out.splitlines()[:2] == ["driver,count,fare", "a,100,14850"]


def test_a_pipe_gets_all_of_a_wide_and_long_table(muntin, tmp_path):
    wide = [(s, f"{'driver of a very long name, ' * 5}{s:04}", s % 2, 1, s) for s in range(1200)]
    url = f"sqlite:///{tmp_path}/wide.db"
    with run(pipeline(), [[events(wide)]], open_ledger(url)):
        pass
    select = "SELECT driver, driver AS again, count, fare FROM orders(driver) FOR ALL"
    _, out, _ = muntin("query", "-l", url, select)
    assert len(out.splitlines()) == 1200 + 3
    for number in (0, 1199):
        assert out.count(wide[number][1]) == 2
    assert "…" not in out


def test_a_narrow_terminal_cuts_no_number():
    console = Console(file=io.StringIO(), width=34)
    row = {"origin": ["JFK"], "count": [4122], "delay": [1234567.25], "from": ["2026-11-27T12:05"]}
    console.print(rich_table(pa.table(row)))
    said = console.file.getvalue()
    assert "4,122" in said
    assert "567.25" in said
    assert "…" not in said


def test_a_terminal_takes_no_orders_from_data():
    console = Console(width=80, force_terminal=True, file=io.StringIO())
    console.print(rich_table(pa.table({"a": ["[red]x[/]", "a\x1b[2Jb"]})))
    shown = console.file.getvalue()
    assert "[red]x[/]" in shown
    assert "\x1b[2J" not in shown


def test_query_gives_an_object_a_row(muntin, ledger):
    _, out, _ = muntin("query", "-l", ledger, SELECT, "-f", "jsonl")
    assert json.loads(out.splitlines()[0]) == {"driver": "a", "count": 100, "fare": 14850}


def test_tables_says_what_a_ledger_holds_and_how_to_ask_it(muntin, ledger):
    _, out, _ = muntin("tables", "-l", ledger, "-f", "jsonl")
    rows = {row["name"]: row for row in map(json.loads, out.splitlines())}
    assert rows["orders"]["kind"] == "vector_matrix"
    assert rows["orders"]["from"] == "2023-11-14T22:13:20Z"
    for name, row in rows.items():
        assert muntin("query", "-l", ledger, f"SELECT * FROM {row['ask']}")[0] == 0  # noqa: S608
        code, out, _ = muntin("tables", "-l", ledger, name, "-f", "jsonl")
        assert code == 0, name
        assert row["ask"] in {json.loads(line)["ask"] for line in out.splitlines()}
    code, out, _ = muntin("tables", "-l", ledger, "orders")
    assert code == 0
    assert "driver" in out
    assert "fare" in out
    code, _, err = muntin("tables", "-l", ledger, "ordres")
    assert code == 1
    assert "did you mean 'orders'?" in err


def test_a_wrong_statement_points_at_the_place(muntin, ledger):
    code, out, err = muntin("query", "-l", ledger, "SELECT drivr FROM orders(driver)")
    assert (code, out) == (1, "")
    assert "drivr" in err
    assert "^^^^^" in err
    assert "did you mean 'driver'?" in err


def test_a_ledger_that_is_not_there_is_not_made(muntin, tmp_path):
    code, _, err = muntin("query", "-l", f"sqlite:///{tmp_path}/none.db", SELECT)
    assert code == 1
    assert "none.db" in err
    assert not (tmp_path / "none.db").exists()


def test_rejected_shows_records_and_reasons(muntin, ledger):
    code, out, _ = muntin("rejected", "-l", ledger)
    assert code == 0
    assert "3 of 303 events rejected" in out
    assert "3 of them are kept: no_time 3\n" in out
    assert "--limit" not in out
    _, out, _ = muntin("rejected", "-l", ledger, "--limit", "2")
    assert out.endswith("the 2 oldest of those that are kept; --after 2 the next\n")
    _, out, _ = muntin("rejected", "-l", ledger, "--limit", "2", "--after", "2")
    assert re.findall("^ +([0-9]) ", out, re.MULTILINE) == ["3"]
    assert "--after" not in out
    _, out, _ = muntin("rejected", "-l", ledger, "--limit", "2", "--newest")
    assert re.findall("^ +([0-9]) ", out, re.MULTILINE) == ["3", "2"]
    assert out.endswith("the 2 newest of those that are kept; --limit shows more\n")
    assert muntin("rejected", "-l", ledger, "--after", "3")[0] == 0


def test_rejected_for_programs_is_records_whole_and_nothing_else(muntin, tmp_path):
    url, driver = f"sqlite:///{tmp_path}/long.db", "d" * 1_000
    bad = events([(0, driver, 0, 1, 0)]).set_column(0, "time", pa.array([None], TIME))
    with run(spec := pipeline(), [[bad]], open_ledger(url)):
        pass
    code, out, err = muntin("rejected", "-l", url, "--format", "jsonl")
    assert (code, err) == (0, "")
    row = json.loads(out)
    assert json.loads(row.pop("record"))["driver"] == driver
    assert row.keys() == {"pipeline", "number", "reason", "detail", "where"}
    assert (row["pipeline"], row["number"], row["reason"]) == (spec.name, 1, "no_time")


def test_a_run_that_rejected_shows_no_password_of_its_ledger(capsys):
    spec = pipeline(ledger="postgresql://muntin:geheim@host/database", max_rejected=0.5)
    progress = Progress(read=4, rejected=1, counted=3)
    print_progress(spec, progress, 1.0)
    assert "muntin rejected --ledger postgresql://muntin:***@host" in capsys.readouterr().out
    progress.rejected = 3
    with pytest.raises(SourceError, match=r"postgresql://muntin:\*\*\*@host"):
        check_rejected(spec, progress)


def test_init_check_and_its_errors(muntin, tmp_path):
    data, out_file = tmp_path / "orders.parquet", tmp_path / "my p.yaml"
    pq.write_table(events(ROWS), data)
    code, out, err = muntin("init", data, "-o", out_file)
    assert (code, err) == (0, "")
    assert out.endswith(f"  muntin run '{out_file}' --once\n")
    made = Pipeline.of(out_file)
    assert made.time.column == "time"
    assert ("driver",) in made.summaries["orders"].keys
    assert "fare" in made.summaries["orders"].indicators
    assert muntin("check", out_file)[0] == 0
    code, _, err = muntin("init", data, "-o", out_file)
    assert code == 1
    assert "--force" in err
    wrong = out_file.read_text().replace("fare", "fair")
    out_file.write_text(wrong)
    code, _, err = muntin("check", out_file)
    assert code == 1
    assert "did you mean 'fare'" in err


@pytest.mark.parametrize("content", ["", "a,b\n", "time\nx\n"])
def test_init_on_data_without_anything_to_see(muntin, tmp_path, content):
    data = tmp_path / "d.csv"
    data.write_text(content)
    code, _, err = muntin("init", data, "-o", tmp_path / "p.yaml")
    assert code == 1
    assert str(data) in err or "no column" in err
    assert not (tmp_path / "p.yaml").exists()


def test_init_reads_csv(muntin, tmp_path):
    pcsv.write_csv(events(ROWS), tmp_path / "o.csv")
    assert muntin("init", tmp_path / "o.csv", "-o", tmp_path / "p.yaml")[0] == 0
    assert Pipeline.of(tmp_path / "p.yaml").source.format == "csv"


def test_init_looks_past_records_that_do_not_parse(muntin, tmp_path):
    """They would be rejected. Names may be words of SQL, and separators others than commas."""
    rows = (f"a{i % 3};2020-01-01 00:00:{i % 60:02};{i};1.5" for i in range(300))
    lines = ["order;at;n;big", *rows]
    lines[200] = "cut off"
    lines[250] = "b;2020-01-01 00:00:00;1;1.5;more"
    (tmp_path / "o.csv").write_text("\n".join(lines))
    assert muntin("init", tmp_path / "o.csv", "-o", tmp_path / "p.yaml")[0] == 0
    made = Pipeline.of(tmp_path / "p.yaml")
    assert made.source.options == {"sep": ";"}
    assert made.source.schema_ == "`order` string, `at` timestamp, `n` bigint, `big` double"
    assert made.time.column == "at"
    code, _, err = muntin("check", tmp_path / "p.yaml")
    assert (code, err) == (0, "")


def test_run_says_where_its_ledger_stands(muntin, tmp_path):
    code, _, err = muntin("run", tmp_path / "p.yaml", "--ledger", "redis://me:secret@host/0")
    assert code == 1
    assert "the pipeline file says where its ledger is" in err
    assert f"redis://me:***@host/0 into {tmp_path / 'p.yaml'}" in " ".join(err.split())


def test_doctor_names_what_is_wrong(muntin, monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    code, out, _ = muntin("doctor")
    assert code == 1
    assert "WRONG" in out
    assert "remedy:" in out
    assert str(tmp_path) in out
    command = tmp_path / "bin" / "java"
    command.parent.mkdir()
    said = 'Picked up JAVA_TOOL_OPTIONS: -Dx="21"\nopenjdk version "1.8.0_402"'
    command.write_text(f"#!/bin/sh\necho '{said}' >&2\n")
    command.chmod(0o755)
    _, out, _ = muntin("doctor")
    assert re.search("WRONG  Java 8 .*\n +remedy: .* and unset JAVA_HOME", out)


def test_doctor_names_a_cache_that_keeps_nothing(monkeypatch, tmp_path):
    with small_disk(tmp_path, "1m") as disk:  # room for little, and then for nothing
        monkeypatch.setenv("NUMBA_CACHE_DIR", str(disk))
        said = f"cache of compiled kernels: {disk}"
        for options, why in (("size=1m", "No space left on device"), ("ro", "Read-only")):
            remounted(disk, options)
            (found,) = (f for f in doctor.findings() if f[1].startswith(said))
            assert not found[0]
            assert why in found[1]
            assert str(disk) in found[2]


def test_doctor_names_folders_that_there_are_not(muntin, monkeypatch, tmp_path):
    """As in a container whose file system is read only, of a user who has no home."""
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", list)
    for name in ("HOME", "XDG_CACHE_HOME", "NUMBA_CACHE_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pwd.getpwuid", {}.__getitem__)
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    _, out, _ = muntin("doctor")
    for what, remedy in (
        ("working folder", "cd to"),
        ("temporary folder", "let TMPDIR name"),
        ("cache of compiled kernels", "let NUMBA_CACHE_DIR name"),
    ):
        assert re.search(f"WRONG  {what}.*\n +remedy: {remedy}", out), out


def test_doctor_shows_no_remedy_where_what_is_wrong_says_it(muntin, monkeypatch, tmp_path):
    url = f"sqlite:///{tmp_path}/flights.db"
    open_ledger(url).close()
    monkeypatch.setattr(SqliteLedger, "verify", lambda _: ["a.mseg is gone: restore it"])
    _, out, _ = muntin("doctor", "-l", url)
    assert "WRONG  a.mseg is gone: restore it" in out
    assert not re.search("remedy: *$", out, re.MULTILINE)


def test_doctor_looks_at_the_spark_that_would_start(muntin, monkeypatch, tmp_path):
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    assert f"WRONG  SPARK_HOME={tmp_path} holds no Spark\n" in muntin("doctor")[1]
    for there in ("bin/spark-submit", "jars/spark-core_2.12-3.5.1.jar"):
        (tmp_path / there).parent.mkdir()
        (tmp_path / there).touch()
    said = f"SPARK_HOME={tmp_path} holds Spark 3.5.1, and pyspark is {version('pyspark')}"
    assert f"WRONG  {said}\n       remedy: unset SPARK_HOME" in muntin("doctor")[1]
    java.check_java.cache_clear()
    with pytest.raises(SourceError, match=f"^{re.escape(said)}: unset SPARK_HOME"):
        java.check_java()


def test_doctor_goes_on_where_a_ledger_is_out_of_bounds(muntin, monkeypatch):
    def refused(*_, **__):
        raise PermissionError(13, "Permission denied", "theirs.db")

    monkeypatch.setattr("muntin.ledger.open.open_ledger", refused)
    _, out, _ = muntin("doctor", "--ledger", "theirs.db")
    assert "WRONG  ledger theirs.db cannot be opened\n       remedy: [Errno 13] Permission" in out


def test_doctor_imports_what_is_installed(monkeypatch):
    broken = "libfoo.so.1: cannot open shared object file"

    def missing(name):
        raise ImportError(broken)

    monkeypatch.setattr(doctor, "import_module", missing)
    found = [what for good, what, _ in doctor.findings() if not good]
    assert f"duckdb {version('duckdb')}: cannot be imported: {broken}" in found


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo 3.11 0.0.1", "Python 3.11 with Muntin 0.0.1"),
        ("echo \"ModuleNotFoundError: No module named 'muntin'\" >&2; exit 1", "named 'muntin'"),
    ],
)
def test_doctor_asks_the_python_that_workers_would_be(muntin, monkeypatch, tmp_path, script, said):
    other = tmp_path / "python3"
    other.write_text(f"#!/bin/sh\n{script}\n")
    other.chmod(0o755)
    monkeypatch.setenv("PYSPARK_PYTHON", str(other))
    code, out, _ = muntin("doctor")
    assert code == 1
    lines = out.splitlines()
    at = next(n for n, line in enumerate(lines) if f"PYSPARK_PYTHON={other}" in line)
    assert lines[at].startswith("WRONG")
    assert said in lines[at]
    assert lines[at + 1].strip() == f"remedy: export PYSPARK_PYTHON={sys.executable}"


def test_doctor_knows_the_bounds_of_what_is_installed(monkeypatch):
    bounds = ["uvicorn>=999", "nothing-of-this-name>=1", "matplotlib>=999; extra == 'notebook'"]
    monkeypatch.setattr(doctor, "requires", lambda name: bounds)
    found = {what.split(",")[0]: good for good, what, _ in doctor.findings()}
    assert found["nothing-of-this-name: not installed"] is False
    assert found[f"uvicorn {version('uvicorn')}"] is False
    assert not any("matplotlib" in what for what in found)


def test_doctor_reads_a_whole_ledger(muntin, tmp_path):
    path = tmp_path / "orders.db"
    ledger = f"sqlite:///{path}"
    with run(pipeline(), [[events(ROWS)]], open_ledger(ledger)):
        pass
    _, out, _ = muntin("doctor", "--ledger", ledger)
    assert "every payload and row is as it was written" in out
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE pieces SET payload = zeroblob(20)")
    code, out, _ = muntin("doctor", "--ledger", ledger)
    assert code == 1
    assert "remedy: restore the ledger from a backup" in out
    code, out, _ = muntin("doctor", "--ledger", f"sqlite:///{tmp_path}/none.db")
    assert code == 1
    assert out.count("none.db") == 2  # what is wrong, and as the remedy why
    assert "remedy: there is no ledger at" in out


MINUTES = [(s, "abc"[s % 3], s % 2, 1, s) for s in range(0, 86_400, 20)]


@pytest.mark.parametrize(
    ("lost", "entries", "said"),
    [
        ("id = (SELECT max(id) FROM pieces WHERE length = 10000000)", {},
         "and the pipeline has counted 4,320"),
        ("length = 600000000", {},
         "of 10 minutes from 2023-11-14T22:10:00Z its rollup holds 0 events, and its panes 20"),
        ("length = 10000000", {"retention": {"panes": "1 hour"}},
         "the window from 2023-11-15T21:12:20Z closed with 3 events, and its panes hold 0"),
    ],
)  # fmt: skip
def test_doctor_misses_rows_of_which_nothing_is_damaged(muntin, tmp_path, lost, entries, said):
    """As a copy of two moments does."""
    path = tmp_path / "orders.db"
    batches = [[events(MINUTES[at : at + 720])] for at in range(0, len(MINUTES), 720)]
    with run(pipeline(**entries), batches, open_ledger(f"sqlite:///{path}")):
        pass
    assert "every payload and row" in muntin("doctor", "--ledger", f"sqlite:///{path}")[1]
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"DELETE FROM pieces WHERE {lost}")  # noqa: S608
        connection.execute("DELETE FROM payloads WHERE piece NOT IN (SELECT id FROM pieces)")
    code, out, _ = muntin("doctor", "--ledger", f"sqlite:///{path}")
    assert code == 1
    assert f"{said}\n       remedy: restore the ledger from a backup" in out


def test_the_schema_for_editors_has_the_entries_of_every_kind(muntin):
    _, out, _ = muntin("check", "--schema")
    schema = json.loads(out)
    kinds = schema["properties"]["summaries"]["additionalProperties"]["anyOf"]
    assert len(kinds) == len(KINDS)
    listed = {name for entry in kinds for name in entry["properties"]}
    assert {"keys", "capacity", "sketch", "by", "gap"} <= listed
    assert muntin("check")[0] == 2


@pytest.mark.parametrize("rate", ["nan", "inf", "1e300"])
def test_a_rate_that_is_none_is_refused(muntin, rate):
    code, _, err = muntin("capacity", "p.yaml", "--rate", rate)
    assert (code, "--rate" in err) == (2, True)


def test_a_file_in_the_place_of_a_folder_is_told(muntin, tmp_path):
    (tmp_path / "a").touch()
    code, _, err = muntin("demo", "--replay", "--no-open", "--folder", tmp_path / "a")
    assert (code, err) == (1, f"error: {tmp_path}/a: File exists; it is a file: give a folder\n")


def test_help_is_whole_in_80_columns(muntin, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    for command in ("serve", "run", "init", "demo", "capacity", "simulate", "query", "export"):
        code, out, _ = muntin(command, "--help")
        assert code == 0
        assert "…" not in out, command


def test_help_names_every_command(muntin):
    code, out, _ = muntin("--help")
    assert code == 0
    for command in ("run", "query", "tables", "check", "init", "demo", "doctor", "rejected"):
        assert command in out


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("sasl.password=geheim", "write 'sasl.password=${env:NAME}'"),
        ("sasl.password=${env:MUNTIN_NONE}", "no such variable"),
        ("geheim", "an option is name=value"),
    ],
)
def test_produce_takes_no_secret_from_the_command_line(muntin, tmp_path, option, said):
    (tmp_path / "a.jsonl").write_text("{}")
    code, _, told = muntin("produce", str(tmp_path / "a.jsonl"), "-t", "orders", "-o", option)
    assert code == 1
    assert said in " ".join(told.split())
    assert "=geheim" not in told


def test_produce_names_a_broker_that_is_not_there(muntin, tmp_path):
    (tmp_path / "a.jsonl").write_text("{}")
    code, _, told = muntin("produce", tmp_path / "a.jsonl", "-t", "a", "--servers", "127.0.0.1:1")
    assert code == 1
    assert "no broker is there (127.0.0.1:1: " in " ".join(told.split())
    _, _, told = muntin("produce", tmp_path / "a.jsonl", "-t", "a", "--servers", "broker")
    assert "(broker: write host:port, such as localhost:9092)" in " ".join(told.split())


def test_produce_takes_secrets_from_the_environment(monkeypatch):
    monkeypatch.setenv("KAFKA_PASSWORD", "geheim")
    given = ["sasl.password=${env:KAFKA_PASSWORD}", "sasl.oauthbearer.token.endpoint.url=http://x"]
    assert options_of(given) == {
        "sasl.password": "geheim", "sasl.oauthbearer.token.endpoint.url": "http://x",
    }  # fmt: skip


def test_standard_input_that_is_no_text_is_told_in_a_line(muntin):
    code, _, told = muntin("query", "-", "--ledger", "memory://none", stdin=b"SELECT '\xff'")
    assert code == 1
    assert told.startswith("error: standard input: 'utf-8' codec can't decode byte 0xff")


def test_the_demo_with_kafka_says_what_is_missing_before_it_starts_anything(muntin, monkeypatch):
    monkeypatch.delitem(sys.modules, "confluent_kafka", raising=False)
    monkeypatch.setattr("muntin.errors.find_spec", lambda name: name != "confluent_kafka" or None)
    monkeypatch.setattr("muntin.cli.demo._kafka", lambda *_: pytest.fail("it was started"))
    code, _, told = muntin("demo", "--kafka")
    assert code == 1
    assert told.strip().endswith(
        "confluent_kafka, which is not installed: pip install 'muntin[kafka]'"
    )


@pytest.mark.parametrize(
    ("words", "refused"),
    [
        ("run p.yaml --port 1", "--port counts only with --serve"),
        ("run p.yaml --once --live", "--live counts only without --once"),
        (
            "export s out --ledger sqlite:///l --catalog c",
            "--catalog counts only with --to iceberg",
        ),
        ("demo --replay --kafka", "--kafka counts only without --replay"),
        ("demo --replay --drivers 5", "--drivers counts only with --taxi"),
        ("demo --orders 5", "--orders counts only with --taxi or --kafka"),
        ("demo --kafka --speed 1h", "--speed counts only without --replay and --kafka"),
        ("demo --sites 2 --taxi", "--sites counts only with flights"),
        ("check p.yaml --schema", "pipeline counts only without --schema"),
        ("produce f.csv -t t --seed 2", "--seed counts only with taxi"),
        ("index build f.csv -k a -o out --error 0.1", "--error counts only with --rank"),
        ("simulate top-k --site-column s", "--site-column counts only with a file as --stream"),
        ("simulate top-k -s traffic --affinity 1", "--affinity counts only with --stream zipf"),
        ("simulate top-k -s f.csv --objects 9", "--objects counts only with a made stream"),
        ("simulate top-k -p lsa --objective bytes", "--objective counts only with --policy hybrid"),
    ],
)
def test_an_option_that_would_do_nothing_is_refused(muntin, words, refused):
    code, out, err = muntin(*words.split())
    assert (code, out) == (1, "")
    assert err.startswith(f"error: {refused}")
    assert err.count("\n") == 1


def test_a_file_that_changed_while_spark_started_is_taken_over(muntin, monkeypatch, tmp_path):
    file = tmp_path / "p.yaml"
    file.write_text(
        "{name: p, source: {format: rate}, time: timestamp, pane: 1 s, "
        "summaries: {o: {keys: [value]}}}"
    )
    taken = []

    def started(*_, **__):
        read_at = file.stat().st_mtime_ns
        file.write_text(file.read_text().replace("1 s", "2 s"))
        os.utime(file, ns=(read_at, read_at))  # as where a file system's clock has not moved on
        return SimpleNamespace(
            ingest=True, ending=None, stop=lambda: None, reconfigure=taken.append,
            pipeline=Pipeline.of(file), progress=Progress(),
        )  # fmt: skip

    def follow(_, tick, **__):
        tick()  # it has changed
        tick()
        kept = file.rename(tmp_path / "kept")
        tick()  # it is away for a moment
        kept.rename(file)
        tick()  # and as it was

    monkeypatch.setattr("muntin.stream", started)
    monkeypatch.setattr("muntin.cli.view.follow", follow)
    monkeypatch.setattr("muntin.cli.run.stop_spark", lambda: None)
    code, _, err = muntin("run", file)
    assert (code, taken) == (0, [file]), err
    assert err.count("taken over, as it is now") == 1


@pytest.mark.parametrize(("words", "status"), [(["--once"], 128 + signal.SIGTERM), ([], 0)])
def test_only_what_was_to_take_all_there_is_fails_where_it_was_stopped(
    muntin, monkeypatch, tmp_path, words, status
):
    file = tmp_path / "p.yaml"
    file.write_text(
        "{name: p, source: {format: rate}, time: timestamp, pane: 1 s, "
        "summaries: {o: {keys: [value]}}}"
    )
    stream = SimpleNamespace(
        ingest=True, ending=lambda: None, stop=lambda: None,
        pipeline=Pipeline.of(file), progress=Progress(),
    )  # fmt: skip
    monkeypatch.setattr("muntin.stream", lambda *_, **__: stream)
    monkeypatch.setattr(
        "muntin.cli.view.follow", lambda *_, **__: os.kill(os.getpid(), signal.SIGTERM)
    )
    monkeypatch.setattr("muntin.cli.run.stop_spark", lambda: None)
    code, out, _ = muntin("run", file, *words)
    assert code == status
    assert "events a second" in out
