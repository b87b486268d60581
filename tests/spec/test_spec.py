"""The pipeline file: what is right is kept, what is wrong is named with its line."""

import contextlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muntin.errors import SpecError
from muntin.spec import Pipeline, SourceSpec

GOOD = """\
name: flights
source: {format: parquet, path: data/flights/, mergeSchema: true}
time: date
pane: 1 hour
lateness: 1 day
summaries:
  flights:
    kind: vector_matrix
    keys: [origin, destination, [origin, destination]]
    indicators: [delay, distance]
    capacity: 100000
    window: {kind: floating, length: 1 day}
queries:
  busiest: {select: "SELECT origin, count FROM flights(origin)", on: window}
"""


def read(tmp_path, text):
    path = tmp_path / "p.yaml"
    path.write_text(text)
    return Pipeline.of(path)


def test_file_and_python_give_the_same_object(tmp_path):
    found = read(tmp_path, GOOD)
    assert found == Pipeline.of(
        {
            "name": "flights",
            "source": {"format": "parquet", "path": "data/flights/", "mergeSchema": True},
            "time": "date",
            "pane": "1 hour",
            "lateness": "1 day",
            "summaries": {
                "flights": {
                    "keys": ["origin", "destination", ("origin", "destination")],
                    "indicators": ["delay", "distance"],
                    "capacity": 100000,
                    "window": {"kind": "floating", "length": "1 day"},
                }
            },
            "queries": {"busiest": "SELECT origin, count FROM flights(origin)"},
        }
    )
    assert Pipeline.from_json(found.as_json()) == found
    assert found.ledger_url == "sqlite:///flights.db"
    assert found.source.options == {"mergeSchema": "true"}


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ("lateness", "latness", 5, "did you mean 'lateness'"),
        ("capacity", "capacty", 11, "did you mean 'capacity'"),
        ("length: 1 day", "lenght: 1 day", 12, "length"),
        ("pane: 1 hour", "pane: 1 huor", 4, "not a duration"),
        ("pane: 1 hour", "pane: 0", 4, "duration"),
        ("length: 1 day", "length: 90 minutes", 12, "whole number of panes"),
        ("kind: vector_matrix", "kind: matrix", 7, "unknown kind 'matrix'; did you mean 'vector"),
        ("{kind: floating, length: 1 day}", "1 day", 12, "takes entries of its own (kind, length"),
        ("[origin, destination, [origin, destination]]", "origin", 9, "takes a list, [...], not"),
        ("indicators: [delay", "indicators: [{a: delay}", 10, "names of columns, not {'a'"),
        ("indicators: [delay", "indicators: [7", 10, "names of columns, not 7;"),
        ("capacity: 100000", "capacity: many", 11, "takes a whole number, not 'many'"),
        ("capacity: 100000", "capacity: -1", 11, "greater than or equal to 1"),
        ("[origin, destination, [", "[origin, origin, [", 9, "stands twice"),
        ("[origin, destination, [origin, destination]]", "[[origin, origin]]", 9, "stands twice"),
        ("[origin, destination, [", "[[destination, origin], [", 7, "is [destination, origin] on"),
        ("[origin, destination, [", "[origin, Count, [", 7, "'Count' is a column of the answers"),
        ("[origin, destination, [", "[origin, delay, [", 7, "'delay' is a key and an indicator"),
        (
            "[origin, destination, [",
            "[origin, Origin, [",
            9,
            "'Origin' and 'origin' differ in",
        ),
        ("[delay, distance]", "[delay, Delay]", 7, "'Delay' and 'delay' differ in case only"),
        ("name: flights", "name: Flights!", 1, "is not a name"),
        ("kind: floating", "kind: hopping", 12, "floating"),
        (
            "{kind: floating, length: 1 day}",
            "{kind: sliding, length: 1 day, every: 1 ms}",
            12,
            "in 86,400,000 windows, of at most 10,080",
        ),
        ("on: window", "on: monday", 14, "window"),
        ("time: date", "time: {column: date, unit: week}", 3, "us"),
        ("summaries:", "summarys:", 6, "did you mean 'summaries'"),
        ("pane: 1 hour", "pane: 1 hour\npane: 2 hours", 5, "pane: stands twice, first in line 4"),
        ("path: data/flights/", "path: a, path: b", 2, "path: stands twice"),
        ("keys:", "kind: top_k\n    keys:", 9, "kind: stands twice, first in line 8"),
        ("queries:", "retention: {panes: 1 minute}\nqueries:", 13, "shorter than a pane of 1 hour"),
        ("queries:", "spark: {shuffle.partition: 4}\nqueries:", 13, "begin with spark."),
    ],
)
def test_what_is_wrong_is_named_with_its_line(tmp_path, old, new, line, message):
    with pytest.raises(SpecError) as problem:
        read(tmp_path, GOOD.replace(old, new, 1))
    text = str(problem.value)
    assert message in text
    assert "\n" not in text
    column = GOOD.replace(old, new, 1).splitlines()[line - 1]
    found = re.search(rf"p\.yaml:{line}:(\d+): ", text)
    assert found is not None, text
    assert column[int(found[1]) - 1] not in " {,"


@pytest.mark.parametrize(
    ("old", "new", "line", "place"),
    [
        ("name: flights", 'name: "\\ud800"', 1, "name"),
        ("data/flights/", '"\\ud800"', 2, "source.path"),
        ("\n  flights:", '\n  "\\ud800":', 6, "summaries"),
        ("[origin, destination]]", '["\\udfff", destination]]', 9, "summaries.flights.keys"),
        ("SELECT origin", "SELECT '\\ud800'", 14, "queries.busiest.select"),
        ("lateness", '"\\ud83d"', 1, "an entry's name"),
    ],
)
def test_half_a_character_is_named_with_its_line(tmp_path, old, new, line, place):
    with pytest.raises(SpecError) as wrong:
        read(tmp_path, GOOD.replace(old, new, 1))
    assert f"p.yaml:{line}:" in str(wrong.value)
    assert f": {place}: " in str(wrong.value)
    assert "holds half a character" in str(wrong.value)
    str(wrong.value).encode()


def test_half_a_character_in_keywords():
    with pytest.raises(SpecError, match=r"summaries.a.keys: '\\ud800' holds half"):
        Pipeline(name="p", summaries={"a": {"keys": ["\ud800"]}})


def test_a_pipeline_from_keywords_says_what_is_wrong_in_one_line():
    entries = {"name": "f", "time": "t", "pane": "1 hour", "summaries": {"s": {"keys": ["a"]}}}
    assert Pipeline(**entries) == Pipeline.of(entries)
    for wrong, said in (
        ({"pane": "1 huor"}, "pane: '1 huor' is not a duration"),
        ({"summaries": {"s": {"key": ["a"]}}}, "summaries.s.key: unknown entry; did you mean"),
        ({"tiem": "t"}, "tiem: unknown entry; did you mean 'time'?"),
        ({"retention": {"panes": "1 s"}}, "retention.panes: 1 second is shorter than a pane"),
    ):
        with pytest.raises(SpecError) as problem:
            Pipeline(**(entries | wrong))
        assert said in str(problem.value)
        assert "\n" not in str(problem.value)
    with pytest.raises(SpecError, match=r"Pipeline\.of"):
        Pipeline(entries)


def test_the_name_of_a_file_tells_its_format():
    entries = {"name": "f", "time": "t", "pane": "1 hour", "summaries": {"s": {"keys": ["a"]}}}
    for path, form in (("a.parquet", "parquet"), ("a/b.JSON", "json"), ("a.jsonl", "json")):
        found = Pipeline(**entries, source={"path": path}).source
        assert found is not None
        assert found.format == form
    with pytest.raises(SpecError, match="format"):
        Pipeline(**entries, source={"path": "a.txt"})


def test_a_path_may_begin_with_the_users_own_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    found = read(tmp_path, GOOD.replace("data/flights/", "~/flights/"))
    assert found.source.path == f"{tmp_path}/flights/"
    for path in ("~nobody-of-this-name/x", "./~/x", "s3a://bucket//~/x"):
        assert SourceSpec(format="csv", path=path).path == path


def test_spark_settings_may_be_numbers(tmp_path):
    more = "spark: {spark.sql.shuffle.partitions: 4, spark.ui.enabled: true}\nqueries:"
    found = read(tmp_path, GOOD.replace("queries:", more))
    assert found.spark == {"spark.sql.shuffle.partitions": "4", "spark.ui.enabled": "true"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "mapping"),
        ("- a\n- b", "mapping"),
        ("a: [", "not YAML: .*; `muntin init DATA` writes one"),
        ("a: &x [1]\nb: *x", "aliases"),
        ("[" * 100, "nested"),
        ("a: !!python/object/apply:os.system ['true']", "not YAML"),
        ("\x00", "not YAML"),
    ],
)
def test_files_that_are_no_pipeline(tmp_path, text, message):
    with pytest.raises(SpecError, match=message):
        read(tmp_path, text)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(SpecError, match="no such file"):
        Pipeline.of(tmp_path / "none.yaml")


@given(st.data())
def test_damaged_files_give_a_pipeline_or_a_spec_error(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("fuzz") / "p.yaml"
    at = data.draw(st.integers(0, len(GOOD)))
    cut = data.draw(st.integers(0, 30))
    put = data.draw(st.text(max_size=10))
    path.write_text(GOOD[:at] + put + GOOD[at + cut :], encoding="utf-8", errors="replace")
    with contextlib.suppress(SpecError):
        assert Pipeline.of(path).summaries


@given(st.binary(max_size=300))
def test_any_bytes(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("fuzz") / "p.yaml"
    path.write_bytes(content)
    with pytest.raises(SpecError):
        Pipeline.of(path)
