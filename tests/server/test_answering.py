"""Answers as bytes: piece by piece they are what `Result` writes whole, and never more."""

from __future__ import annotations

import datetime as dt
import decimal
import tempfile

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muntin.errors import LedgerError, SelectError
from muntin.ledger.temporary import temporary
from muntin.select.result import Result, WindowRead
from muntin.server import answering
from muntin.server.answering import (
    Answering,
    Question,
    arrow_pieces,
    error_data,
    error_of,
    json_pieces,
    within,
)
from muntin.server.problems import RefusalError, problem, status_of
from muntin.server.reader import Reader
from tests.disks import small_disk

COLUMNS = [
    (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    (pa.float64(), st.floats()),
    (pa.string(), st.text(max_size=20)),
    (pa.bool_(), st.booleans()),
    (pa.timestamp("us", "UTC"), st.datetimes(dt.datetime(1, 1, 2), dt.datetime(9999, 12, 30))),
    (pa.decimal128(38, 0), st.integers(-(10**37), 10**37).map(decimal.Decimal)),
    (pa.date32(), st.dates()),
]


@st.composite
def results(draw):
    rows = draw(st.integers(0, 30))
    kinds = draw(st.lists(st.sampled_from(COLUMNS), max_size=4))
    arrays = [
        pa.array(draw(st.lists(st.none() | v, min_size=rows, max_size=rows)), t) for t, v in kinds
    ]
    names = [f'c{i} \u00e9"' for i in range(len(arrays))]
    read = WindowRead("s", "ALL", (0, 60_000_000))
    table = pa.Table.from_arrays(arrays, names=names)
    return result_of(table, windows=(read,), watermark=1_700_000_000_000_001, exact=False)


def result_of(table, **about):
    """A result of which this much is said, and the rest as of nothing."""
    said = {
        "windows": (), "watermark": None, "revision": 0, "exact": True, "bounds": {}, "notes": (),
        "late": 0, "stale": False, "seconds": 0.0,
    }  # fmt: skip
    return Result(table, **said | about)


@given(results(), st.integers(1, 12))
def test_json_in_pieces_is_the_json(result, piece_values):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(answering, "PIECE_VALUES", piece_values)
        assert b"".join(json_pieces(result)) == result.to_json().encode()


@given(results())
def test_arrow_in_pieces_is_the_stream(result):
    found, whole = pa.ipc.open_stream(b"".join(arrow_pieces(result))).read_all(), result.to_arrow()
    assert found.schema.equals(whole.schema, check_metadata=True)
    assert str(found.to_pylist()) == str(whole.to_pylist())  # NaN is like no other


def test_no_piece_holds_the_whole():
    table = pa.table({"n": range(100_000), "m": range(100_000)})
    sizes = [len(piece) for piece in json_pieces(result_of(table))]
    assert max(sizes) < sum(sizes) / 10


def test_nothing_is_made_beyond_the_limit():
    made = []

    def pieces():
        for number in range(1000):
            made.append(number)
            yield b"x" * 10

    with pytest.raises(RefusalError) as refused:
        list(within(55, pieces()))
    assert refused.value.code == "too_large"
    assert len(made) == 6
    assert b"".join(within(10_000, pieces())) == b"x" * 10_000


def test_an_answer_that_the_disk_has_no_room_for_is_refused(tmp_path, monkeypatch):
    class Long(Answering):
        def long(self):
            yield bytes(2 * answering.INLINE_BYTES)

    long = Long(Reader(temporary()))
    with small_disk(tmp_path, "64k") as disk:
        monkeypatch.setattr(tempfile, "tempdir", str(disk))
        with pytest.raises(RefusalError, match=rf"answer in {disk}: No space left") as refused:
            long.answer(Question("long", {}, 1 << 30))
    assert (refused.value.status, refused.value.remedy) == (503, "free space there, or add LIMIT")


@pytest.mark.parametrize("error", [
    SelectError("no column", code="unknown_column", text="SELECT x", position=7, length=1,
                remedy="columns: y"),
    RefusalError(503, "busy", "too many", "later"),
    LedgerError("it is gone"),
])  # fmt: skip
def test_errors_read_the_same_from_another_process(error):
    again = error_of(error_data(error))
    assert (problem(again), status_of(again)) == (problem(error), status_of(error))


def test_a_bug_in_another_process_is_a_bug_here():
    assert status_of(error_of(error_data(ZeroDivisionError()))) == 500
