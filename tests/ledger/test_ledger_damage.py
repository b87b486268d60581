"""Files that are not, or no longer, a ledger of this version: refused, named, left as they are."""

from __future__ import annotations

# ruff: noqa: S608  table names are the test's own
import random
import sqlite3
from contextlib import closing

import pytest
from ledger_helpers import PANE, SPEC, batch, held, partial, roll

from muntin.errors import LedgerError, SelectError
from muntin.ledger import Batch, ClosedWindow, Rejected, State, TrendPoint, open_ledger
from muntin.ledger.schema import PAGE_BYTES, TABLES
from muntin.ledger.sqlite import SqliteLedger
from muntin.session import Session
from tests.disks import remounted, small_disk
from tests.pipeline.support import events, pipeline, run


@pytest.fixture
def filled(tmp_path):
    """A ledger file with a row in every table."""
    path = tmp_path / "x.db"
    ledger = SqliteLedger(path)
    writer = ledger.open_writer("p", SPEC, query_id="A")
    writer.commit(
        Batch(
            "A",
            0,
            [partial("s", 0, list(range(200))), partial("s", 50, [7])],
            [State("t", 0, b"state" * 100)],
            [Rejected("malformed", "detail", "place", b"{}")],
            read=202,
            counted=201,
            rejected_count=1,
            watermark=40,
        )
    )
    roll(ledger, writer, "s", 40, 0)
    writer.commit(batch(1, partial("s", 10, [800]), into=ledger))
    writer.drop_before("s", PANE, 40)
    closed = ClosedWindow("s", 0, 40, "full", 0, False, 2, 0, {"k": 1}, 1)
    writer.close_windows([closed], [TrendPoint("q", 0, 40, 0, b"trend" * 100)], {"T": 1})
    ledger.ask("p", "slow_down", {})
    ledger.close()
    return path


def payloads_of(ledger):
    return ledger.payloads([p.id for length in (PANE, 40) for p in ledger.pieces("s", length)])


READS = {
    "pieces": lambda ledger: [ledger.pieces("s", length) for length in (PANE, 40)],
    "states": lambda ledger: ledger.states("t"),
    "trends": lambda ledger: ledger.trend("q"),
    "windows": lambda ledger: ledger.windows(),
    "rejected": lambda ledger: list(ledger.rejected("p")),
    "documents": lambda ledger: ledger.assembler("p"),
    "commands": lambda ledger: ledger.commands("p", waiting=False),
    "pipelines": lambda ledger: ledger.pipelines(),
    "coverage": lambda ledger: ledger.coverage("s"),
    "dropped": lambda ledger: ledger.horizon("s", PANE),
    "payloads": lambda ledger: payloads_of(ledger),
    "batches": lambda ledger: ledger.open_writer("p", SPEC, query_id="A").commit(batch(2)),
    "names": lambda ledger: ledger.open_writer("p", SPEC, query_id="A"),
}


@pytest.mark.parametrize("name", READS)
def test_a_changed_value_is_refused_and_its_row_named(filled, name):
    table = next(one for one in TABLES if one.name == name)
    column = "payload" if table.payload else table.columns[-1]
    connection = sqlite3.connect(filled)
    value = connection.execute(f"SELECT {column} FROM {name} ORDER BY 1 LIMIT 1").fetchone()[0]
    if isinstance(value, bytes):
        wrong = bytes([value[0] ^ 1]) + value[1:]
    elif isinstance(value, int):
        wrong = value + 1
    else:
        wrong = '{"changed":1}'
    connection.execute(f"UPDATE {name} SET {column} = ? WHERE {column} IS ?", (wrong, value))
    connection.commit()
    connection.close()
    ledger = SqliteLedger(filled)
    with pytest.raises(LedgerError, match=f"x.db: the row of table {name} with .* is damaged"):
        READS[name](ledger)
    assert any(f"table {name}" in found for found in ledger.verify())
    ledger.close()


def test_every_flipped_payload_bit_is_refused(filled):
    connection = sqlite3.connect(filled, isolation_level=None)
    rows = connection.execute("SELECT id, payload FROM pieces WHERE length = 10").fetchall()
    ledger = SqliteLedger(filled)
    chance = random.Random(5)
    for identifier, payload in rows:
        for bit in chance.sample(range(8 * len(payload)), min(40, 8 * len(payload))):
            damaged = bytearray(payload)
            damaged[bit // 8] ^= 1 << bit % 8
            statement = "UPDATE pieces SET payload = ? WHERE id = ?"
            connection.execute(statement, (bytes(damaged), identifier))
            with pytest.raises(LedgerError, match=f"id {identifier}"):
                ledger.pieces("s", PANE, 0, 100)
            connection.execute(statement, (payload, identifier))
    assert ledger.verify() == []
    ledger.close()
    connection.close()


def test_flipped_bits_anywhere_raise_nothing_but_ledger_errors(filled):
    """What a read returns is right, or verify() tells."""
    whole = filled.read_bytes()
    ledger = SqliteLedger(filled)
    truth = _everything(ledger)
    ledger.close()
    chance = random.Random(6)
    for _ in range(150):
        damaged = bytearray(whole)
        bit = chance.randrange(8 * len(whole))
        damaged[bit // 8] ^= 1 << bit % 8
        filled.write_bytes(damaged)
        try:
            ledger = SqliteLedger(filled)
        except LedgerError:
            continue
        try:
            assert _everything(ledger) == truth or ledger.verify()
        except LedgerError:
            pass
        finally:
            ledger.close()


def _everything(ledger):
    return [
        ledger.pieces("s", PANE), ledger.pieces("s", 40), payloads_of(ledger),
        ledger.coverage("s"), ledger.windows(), ledger.trend("q"), ledger.pipelines(),
        list(ledger.rejected("p")), ledger.commands("p"), ledger.assembler("p"),
    ]  # fmt: skip


def test_a_newer_version_asks_to_upgrade(filled):
    with sqlite3.connect(filled) as connection:
        connection.execute("PRAGMA user_version = 6")
    connection.close()
    before = filled.read_bytes()
    with pytest.raises(LedgerError, match=r"x.db is a ledger of format 6, .* up to 5: upgrade"):
        SqliteLedger(filled)
    assert filled.read_bytes() == before


def test_an_older_version_says_what_to_do(filled):
    with sqlite3.connect(filled) as connection:
        connection.execute("PRAGMA user_version = 1")
    connection.close()
    before = filled.read_bytes()
    with pytest.raises(LedgerError, match=r"x.db is a ledger of format 1, .* delete it and run"):
        SqliteLedger(filled)
    assert filled.read_bytes() == before


def test_foreign_files_are_left_alone(tmp_path):
    text = tmp_path / "text.db"
    text.write_bytes(b"not a database, but longer than a header " * 100)
    other = tmp_path / "other.db"
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE mine (x)")
    connection.close()
    for path, match in ((text, "not a ledger"), (other, "of another application")):
        before = path.read_bytes()
        with pytest.raises(LedgerError, match=match):
            SqliteLedger(path)
        assert path.read_bytes() == before
    assert sorted(one.name for one in tmp_path.iterdir()) == ["other.db", "text.db"]


def test_missing_folders_and_files_are_named_and_not_made(tmp_path):
    for url, create, match in (
        (f"sqlite:///{tmp_path}/none/x.db", True, "folder .*none of ledger x.db does not exist"),
        (f"sqlite:///{tmp_path}/x.db", False, "there is no ledger at .*x.db"),
        (f"sqlite:///{tmp_path}", True, "is a folder"),
    ):
        with pytest.raises(LedgerError, match=match):
            open_ledger(url, create=create)
    (tmp_path / "empty.db").touch()
    with pytest.raises(LedgerError, match="is empty"):
        open_ledger(tmp_path / "empty.db", create=False)
    open_ledger(tmp_path / "empty.db").close()  # an empty file becomes a ledger


def test_a_ledger_that_is_deleted_while_open_is_not_made_again(tmp_path):
    path = tmp_path / "x.db"
    ledger = SqliteLedger(path)
    path.unlink()
    with pytest.raises(LedgerError, match="is gone"):
        ledger.open_writer("p", SPEC, query_id="A")
    assert not path.exists()
    ledger.close()


def test_a_held_lock_is_named_in_time(tmp_path):
    ledger = SqliteLedger(tmp_path / "x.db", busy_seconds=0.05)
    other = sqlite3.connect(tmp_path / "x.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(LedgerError, match=r"locked the ledger for more than 0.05 seconds"):
        ledger.open_writer("p", SPEC, query_id="A")
    assert ledger.pipelines() == []  # readers do not wait
    other.close()
    ledger.close()


def test_a_read_only_disk_is_named(tmp_path):
    with small_disk(tmp_path, "3m") as disk:
        SqliteLedger(disk / "x.db").close()
        remounted(disk, "ro")
        for name in ("x.db", "new.db"):
            with pytest.raises(LedgerError, match=f"{name}: .*(read-only|cannot be opened)"):
                SqliteLedger(disk / name)


def test_a_backup_is_a_ledger(filled, tmp_path):
    ledger = SqliteLedger(filled)
    ledger.backup(tmp_path / "copy.db")
    with pytest.raises(LedgerError, match="exists already"):
        ledger.backup(tmp_path / "copy.db")
    copy = open_ledger(tmp_path / "copy.db", create=False)
    assert _everything(copy) == _everything(ledger)
    assert copy.verify() == []
    assert held(copy, "s", 40, 0, 100)
    # put back, it is another ledger to those who follow this one, and cache what it had
    assert copy.generation() > ledger.generation()
    assert copy.version() > ledger.version()
    copy.close()
    ledger.close()


def test_a_damaged_schema_page_is_told_as_damage(filled):
    """SQLite's messages quote what it found, which need not be text."""
    sound = filled.read_bytes()
    told = 0
    for at in range(100, PAGE_BYTES, 61):
        filled.write_bytes(sound[:at] + b"\xff\xc3" + sound[at + 2 :])
        try:
            ledger = SqliteLedger(filled)
            _everything(ledger)
            ledger.close()
        except LedgerError as problem:
            told += "x.db" in str(problem)
    assert told > 10


def test_a_closed_writer_leaves_nothing_in_the_log(tmp_path):
    ledger = SqliteLedger(tmp_path / "x.db")
    writer = ledger.open_writer("p", SPEC, query_id="A")
    for number in range(20):
        writer.commit(batch(number, partial("s", number * PANE, [number])))
    writer.set_status({"state": "finished"})
    ledger.pieces("s", PANE)  # a reader's connection stays open
    writer.close()
    (tmp_path / "copy.db").write_bytes((tmp_path / "x.db").read_bytes())
    assert (tmp_path / "x.db-wal").stat().st_size == 0
    copy = SqliteLedger(tmp_path / "copy.db")
    assert copy.status("p") == {"state": "finished"}
    assert len(copy.pieces("s", PANE)) == 20
    copy.close()
    ledger.close()


def test_a_payload_that_is_missing_is_told(tmp_path):
    """As in a copy of a file that was written meanwhile; a question has no part of the answer."""
    ledger = SqliteLedger(tmp_path / "x.db")
    with run(pipeline(), [[events([(1, "a", 1, 1, 5), (2, "b", 1, 1, 6)])]], ledger):
        pass
    assert ledger.verify() == []
    with closing(sqlite3.connect(tmp_path / "x.db")) as connection, connection:
        ((number,),) = connection.execute("DELETE FROM payloads RETURNING piece").fetchall()
    with pytest.raises(SelectError, match=f"the payload of piece {number} is missing: .* backup"):
        Session(ledger).sql("SELECT driver, count FROM orders(driver) FOR ALL")
    assert ledger.verify() == [f"{tmp_path}/x.db: the payload of piece {number} is missing"]
    ledger.close()


def test_pieces_that_are_missing_are_told_where_it_is_known_how_many_events_there_were(tmp_path):
    ledger = SqliteLedger(tmp_path / "x.db")
    rows = [(second, "a", 1, 1, 5) for second in range(0, 300, 5)]
    with run(pipeline(), [[events(rows[:30])], [events(rows[30:])]], ledger):
        pass
    session = Session(ledger)
    every, last = (f"SELECT count FROM orders FOR {what}" for what in ("ALL", "WINDOW LAST"))
    assert session.sql(every).rows == [[60]]
    ((inside,),) = session.sql(last).rows
    with closing(sqlite3.connect(tmp_path / "x.db")) as connection, connection:
        connection.execute("DELETE FROM pieces WHERE start = (SELECT max(start) FROM pieces)")
    with pytest.raises(SelectError, match=r"orders: \d+ of 60 events are not in .* backup"):
        Session(ledger).sql(every)
    with closing(sqlite3.connect(tmp_path / "x.db")) as connection, connection:
        connection.execute("DELETE FROM pieces")
    with pytest.raises(SelectError, match=rf"orders: {inside} of {inside} events are not in"):
        Session(ledger).sql(last)
    ledger.close()


def test_a_piece_that_is_missing_is_found_by_its_payload(filled):
    with closing(sqlite3.connect(filled)) as connection, connection:
        ((number,),) = connection.execute(
            "DELETE FROM pieces WHERE id = (SELECT min(id) FROM pieces) RETURNING id"
        ).fetchall()
    with closing(SqliteLedger(filled)) as ledger:
        told = f"{filled}: piece {number} is missing, and its payload is there"
        assert ledger.verify() == [told]


@pytest.mark.parametrize("lost", ["role = 'summary' AND name = 's'", "role = 'query'"])
def test_a_name_whose_row_is_gone_is_no_summary_without_events(filled, lost):
    """Nothing is found under it, which looked like an exact answer; and the next writer began it
    anew, with another id."""
    with closing(sqlite3.connect(filled)) as connection, connection:
        connection.execute(f"DELETE FROM names WHERE {lost}")
    with closing(SqliteLedger(filled)) as ledger:
        (told,) = ledger.verify()
        assert "its row of table names is gone" in told
        for act in (
            ledger.pipelines,
            lambda: ledger.open_writer("p", SPEC, query_id="A"),
        ):
            with pytest.raises(LedgerError, match=r'"p" has the \w+ "\w", and its row of table na'):
                act()
        ledger.open_writer("p", SPEC, query_id="A", mode="overwrite").close()
        assert ledger.verify() == []


def test_a_ledger_without_its_row_of_meta_is_refused(filled):
    with closing(sqlite3.connect(filled)) as connection, connection:
        connection.execute("DELETE FROM meta")
    for create in (False, True):
        with pytest.raises(LedgerError, match="the row of table meta is gone"):
            SqliteLedger(filled, create=create)
