"""A summary in shards holds and answers what it would without: every kind, in random batches."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from muntin.assembly import cutting, maintenance
from muntin.errors import LedgerError, SelectError, SpecError
from muntin.ledger.files import PayloadFolder
from muntin.ledger.sqlite import SqliteLedger
from muntin.ledger.temporary import temporary
from muntin.segments import decode
from muntin.segments.building import build
from muntin.segments.shards import hash_range
from muntin.segments.sums import Sums
from muntin.session import Session
from muntin.spark import runs
from tests.pipeline.support import content, run
from tests.pipeline.test_kinds import in_pieces, pipeline, some_rows, table

TUMBLING = {"kind": "tumbling", "length": "1 minute"}
SUMMARIES: dict[str, dict[str, Any]] = {
    "rows": {
        "keys": ["tail", ["origin", "dest"]], "indicators": ["seats", "delay"], "capacity": 9,
        "window": {"kind": "floating", "length": "1 minute"},
    },
    "delays": {"kind": "quantiles", "value": "delay", "by": "tail", "k": 2000, "window": TUMBLING},
    "few": {"kind": "quantiles", "value": "delay", "by": "tail", "limit": 7, "k": 2000},
    "calls": {"kind": "frequency", "item": "dest", "by": ["origin", "dest"], "limit": 20},
    "top": {"kind": "top_k", "item": "dest", "by": "origin"},
    "planes": {"kind": "distinct", "item": "tail", "by": "dest", "limit": 30},
    "seen": {"kind": "fingerprint", "key": "tail", "capacity": 1000},
    "sums": {"keys": ["dest"], "indicators": ["seats"], "sketch": {"width": 64, "depth": 2}},
}  # fmt: skip
QUERIES = {"most": "SELECT tail, count, seats FROM rows(tail) ORDER BY count DESC, tail LIMIT 3"}
ASKED = (
    "SELECT * FROM rows(tail) FOR ALL",
    "SELECT * FROM rows(origin, dest) FOR LAST '2 minutes'",
    "SELECT * FROM quantiles(delays, 0.5) FOR ALL",
    "SELECT * FROM quantiles(few, 0.1) FOR ALL",
    "SELECT * FROM top_k(calls, 3) FOR ALL",
    "SELECT * FROM distinct(planes) FOR ALL",
)


def _rows(result: Any) -> list[str]:
    return sorted(map(repr, result.rows))


def spec(shards: int | None, **more: Any) -> Any:
    entries = {"shards": shards} if shards else {}
    made = pipeline({name: {**one, **entries} for name, one in SUMMARIES.items()}, QUERIES)
    return made.model_copy(update=more)


@contextmanager
def cut_early(which: str) -> Iterator[None]:
    """Cut and write to files what is far from large: all of it, or some."""
    small = which == "all"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cutting, "CUT_BYTES_MIN", 0 if small else 2_500)
        patch.setattr(cutting, "FILE_BYTES_MIN", 0 if small else 400)
        patch.setattr(runs, "RUN_BYTES_MAX", 1_000)
        yield


@given(
    rows=st.integers(1, 250),
    seed=st.integers(0, 1000),
    micro=st.lists(st.integers(1, 250), max_size=3),
    parts=st.lists(st.integers(1, 250), max_size=2),
    shards=st.sampled_from([2, 16, 1024]),
    late=st.booleans(),
)
@example(rows=1, seed=0, micro=[], parts=[], shards=2, late=False)  # most shards have no row
@settings(
    max_examples=5,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
)
def test_shards_change_nothing(
    rows: int, seed: int, micro: Any, parts: Any, shards: int, late: bool
) -> None:
    flown = some_rows(rows, seed=seed, seconds=200)
    if late:  # some minutes, so that their panes are rolled up
        flown = [*flown[20:], *flown[:20]]
    batches = [in_pieces(part, parts) for part in in_pieces(table(flown), micro)]
    with run(spec(None), batches) as whole:
        held, ask = content(whole), Session(whole.ledger)
        assert whole.ledger.verify() == []
        told = {statement: ask.sql(statement) for statement in ASKED}
        for which in ("all", "some"):
            with cut_early(which), run(spec(shards), batches) as sharded:
                assert content(sharded) == held, which
                assert sharded.ledger.verify() == []
                ask_sharded = Session(sharded.ledger)
                for statement, one in told.items():
                    found = ask_sharded.sql(statement)
                    assert _rows(one) == _rows(found), (which, statement)
                    assert (one.exact, one.bounds, one.late) == (
                        found.exact, found.bounds, found.late,
                    )  # fmt: skip


def test_pieces_hold_their_shard_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cutting, "CUT_BYTES_MIN", 0)
    batches = [[part] for part in in_pieces(table(some_rows(800)), [300, 500])]
    with run(spec(16), batches) as ingest:
        ledger = ingest.ledger
        for length in (ingest.pipeline.pane, *ingest.pipeline.rungs):
            pieces = ledger.pieces("rows", length)
            assert len({piece.shard for piece in pieces}) == 16
            assert min(piece.shard for piece in pieces) == 16
            for piece in pieces:
                segment = decode(ledger.payloads([piece.id])[piece.id])
                assert segment.shard == piece.shard
                first, last = hash_range(piece.shard)
                for part in segment.tables:
                    assert first <= int(part.keys.hashes[0]) <= int(part.keys.hashes[-1]) <= last


def test_more_shards_later_and_none_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces of different cuts lie side by side."""
    monkeypatch.setattr(cutting, "CUT_BYTES_MIN", 0)
    batches = [[part] for part in in_pieces(table(some_rows(600, seconds=250)), [200, 400])]
    ledger = temporary()
    for number, shards in enumerate((None, 4, 32)):
        with run(spec(shards), [], ledger) as ingest:
            from tests.pipeline.support import gather

            ingest.take(number, gather(batches[number]))
    with run(spec(None), batches) as whole, run(spec(32), [], ledger) as sharded:
        assert content(whole)[0] == content(sharded)[0]


def test_runs_and_what_was_replaced_are_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cutting, "CUT_BYTES_MIN", 0)
    monkeypatch.setattr(cutting, "FILE_BYTES_MIN", 0)
    ledger = SqliteLedger(tmp_path / "x.db")
    batches = [[part] for part in in_pieces(table(some_rows(600)), [200, 300, 400])]
    with run(spec(4), batches, ledger) as ingest:
        (folder,) = (tmp_path / "x.db.payloads").iterdir()
        assert not list(folder.glob("run-*"))
        assert ingest._maintenance.sweep(age_us=-1_000_000) > 0
        pieces = [p for n in SUMMARIES for m in (ingest.pipeline.pane, *ingest.pipeline.rungs)
                  for p in ledger.pieces(n, m)]  # fmt: skip
        assert len(list(folder.iterdir())) == len(pieces)
        asked = Session(ledger).sql(ASKED[0]).rows
        assert ingest._maintenance.sweep(age_us=-1_000_000) == 0
        lost = sorted(folder.glob("rows-*"))
        for file in lost:
            file.rename(f"{file}.away")
        with pytest.raises(SelectError, match=r"payload file .* is gone"):
            Session(SqliteLedger(tmp_path / "x.db")).sql(ASKED[0])
        for file in lost:
            Path(f"{file}.away").rename(file)
        assert Session(SqliteLedger(tmp_path / "x.db")).sql(ASKED[0]).rows == asked


@pytest.mark.parametrize("payloads", ["", "memory://shards"])
def test_files_are_deleted_where_no_summary_has_shards_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, payloads: str
) -> None:
    monkeypatch.setattr(cutting, "CUT_BYTES_MIN", 0)
    monkeypatch.setattr(cutting, "FILE_BYTES_MIN", 0)
    ledger = SqliteLedger(tmp_path / "x.db")
    batches = [[part] for part in in_pieces(table(some_rows(600)), [200, 300, 400])]
    with run(spec(4, payloads=payloads), batches, ledger):
        asked = Session(ledger).sql(ASKED[0]).rows
    with run(spec(None, payloads=payloads), [], ledger) as without:
        assert without._maintenance.sweep(age_us=-1_000_000) > 0
        assert Session(SqliteLedger(tmp_path / "x.db")).sql(ASKED[0]).rows == asked


@pytest.mark.parametrize("which", ["all", "some"])
def test_half_a_file_of_a_task_is_named(which: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it lies, and not only what is wrong with some segment."""
    read = PayloadFolder.read_part
    monkeypatch.setattr(
        PayloadFolder,
        "read_part",
        lambda self, path, begin, size: read(self, path, begin, size // 2),
    )
    batch = [in_pieces(table(some_rows(250)), [90])]
    told = r"/.*/run-.*\.mseg: from byte \d+ on it is not what a task of this batch has written"
    with cut_early(which), pytest.raises(LedgerError, match=told), run(spec(2), batch):
        pass


def test_what_is_too_large_together_is_not_merged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces that could not be stored as one stay as they are, and answers add them up."""
    monkeypatch.setattr(maintenance, "TOGETHER_BYTES_MAX", 1)
    batches = [[part] for part in in_pieces(table(some_rows(90, seconds=5)), [30, 60])]
    at_once = [[table(some_rows(90, seconds=5))]]
    with run(spec(None), batches) as ingest, run(spec(None), at_once) as whole:
        assert len(ingest.ledger.pieces("rows", ingest.pipeline.pane)) == 3
        one, other = (Session(each.ledger).sql(ASKED[0]) for each in (ingest, whole))
        assert _rows(one) == _rows(other)


def test_equal_rows_of_millions_of_panes_are_read_again() -> None:
    """They take no bytes, and of so few bytes no more than some panes at once are believed."""
    panes, keys = 2_000_000, {"k": pa.array(np.zeros(2_000_000, np.int64))}
    ones = pa.array(np.ones(panes, np.int64))
    made = build(Sums((("x", "int64"),)), np.arange(panes), [ones], [("k",)], keys)
    cutter = runs.Runs(cutting.Cutting("s", 2))
    cutter.add(made)
    cutter._cut()
    assert sum(decode(payload).rows for _, payload in cutter._sections) == panes


def test_shards_must_be_a_power_of_two() -> None:
    for shards in (0, 1, 3, 2048, -2):
        with pytest.raises(SpecError, match=r"shards: give a power of two, 2 to 1024"):
            spec(shards or 0) if shards else pipeline({"a": {"keys": ["tail"], "shards": 0}})
