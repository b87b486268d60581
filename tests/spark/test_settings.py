"""Our settings are defaults: what was said elsewhere stands."""

import sys
from types import SimpleNamespace

import pytest

from muntin.errors import SpecError
from muntin.spark import settings
from muntin.spark.checkpoint import checkpoint_beside
from muntin.spark.session import own_python
from muntin.spark.settings import said_outside, settings_for, worker_python
from muntin.spark.stream import is_log_taken


@pytest.fixture(autouse=True)
def nothing_said(monkeypatch, tmp_path):
    for name in ("PYSPARK_GATEWAY_PORT", "PYSPARK_SUBMIT_ARGS", "SPARK_REMOTE", "PYSPARK_PYTHON"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    return monkeypatch


def test_nobody_has_said_anything():
    found = settings_for({})
    assert found["spark.master"] == "local[*,4]"
    assert found["spark.driver.host"] == "127.0.0.1"
    assert found["spark.python.daemon.module"] == "muntin.spark.daemon"
    assert found["spark.sql.session.timeZone"] == "UTC"


@pytest.mark.parametrize("master", ["spark://somewhere:7077", "yarn", "k8s://https://api"])
def test_loopback_is_no_default_where_executors_must_call_back(master):
    found = settings_for({"spark.master": master})
    assert found["spark.master"] == master
    assert "spark.driver.host" not in found
    assert "spark.driver.bindAddress" not in found
    assert "spark.python.daemon.module" in found


@pytest.mark.parametrize("shipped", ["spark.submit.pyFiles", "spark.archives"])
def test_the_daemon_of_pyspark_starts_where_the_package_comes_with_the_job(shipped):
    found = settings_for({"spark.master": "yarn", shipped: "muntin.zip"})
    assert "spark.python.daemon.module" not in found


def test_what_was_submitted_stands_and_the_pipeline_stands_above_it(nothing_said, tmp_path):
    (tmp_path / "spark-defaults.conf").write_text(
        "# ours\nspark.master  yarn\nspark.driver.memory=3g\nspark.ui.enabled : true\n"
    )
    nothing_said.setenv(
        "PYSPARK_SUBMIT_ARGS",
        "--conf spark.sql.shuffle.partitions=64 --conf 'spark.ui.enabled=false' "
        "--master spark://here:7077 pyspark-shell",
    )
    assert said_outside() == {
        "spark.master": "spark://here:7077",
        "spark.driver.memory": "3g",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "64",
    }
    found = settings_for({"spark.ui.enabled": "true"})
    assert found["spark.ui.enabled"] == "true"
    assert not found.keys() & {"spark.master", "spark.driver.memory", "spark.driver.host"}
    assert "spark.sql.shuffle.partitions" not in found
    assert found["spark.driver.maxResultSize"] == "1024m"


@pytest.mark.parametrize(
    ("machine", "memory", "results"),
    [(4 << 30, "2048m", "682m"), (24 << 30, "6144m", "2048m"), (1 << 40, "8192m", "2730m")],
)
def test_what_results_may_take_fits_the_drivers_memory(nothing_said, machine, memory, results):
    nothing_said.setattr(settings, "_machine_bytes", lambda: machine)
    found = settings_for({})
    assert found["spark.driver.memory"] == memory
    assert found["spark.driver.maxResultSize"] == results


def test_the_python_of_tasks(nothing_said):
    assert worker_python({}) == sys.executable
    nothing_said.setenv("PYSPARK_PYTHON", "/usr/bin/python3")
    assert worker_python({}) == "/usr/bin/python3"
    assert worker_python({"spark.pyspark.python": "./env/bin/python"}) == "./env/bin/python"


def test_a_session_elsewhere_is_only_told_how_to_read(nothing_said):
    nothing_said.setenv("SPARK_REMOTE", "sc://there")
    assert settings_for({"spark.sql.x": "1"}) == {**settings.READING, "spark.sql.x": "1"}


def test_a_checkpoint_that_an_older_process_still_writes_to_is_known_by_its_error():
    assert is_log_taken(
        Exception(
            "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: Concurrent "
            "update to the log. Multiple streaming jobs detected for 85 SQLSTATE: XXKST"
        )
    )
    assert is_log_taken(Exception("[CONCURRENT_STREAM_LOG_UPDATE] ..."))
    assert is_log_taken(
        Exception(
            "[STREAM_FAILED] Query [id = 3] terminated with exception: Multiple streaming queries "
            "are concurrently using file:/tmp/flights.db.checkpoints/flights/sources/0. "
        )
    )
    assert not is_log_taken(Exception("[STREAM_FAILED] terminated with exception: disk full"))


@pytest.mark.parametrize("url", ["/data/a.db", "sqlite:////data/a.db?busy=3"])
def test_a_checkpoint_is_beside_the_ledgers_file_however_that_is_named(url):
    assert checkpoint_beside(url, "orders") == "/data/a.db.checkpoints/orders"


def test_a_ledger_without_a_folder_needs_a_checkpoint_and_says_how():
    with pytest.raises(SpecError, match=r"write  checkpoint: /var/lib/muntin/orders  for example"):
        checkpoint_beside("postgresql://muntin@db/flights", "orders")


def test_past_batches_are_kept_only_for_who_looks_at_them():
    kept = "spark.sql.ui.retainedExecutions"
    assert int(settings_for({})[kept]) < 100
    assert kept not in settings_for({"spark.ui.enabled": "true"})
    assert settings_for({kept: "7"})[kept] == "7"


def test_blocks_of_two_threads_leave_the_python_of_the_users_session():
    """The one that began first ended first: the other went on with `python3`, and left its own."""
    conf = SimpleNamespace(get=lambda _: None)
    context = SimpleNamespace(pythonExec="python3", master="local[2]", getConf=lambda: conf)
    spark = SimpleNamespace(sparkContext=context, _jsparkSession=None)
    first, second = own_python(spark), own_python(spark)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert context.pythonExec == sys.executable
    second.__exit__(None, None, None)
    assert context.pythonExec == "python3"
