"""Options of sources: which Spark has, and what is said of one that is close to them."""

import logging
from operator import attrgetter

import pytest

from muntin.spark.options import KNOWN, mistyped
from muntin.spark.source import check_source
from muntin.spec import SourceSpec


@pytest.mark.parametrize(
    ("form", "name", "meant"),
    [
        ("csv", "heder", "header"),
        ("csv", "shema", "schema"),
        ("json", "multiLines", "multiLine"),
        ("parquet", "maxFilePerTrigger", "maxFilesPerTrigger"),
        ("kafka", "startingOffset", "startingOffsets"),
    ],
)
def test_the_option_that_is_meant_is_named(form, name, meant):
    source = SourceSpec(format=form, **{name: "1"})
    assert [*mistyped(source)] == [f"source.{name}: no option of {form}; did you mean '{meant}'?"]


@pytest.mark.parametrize(
    "source",
    [
        {"format": "csv", "HEADER": "false", "xyz": "1", "fs.s3a.heder": "1"},
        {"format": "kafka", "kafka.bootstrap.server": "1"},
        {"format": "org.example.Source", "heder": "1"},
    ],
)
def test_what_may_be_right_is_left(source):
    assert not [*mistyped(SourceSpec(**source))]


def test_it_is_told_and_the_source_is_read(caplog, tmp_path, monkeypatch):
    monkeypatch.setattr("muntin.spark.source.check_startable", lambda: None)
    (tmp_path / "a.csv").write_text("a\n1\n")
    with caplog.at_level(logging.WARNING, "muntin.spark"):
        check_source(SourceSpec(format="csv", path=str(tmp_path / "a.csv"), heder="false"))
    assert caplog.messages == ["source.heder: no option of csv; did you mean 'header'?"]


@pytest.mark.spark
@pytest.mark.parametrize(
    ("form", "place"),
    [
        ("csv", "catalyst.csv.CSVOptions"),
        ("json", "catalyst.json.JSONOptions"),
        ("parquet", "execution.datasources.parquet.ParquetOptions"),
    ],
)
def test_all_that_spark_says_it_has_are_known(spark, form, place):
    options = attrgetter(f"org.apache.spark.sql.{place}")(spark._jvm).getAllOptions()
    names = {name for name in options.mkString(" ").split() if "." not in name}
    assert names <= set(KNOWN[form].split())
