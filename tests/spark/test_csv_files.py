"""Files of CSV and lines of JSON: what is no record, and files that are not alike."""

from __future__ import annotations

import gzip
import random
from functools import partial

import pyarrow.csv as pacsv
import pytest

import muntin
from muntin.errors import SourceError
from muntin.ledger.temporary import temporary
from muntin.spark.file_starts import form_of, wrong_start
from muntin.spark.json_lines import passed_over
from muntin.spec import SourceSpec
from tests.pipeline.support import content, events, pipeline, run

ROWS = [
    (
        at / 10,
        random.Random(at).choice([None, "b", "é,é", "d d"]),
        at % 4,
        at % 11 - 5,
        at * 3 if at % 5 else None,
    )
    for at in range(4000)
]


def ddl_of(spark, table):
    types = spark.createDataFrame(table).schema
    return ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in types)


@pytest.mark.spark
@pytest.mark.parametrize("separator", [",", "\t"])
def test_lines_that_are_not_records_are_kept_with_their_places(spark, tmp_path, separator):
    table = events(ROWS)
    path = tmp_path / "orders.csv"
    pacsv.write_csv(table, path, pacsv.WriteOptions(delimiter=separator))
    lines = path.read_text().splitlines()
    header = lines[0].split(separator)
    broken = {
        17: "cut",
        900: separator.join("x" * len(header)),
        2500: separator.join("1" * (len(header) + 3)),
        3000: separator + separator.join("1" * (len(header) - 1)),  # no time
    }
    for number, text in broken.items():
        lines[number - 1] = text
    path.write_text("\n".join(lines) + "\n")
    source = SourceSpec(format="csv", path=str(path), schema=ddl_of(spark, table), sep=separator)
    spec = of(source)
    found = muntin.summarize(path, spec, ledger=temporary(), progress=False)
    kept = {record.raw: record for _, record in found.ledger.rejected(spec.name)}
    assert len(kept) == len(broken)
    for number, text in list(broken.items())[:3]:
        assert kept[text.encode()].place == f"{path}, row {number - 1}"
    assert found.progress.counted == len(ROWS) - len(broken)
    whole = [row for at, row in enumerate(ROWS) if at + 2 not in broken]
    held = type("Holder", (), {"ledger": found.ledger, "pipeline": pipeline()})
    with run(pipeline(), [[events(whole)]], ended=True) as clean:
        assert content(held) == content(clean)


def of(source):
    return pipeline().model_copy(update={"source": source})


FORM = {"names": ["t", "k", "v"], "first": ["t", "k", "v"], "separator": ",", "comment": "#",
        "encoding": "utf-8"}  # fmt: skip


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("t,k,v", ""),
        ("\n\n# of today\nt,k,v", ""),
        ("\ufefft,k,v\r", ""),
        ('T,"k",V', ""),
        ("time,key,value", ""),  # other names in the same places: the schema says what they are
        ("t,k,v,z", ""),  # each line has a field too many, and is malformed
        ("v,k,t", "'v' is column 1 there, column 3 of the source"),
        ("t,z,k,v", "'k' is column 3 there, column 2 of the source"),
        ("2024-01-01,a,1", "the file has no header"),
        ("", ""),
    ],
)
def test_headers_are_compared_by_place(tmp_path, line, wrong):
    for name in ("a.csv", "a.csv.gz", "a"):
        text = f"{line}\nx".encode()
        (tmp_path / name).write_bytes(gzip.compress(text) if name.endswith("gz") else text)
        found = wrong_start(str(tmp_path / name), FORM)
        assert (wrong in found) if wrong else not found
    assert wrong_start(str(tmp_path / "gone.csv"), FORM) == ""
    assert wrong_start("s3a://bucket/a.csv", FORM) == ""


@pytest.mark.parametrize("written", ["\t", r"\t", "||", r"\\", "~|~"])
def test_headers_are_taken_apart_by_any_separator_of_spark_s(tmp_path, written):
    separator = {r"\t": "\t", r"\\": "\\"}.get(written, written)
    for name, columns in (("a.csv", ["t", "k", "v"]), ("b.csv", ["k", "t", "v"])):
        (tmp_path / name).write_text(separator.join(columns) + "\n")
    source = SourceSpec(format="csv", path=str(tmp_path), sep=written)
    form = form_of(source, ["t", "k", "v"], [str(tmp_path / "a.csv"), str(tmp_path / "b.csv")])
    assert form["first"] == ["t", "k", "v"]
    assert wrong_start(str(tmp_path / "a.csv"), form) == ""
    assert "'k' is column 1 there" in wrong_start(str(tmp_path / "b.csv"), form)


def test_files_without_a_header_lose_no_row(tmp_path):
    """Spark would pass over the first of each, without a word."""
    (tmp_path / "a.csv").write_text("2024-01-01,a,1\n2024-01-01,b,2\n")
    source = SourceSpec(format="csv", path=str(tmp_path), schema="t string, k string, v bigint")
    files = [str(tmp_path / "a.csv")]
    with pytest.raises(SourceError, match="begins with '2024-01-01,a,1': write  header: false"):
        form_of(source, ["t", "k", "v"], files)
    for columns in ("t,2024-01-01,2024-01-02", "1,2,3", "time,key,value"):
        (tmp_path / "a.csv").write_text(f"{columns}\n2024-01-01,a,1\n")
        assert form_of(source, ["t", "k", "v"], files)["first"] == columns.split(",")


@pytest.mark.parametrize(
    ("line", "several"),
    [
        ('{"a": 1}{"a": 2}', True),
        ('{"a": 1}  {"a": 2}', True),
        ('{"a": "}{"}', False),
        ('[{"a": 1}, {"a": 2}]', False),
        ('{"a": 1},', False),
        ('{"a": ', False),
        ("", False),
    ],
)
def test_several_values_in_a_line_are_seen(tmp_path, line, several):
    (tmp_path / "a.json").write_text(line + "\n")
    assert bool(list(passed_over(str(tmp_path / "a.json"), 0, len(line) + 1, set()))) == several


@pytest.mark.spark
@pytest.mark.parametrize("schema", [None, "time timestamp, driver string, served bigint"])
def test_files_that_a_source_leaves_out_have_no_header(spark, tmp_path, schema):
    folder, ledger, streamed = tmp_path / "data", temporary(), temporary()
    folder.mkdir()
    (folder / "a.txt").write_text("2024-01-01,of all that follows\n")
    (folder / "b.csv").write_text("time,driver,served\n2026-01-01T00:00:00Z,a,1\n")
    (folder / "c.txt").write_text("served,time\n1,2\n")
    source = {"format": "csv", "path": str(folder), "schema": schema, "pathGlobFilter": "*.csv"}
    summaries = {"m": {"keys": ["driver"], "indicators": ["served"]}}
    spec = pipeline(source=source, summaries=summaries, queries={})
    muntin.summarize(None, spec, ledger=ledger)
    stream = muntin.stream(None, spec, ledger=streamed, checkpoint=str(tmp_path / "c"), once=True)
    stream.await_termination(300)
    for each in (ledger, streamed):
        asked = "SELECT driver, served FROM m(driver) FOR ALL"
        assert muntin.Session(each).sql(asked).rows == [["a", 1]]


@pytest.mark.spark
def test_columns_in_another_order_are_rejected_not_mixed_up(spark, tmp_path):
    """Spark goes by place: areas were counted as drivers."""
    orders = "2023-11-14 22:13:20,a,b,1,5", "2023-11-14 22:13:20,b,a,1,5"
    header = "time,driver,area,served,fare"
    folder = tmp_path / "orders"
    folder.mkdir()
    (folder / "1.csv").write_text("\n".join([header, *orders]))
    (folder / "2.csv").write_text("\n".join(["time,area,driver,served,fare", *orders]))
    (folder / "3.csv").write_text("\n".join(orders))
    ddl = "time timestamp, driver string, area string, served bigint, fare bigint"
    spec = of(SourceSpec(format="csv", path=str(folder), schema=ddl))
    stream = muntin.stream(
        None, spec, ledger=temporary(), checkpoint=str(tmp_path / "checkpoint"), once=True
    )
    assert stream.await_termination(300)
    with pytest.warns(UserWarning, match="3 of 5 records were rejected"):
        batch = muntin.summarize(None, spec, ledger=temporary())
    for found in (batch, stream):
        assert (found.progress.read, found.progress.counted) == (5, 2)
        rejected = {record.place: record for _, record in found.ledger.rejected("orders")}
        whys = {place.rpartition("/")[2]: record.detail for place, record in rejected.items()}
        assert "'area' is column 2 there, column 3" in whys["2.csv, row 1"]
        assert "the file has no header: it begins with '2023-11-14 22" in whys["3.csv, row 1"]
        assert b'"driver": "b"' in rejected[f"{folder}/2.csv, row 2"].raw
    without = of(SourceSpec(format="csv", path=str(folder)))
    for read in (muntin.summarize, partial(muntin.stream, checkpoint=str(tmp_path / "other"))):
        with pytest.raises(SourceError, match=r"2\.csv: its header is 'time,area,driver"):
            read(None, without, ledger=temporary())
