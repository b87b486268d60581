"""CSV read by Arrow: each line once, as Spark reads it, or put aside for Spark."""

from __future__ import annotations

import gzip
import random
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import muntin
from muntin.errors import SourceError
from muntin.ledger.temporary import temporary
from muntin.spark import csv_files, csv_reading
from muntin.spark.csv_lines import lines_of
from muntin.spark.csv_reading import Format, read_lines
from muntin.spark.file_starts import wrong_start
from muntin.spark.json_lines import passed_over
from muntin.spark.partials import CORRUPT_COLUMN
from muntin.spark.places import FILE_COLUMNS
from muntin.spark.source import batch_source
from muntin.spec import SourceSpec
from tests.pipeline.support import content, events, pipeline

# -- lines

PIECES = ["a", "1", '"', '"x"', '""', ",", ",", "\n", "\r\n", "\r", " ", "\\", "0x1", "é", "\0"]


@settings(max_examples=300)
@given(st.lists(st.sampled_from(PIECES), max_size=40).map("".join), st.sampled_from('\\"'))
def test_lines_are_found_as_python_finds_them(text, escape):
    data = np.frombuffer(text.encode(), np.uint8)
    lines = lines_of(data, 2, ",", escape)
    expected, at = [], 0
    for number, line in enumerate(text.encode().split(b"\n")):
        if any(byte > 32 for byte in line):
            expected.append((at, min(at + len(line) + 1, len(data)), number))
        at += len(line) + 1
    found = zip(lines.begins.tolist(), lines.ends.tolist(), lines.numbers.tolist(), strict=True)
    assert list(found) == expected
    assert lines.total == text.count("\n") + bool(text and not text.endswith("\n"))


@pytest.mark.parametrize(("line", "plain"), [
    ("a,b", True), ("a,", True), (",", True), ('"a","b"', True), ('"a,b",c', True),
    ("a,b\r", True), ('"a","b"\r', True), ("-0,00", True), ("é,ü", True), ("a b,c", True),
    ("a", False), ("a,b,c", False), ('"a"b,c', False), ('a"b,c', False), ('"",b', False),
    ('"a', False), ('"a,b', False), (" a,b", False), ("a,b ", False), ('" a",b', False),
    ("a\\,b", False), ('"a\\"",b', False), ('"a""b",c', False), ("a\rb,c", False),
    ("0x1,b", False), ("-0X1,b", False), ("a\0,b", False), ("\ta,b", False),
])  # fmt: skip
def test_plain_lines(line, plain):
    for before, after in (("", ""), ("x,y\n", "x,y\n"), ("\n", " \n")):
        text = f"{before}{line}\n{after}"
        lines = lines_of(np.frombuffer(text.encode(), np.uint8), 2, ",", "\\")
        assert lines.plain[1 if "x" in before else 0] == plain


def test_a_quote_that_is_doubled_is_plain_where_that_is_its_escape():
    data = np.frombuffer(b'"a""b",c\n"""a",c\n', np.uint8)
    assert lines_of(data, 2, ",", '"').plain.tolist() == [True, False]


# -- shares


@settings(max_examples=60)
@given(
    texts=st.lists(st.lists(st.integers(0, 99), max_size=30), min_size=1, max_size=3),
    workers=st.integers(1, 7),
    chunk=st.integers(1, 40),
    end=st.sampled_from(["\n", "\r\n"]),
    header=st.booleans(),
)
def test_each_line_is_in_one_share(tmp_path_factory, texts, workers, chunk, end, header):
    folder = tmp_path_factory.mktemp("csv")
    expected = []
    for number, values in enumerate(texts):
        rows = ["\n \nx,y"] * header + [f"{value},{at}" for at, value in enumerate(values)]
        text = end.join(rows) + (end if number % 2 else "")
        (folder / f"{number}.csv").write_text(text, newline="")
        first = text.count("\n", 0, text.find("y")) + 2 if header else 1
        expected += [
            (value, at, f"{folder}/{number}.csv, line {first + at}")
            for at, value in enumerate(values)
        ]
    files = csv_files.plain_files(str(folder))
    form = Format(("x", "y"), pa.schema({"x": pa.int32(), "y": pa.int64()}))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_files, "FIRST_CHUNK_BYTES", chunk)
        patch.setattr(csv_files, "CHUNK_BYTES", chunk)
        found = []
        whole = [csv_files.whole_of(file, header=header) for file in files or []]
        for share in csv_files.shares_of(whole, workers):
            aside = csv_files._Aside()
            for batch, place in csv_files._placed(form, share, aside):
                rows = zip(*batch.to_pydict().values(), strict=True)
                found += [(*row, place(at)) for at, row in enumerate(rows)]
            assert not aside.files
    assert found == expected


# -- real Spark

TEXTS = {
    "int": ["1", "-5", "007", "+3", "1.0", "2147483648", "x", "0x1F", '"4"', "1e3", "--1", "٣"],
    "bigint": ["1", "9223372036854775807", "9223372036854775808", "-0", "1_000"],
    "string": ["a", '"a,b"', '"a""b"', 'a"b', '"a"b', "a\\,b", '"\\""', "é", "null", "NULL", "#a"],
    "double": ["1", "1.5", "nan", "NaN", "inf", "Inf", "1e400", "1e-400", ".5", "1.", "1d", "1,5"],
    "boolean": ["true", "FALSE", "tRue", "True", "0", "1", "yes", "t"],
    "date": ["2020-01-31", "2020-02-30", "2020-1-1", "2020-01-01 00:00", "0001-01-01", "20200101"],
    "timestamp": [
        "2020-01-01", "2020-01-01 10:00:00", "2020-01-01T10:00:00", "2020-01-01T10:00:00.123456",
        "2020-01-01T10:00:00.1234567", "2020-01-01 10:00:00Z", "2020-01-01T10:00:00+02:00",
        "2020-01-01T10:00:00-0230", "2020-01-01 10:00", "2020-01-01 10", "2020-01-01 24:00:00",
        "2020-13-01", "2020-1-1 1:1:1", "2020", "1500-02-29 00:00:00", "2020-01-01T10:00Z",
        "2020-01-01T10+02", "2020-01-01T10:00:00 UTC", "1582-10-10 00:00:00", "0000-01-01",
        "2020-01-01T10:00:00+2", "2020-01-01T10:00:00z", "2020-01-01t10:00:00", "10000-01-01",
        "2020-01-01T10:00:00,5", "2020-01-01T10:00:00.", "2020-01-01T10:00:00+19:00",
    ],
}  # fmt: skip
ODD = ["", "", '""', " ", " 1", "1 ", '" 1"', '"']
DDL = ", ".join(f"c{at} {kind}" for at, kind in enumerate(TEXTS))


def some_text(seed: int, lines: int) -> str:
    """Lines of which about half are ordinary."""
    rng = random.Random(seed)
    found = []
    for _ in range(lines):
        odd = rng.random() ** 6
        fields = [
            rng.choice(ODD) if rng.random() < odd / 6 else rng.choice(texts[: 2 + int(odd * 40)])
            for texts in TEXTS.values()
        ]
        if rng.random() < 0.03:
            fields = fields[: rng.randrange(len(fields))] if rng.random() < 0.5 else [*fields, "z"]
        found.append(",".join(fields) + rng.choice(["", "", "", "\r", "\n", "\n  "]))
    return "\n".join(found)


def numbers(table):
    """Times as numbers: Python's end with the year 9999."""
    kinds = {pa.date32(): pa.int32(), pa.timestamp("us", "UTC"): pa.int64()}
    return table.cast(
        pa.schema([(field.name, kinds.get(field.type, field.type)) for field in table.schema])
    )


@pytest.mark.spark
@pytest.mark.parametrize("escape", ["\\", '"'])
def test_lines_are_read_as_spark_reads_them(spark, tmp_path, escape, monkeypatch):
    """Each row that is not put aside; and rows of usual texts are not."""
    monkeypatch.setattr(csv_reading, "FEW_LINES", 1)
    read = rows = 0
    for seed in range(2):
        text = some_text(seed, 1000)
        path = tmp_path / f"{seed}.csv"
        path.write_text(text, newline="")
        source = SourceSpec(format="csv", path=str(path), schema=DDL, header="false", escape=escape)
        df = batch_source(spark, source)
        table = df.toArrow()
        corrupt = table.column(CORRUPT_COLUMN).to_pylist()
        table = table.drop_columns([n for n in (CORRUPT_COLUMN, *FILE_COLUMNS) if n in df.columns])
        form = Format(tuple(table.column_names), table.schema, escape=escape)
        data = np.frombuffer(text.encode(), np.uint8)
        lines, doubtful = lines_of(data, len(TEXTS), ",", escape), []
        if "\r" not in text.replace("\r\n", ""):
            assert len(lines.numbers) == table.num_rows
        expected = numbers(table).to_pylist()
        for batch, which in read_lines(form, data, lines, doubtful):
            for row, index in zip(numbers(batch).to_pylist(), which.tolist(), strict=True):
                line = data[lines.begins[index] : lines.ends[index]].tobytes()
                assert repr(row) == repr(expected[index]), line
                assert corrupt[index] is None, line
            read += len(which)
        assert sorted(doubtful) == sorted(set(doubtful))
        rows += table.num_rows
    assert read > rows / 5


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


def state(found):
    return content(type("Holder", (), {"ledger": found.ledger, "pipeline": pipeline()}))


@pytest.mark.spark
@pytest.mark.parametrize("kind", ["path", "source", "tabs"])
def test_the_ledger_is_that_of_spark(spark, tmp_path, kind, monkeypatch):
    """The same panes, and the same records rejected, each with its line."""
    monkeypatch.setattr(csv_files, "FIRST_CHUNK_BYTES", 2000)
    separator = "\t" if kind == "tabs" else ","
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
    options = {"sep": separator} if separator != "," else {}
    source = SourceSpec(format="csv", path=str(path), schema=ddl_of(spark, table), **options)
    spec = of(source)
    by_arrow = muntin.summarize(
        path if kind == "path" else None, spec, ledger=temporary(), progress=False
    )
    df = batch_source(spark, source)
    by_spark = muntin.summarize(df, spec, ledger=temporary(), progress=False)
    assert state(by_arrow) == state(by_spark)
    kept = {r.raw: r for _, r in by_arrow.ledger.rejected(spec.name)}
    assert {r.raw: (r.reason, r.detail) for r in kept.values()} == {
        r.raw: (r.reason, r.detail) for _, r in by_spark.ledger.rejected(spec.name)
    }
    assert len(kept) == len(broken)
    for number, text in list(broken.items())[:3]:
        assert kept[text.encode()].place == f"{path}, line {number}"
    assert by_arrow.progress.counted == len(ROWS) - len(broken)


def of(source):
    return pipeline().model_copy(update={"source": source})


@pytest.mark.spark
@pytest.mark.parametrize("changed", [
    pytest.param(lambda text: text.replace("\n", " \n"), id="spaces"),
    pytest.param(lambda text: text.replace("\n", "\r"), id="old line ends"),
])  # fmt: skip
def test_lines_of_which_many_are_not_plain_are_read_by_spark(spark, tmp_path, caplog, changed):
    caplog.set_level("INFO", "muntin.spark")
    path = tmp_path / "orders.csv"
    table = events(ROWS[:1000])
    pacsv.write_csv(table, path)
    head, _, rest = path.read_text().partition("\n")
    path.write_text(head + "\n" + changed(rest), newline="")
    spec = of(SourceSpec(format="csv", path=str(path), schema=ddl_of(spark, table)))
    found = muntin.summarize(None, spec, ledger=temporary(), progress=False)
    assert "read by Spark" in caplog.text
    df = batch_source(spark, spec.source)
    expected = muntin.summarize(df, spec, ledger=temporary(), progress=False)
    assert state(found) == state(expected)
    assert found.progress.read == 1000


def test_headers_that_end_otherwise_are_left_to_spark(tmp_path):
    """Where lines end with carriage returns only, the first would be the whole file."""
    path = tmp_path / "old.csv"
    path.write_text("x,y\r1,2\r3,4\r", newline="")
    with pytest.raises(csv_files.GaveUpError):
        csv_files.whole_of(str(path), header=True)
    path.write_text("x,y\r\n1,2\r\n", newline="")
    assert csv_files.whole_of(str(path), header=True) == csv_files.Range(str(path), 5, 10)


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
    assert bool(list(passed_over(str(tmp_path / "a.json"), 0, len(line) + 1))) == several


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
    for run in (muntin.summarize, partial(muntin.stream, checkpoint=str(tmp_path / "other"))):
        with pytest.raises(SourceError, match=r"2\.csv: its header is 'time,area,driver"):
            run(None, without, ledger=temporary())
