"""Run by the Python of an environment that has Muntin's core and nothing else."""

import io
import sys
from contextlib import redirect_stderr, redirect_stdout
from importlib.util import find_spec
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import muntin
from muntin import cli
from muntin.errors import MissingExtra
from muntin.summaries import Distinct

FOLDER = Path(sys.argv[1])
SPEC = {
    "name": "flights", "time": "time", "pane": "1 hour",
    "summaries": {"flights": {"keys": ["origin"], "indicators": ["delay"]}},
}  # fmt: skip
SELECT = "SELECT origin, count, delay FROM flights(origin) FOR ALL ORDER BY origin"


def ran(*words: str) -> tuple[int, str]:
    """Exit status of a command, and what it has printed."""
    told, sys.argv[1:] = io.StringIO(), list(words)
    try:
        with redirect_stdout(told), redirect_stderr(told):
            cli.main()
    except SystemExit as end:
        return int(end.code or 0), told.getvalue()
    return 0, told.getvalue()


def refused(call: object, *arguments: object) -> str:
    try:
        call(*arguments)
    except MissingExtra as problem:
        return str(problem)
    raise AssertionError("was not refused")


def main() -> None:
    for name in ("pyspark", "pandas", "confluent_kafka", "matplotlib", "polars", "pygwire"):
        assert find_spec(name) is None, name
    times = pa.array([1357017300, 1357019999, 1357020000], pa.timestamp("s"))
    table = pa.table({"time": times, "origin": ["EWR", "JFK", "EWR"], "delay": [1, 2, 4]})
    ledger = f"sqlite:///{FOLDER}/kept.db"
    with muntin.summarize(table, SPEC, ledger=ledger) as session:
        result = session.sql(SELECT)
        assert result.rows == [["EWR", 2, 5], ["JFK", 1, 2]]
        assert result.exact
        assert refused(result.to_pandas).endswith("pip install 'muntin[notebook]'")
        assert refused(result.plot).endswith("pip install 'muntin[notebook]'")
    sketch = Distinct(12)
    sketch.update(pa.array(["a", "b", "a"]))
    assert sketch.estimate().value.round() == 2

    assert ran("query", "--ledger", ledger, "--format", "csv", SELECT)[1].splitlines()[1:] == [
        "EWR,2,5",
        "JFK,1,2",
    ]
    file = FOLDER / "flights.parquet"
    pq.write_table(table, file)
    status, told = ran("init", str(file), "--output", str(FOLDER / "pipeline.yaml"))
    assert status == 0, told
    status, told = ran("check", str(FOLDER / "pipeline.yaml"))
    assert status == 0, told
    assert "Spark: not installed" in ran("doctor")[1]
    assert refused(muntin.summarize, str(file), SPEC).endswith("pip install 'muntin[spark]'")
    assert refused(muntin.register, None).endswith("pip install 'muntin[spark]'")
    for words, extra in (
        (("run", str(FOLDER / "pipeline.yaml")), "spark"),
        (("index", "build", str(file), "-k", "origin", "-o", str(FOLDER / "index")), "spark"),
        (("demo",), "demo"),
        (("demo", "--taxi"), "spark"),
        (("demo", "--kafka"), "kafka"),
        (("produce", str(file), "--topic", "orders"), "kafka"),
        (("serve", "--ledger", ledger, "--port", "0", "--postgres", "127.0.0.1:0"), "postgres"),
    ):
        status, told = ran(*words)
        (line,) = told.strip().splitlines()
        assert status == 1, (words, told)
        assert line.startswith("error: "), (words, told)
        assert line.endswith(f"pip install 'muntin[{extra}]'"), (words, told)
    serve(ledger)


def serve(ledger: str) -> None:
    """The server in this process, and the client."""
    from muntin.cli.serve import beside
    from muntin.ledger.open import open_ledger

    server = beside(open_ledger(ledger), 0, show=False)
    try:
        with muntin.connect(server.url) as client:
            assert client.sql(SELECT).rows == [["EWR", 2, 5], ["JFK", 1, 2]]
    finally:
        server.stop()


main()
