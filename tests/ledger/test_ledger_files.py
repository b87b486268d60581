"""Payloads in files: committed by name, fetched and checked, and swept when nobody names them."""

from __future__ import annotations

import errno
import os
import resource
import time
from pathlib import Path
from typing import Any, Never

import pytest
from ledger_helpers import PANE, SPEC, batch, events_of, packed, partial, slices_of

from muntin.errors import BadArgument, LedgerConflict, LedgerError, SpecError
from muntin.ledger import Ledger, Made, Partial, Stored, copying
from muntin.ledger.copying import copy_ledger
from muntin.ledger.files import PayloadFolder, fetch
from muntin.ledger.sqlite import SqliteLedger
from muntin.storage import _Disk

LATER = 2**62


def _stored(folder: PayloadFolder, held: dict[int, list[int]]) -> Partial:
    return Partial("s", slices_of(held), folder.write("s", packed(held)), shard=3)


def _files(folder: PayloadFolder) -> list[Path]:
    here = Path(folder.home, folder.path.removeprefix("file://"))
    return sorted(here.iterdir()) if here.is_dir() else []


@pytest.fixture(params=["own", "named"])
def folder(request: pytest.FixtureRequest, ledger: Ledger, tmp_path: Path) -> PayloadFolder:
    if "@127" in ledger.url and request.param == "own":
        with pytest.raises(SpecError, match="has no folder of its own"):
            ledger.payload_folder("p")
        pytest.skip("a store has no folder")
    return ledger.payload_folder("p", "" if request.param == "own" else str(tmp_path / "far"))


def test_a_commit_names_a_file_and_readers_get_its_bytes(
    ledger: Ledger, folder: PayloadFolder
) -> None:
    writer = ledger.open_writer("p", SPEC, query_id="A")
    writer.commit(batch(0, _stored(folder, {0: [1, 2], PANE: [3]})))
    (piece,) = ledger.pieces("s", PANE)
    assert piece.nbytes == len(packed({0: [1, 2], PANE: [3]}))
    assert piece.shard == 3
    assert events_of(ledger, [piece]) == [(0, 1), (0, 2), (PANE, 3)]
    assert ledger.heads([piece.id], 7) == {piece.id: packed({0: [1, 2], PANE: [3]})[:7]}
    assert ledger.verify() == []
    assert writer.sweep(folder, LATER) == 0  # named: it stays, however old


def test_a_file_that_the_driver_does_not_see_is_refused_before_it_is_committed(
    tmp_path: Path,
) -> None:
    """As an executor on another machine writes it."""
    folder = PayloadFolder(str(tmp_path), "p-1")
    stored = folder.write("s", b"bytes")
    folder.check_seen(stored.path, stored.nbytes)
    with pytest.raises(LedgerError, match="here it has 5: name a folder that all machines see"):
        folder.check_seen(stored.path, 6)
    folder.delete([stored.path])
    with pytest.raises(LedgerError, match="here it is not: name a folder that all machines see"):
        folder.check_seen(stored.path, 5)


def test_a_missing_or_damaged_file_is_an_error_never_an_answer(
    ledger: Ledger, folder: PayloadFolder
) -> None:
    ledger.open_writer("p", SPEC, query_id="A").commit(batch(0, _stored(folder, {0: [1, 2]})))
    (piece,) = ledger.pieces("s", PANE)
    (file,) = _files(folder)
    sound = file.read_bytes()
    for at in range(0, len(sound), 5):
        file.write_bytes(sound[:at] + bytes([sound[at] ^ 4]) + sound[at + 1 :])
        with pytest.raises(LedgerError, match=r"is damaged .* restore it from a backup"):
            ledger.payloads([piece.id])
    file.write_bytes(sound[:-1])
    assert len(ledger.verify()) == 1
    file.unlink()
    with pytest.raises(LedgerError, match="is gone: restore it from a backup"):
        ledger.payloads([piece.id])


def test_who_may_open_no_more_files_is_told_so(tmp_path: Path) -> None:
    SqliteLedger(tmp_path / "l.db").close()
    folder = PayloadFolder(str(tmp_path), "p-1")
    stored = folder.write("s", b"bytes")
    most = resource.getrlimit(resource.RLIMIT_NOFILE)
    at_hand = os.dup(0)
    os.close(at_hand)
    resource.setrlimit(resource.RLIMIT_NOFILE, (at_hand, most[1]))
    try:
        for ask in (
            lambda: SqliteLedger(tmp_path / "l.db"),
            lambda: fetch(stored, str(tmp_path)),
            lambda: folder.read_part(stored.path, 0, 1),
            lambda: folder.write("s", b"bytes"),
        ):
            with pytest.raises(LedgerError, match=r"ulimit -n"):
                ask()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, most)


def test_what_no_row_names_is_swept_when_it_is_old_enough(
    ledger: Ledger, folder: PayloadFolder
) -> None:
    writer = ledger.open_writer("p", SPEC, query_id="A")
    began = time.time_ns() // 1000
    folder.write("s", b"of a try that failed")
    assert writer.sweep(folder, began - 1_000_000) == 0  # the try may run still
    assert len(_files(folder)) == 1
    assert writer.sweep(folder, LATER) == 1
    assert _files(folder) == []


def test_a_replaced_file_stays_for_readers_until_it_is_old(
    ledger: Ledger, folder: PayloadFolder
) -> None:
    writer = ledger.open_writer("p", SPEC, query_id="A")
    writer.commit(batch(0, _stored(folder, {0: [1]})))
    writer.commit(batch(1, _stored(folder, {0: [2]})))
    before = time.time_ns() // 1000
    with ledger.snapshot() as view:
        old = view.pieces("s", PANE)
        both = slices_of({0: [1, 2]})
        made = Made(both, folder.write("s", packed({0: [1, 2]})), 3)
        assert writer.compact(old, [made])
        assert writer.sweep(folder, before) == 0
        assert events_of(view, old) == [(0, 1), (0, 2)]
    assert writer.sweep(folder, LATER) == 2
    assert events_of(ledger, ledger.pieces("s", PANE)) == [(0, 1), (0, 2)]
    assert len(_files(folder)) == 1


def test_overwriting_and_retention_give_files_up(ledger: Ledger, folder: PayloadFolder) -> None:
    writer = ledger.open_writer("p", SPEC, query_id="A")
    writer.commit(batch(0, _stored(folder, {0: [1]}), _stored(folder, {10 * PANE: [2]})))
    writer.drop_before("s", PANE, 5 * PANE)
    assert writer.sweep(folder, LATER) == 1
    assert len(_files(folder)) == 1
    again = ledger.open_writer("p", SPEC, query_id="B", mode="overwrite")
    assert again.sweep(folder, LATER) == 1
    assert _files(folder) == []


def test_a_writer_that_was_taken_over_sweeps_nothing(ledger: Ledger, folder: PayloadFolder) -> None:
    old = ledger.open_writer("p", SPEC, query_id="A")
    ledger.open_writer("p", SPEC, query_id="A")
    folder.write("s", b"of the new writer, not committed yet")
    with pytest.raises(LedgerConflict):
        old.sweep(folder, LATER)
    assert len(_files(folder)) == 1


def test_another_pipeline_keeps_its_files(ledger: Ledger, tmp_path: Path) -> None:
    other: dict[str, Any] = {"pane_us": PANE, "summaries": {"x": {"kind": "vector_matrix"}}}
    mine, theirs = (ledger.payload_folder(name, str(tmp_path)) for name in ("p", "other"))
    ledger.open_writer("other", other, query_id="A")
    theirs.write("x", b"to be committed")
    assert ledger.open_writer("p", SPEC, query_id="A").sweep(mine, LATER) == 0
    assert len(_files(theirs)) == 1


def test_impossible_references_are_refused(ledger: Ledger, folder: PayloadFolder) -> None:
    writer = ledger.open_writer("p", SPEC, query_id="A")
    for stored in (Stored("x", 0, 0), Stored("x", 1 << 40, 0), Stored("x", 1, -1)):
        with pytest.raises(BadArgument):
            writer.commit(batch(0, Partial("s", slices_of({0: [1]}), stored)))
    for path in ("../x", "/etc/passwd", "a/../../x"):
        with pytest.raises(LedgerError):
            fetch(Stored(path, 1, 0), folder.home)


def test_a_place_that_does_not_answer_is_told_as_that_and_sweeps_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A file is not missing, and nothing that the pipeline needs, where a store says 503."""

    def busy(*_: object) -> Never:
        raise OSError(errno.EBUSY, "slow down")

    folder = PayloadFolder(str(tmp_path), "p-1")
    stored = folder.write("s", b"bytes")
    with monkeypatch.context() as patch:
        for name in ("size", "listed"):
            patch.setattr(_Disk, name, busy)
        with pytest.raises(LedgerError, match=r"cannot be looked up: .*slow down"):
            folder.check_seen(stored.path, 5)
        assert folder.sweep((), {}, LATER) == 0
    assert "p-1 cannot be listed" in caplog.text
    assert folder.sweep((), {}, LATER) == 1


def test_of_two_that_sweep_at_once_each_goes_on_where_the_other_was_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = PayloadFolder(str(tmp_path), "p-1")
    for _ in range(4):
        folder.write("s", b"of a try that failed")
    written, first = _Disk.written, []

    def while_another_deletes(place: _Disk, path: str) -> int:
        if not first:
            first.append(path)
            place.delete(path)
        return written(place, path)

    monkeypatch.setattr(_Disk, "written", while_another_deletes)
    assert folder.sweep((), {}, LATER) == 3
    assert _files(folder) == []


def test_a_store_that_does_not_answer_is_asked_to_delete_one_file_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of thousands each would take its seconds, and the pipeline would wait."""
    folder, asked = PayloadFolder(str(tmp_path), "p-1"), []

    def hangs(_: _Disk, path: str) -> Never:
        asked.append(path)
        raise TimeoutError

    monkeypatch.setattr(_Disk, "delete", hangs)
    folder.delete(["p-1/a", "p-1/b"])
    assert len(asked) == 1


def test_a_backup_holds_what_files_hold(tmp_path: Path) -> None:
    ledger = SqliteLedger(tmp_path / "x.db")
    writer = ledger.open_writer("p", SPEC, query_id="A")
    far = ledger.payload_folder("p", f"file://{tmp_path}/far")
    near = ledger.payload_folder("p")
    assert ledger.payload_folder("p", f"file:{tmp_path}/far") == far
    writer.commit(batch(0, _stored(near, {0: [1]}), _stored(far, {PANE: [2]})))
    ledger.backup(tmp_path / "backup.db")
    for folder in (near, far):
        for file in _files(folder):
            file.unlink()
    with SqliteLedger(tmp_path / "backup.db").snapshot() as copy:
        assert events_of(copy, copy.pieces("s", PANE)) == [(0, 1), (PANE, 2)]
    moved = tmp_path / "moved"
    moved.mkdir()
    (tmp_path / "backup.db").rename(moved / "backup.db")
    again = SqliteLedger(moved / "backup.db")
    assert events_of(again, again.pieces("s", PANE)) == [(0, 1), (PANE, 2)]
    assert again.verify() == []


def test_a_url_without_fsspec_or_of_no_kind_is_refused(ledger: Ledger) -> None:
    with pytest.raises(SpecError, match="nowhere://x"):
        ledger.payload_folder("p", "nowhere://x")


def test_a_url_whose_package_is_missing_is_refused_with_its_extra(ledger, monkeypatch) -> None:
    def missing(*_: object, **__: object) -> None:
        raise ImportError("Install s3fs to access S3")

    monkeypatch.setattr("fsspec.core.url_to_fs", missing)
    with pytest.raises(SpecError, match=r"Install s3fs to access S3; pip install 'muntin\[s3\]'"):
        ledger.payload_folder("p", "s3a://bucket/x")


def test_a_copy_shares_no_file_with_its_original(ledger: Ledger, tmp_path: Path) -> None:
    """Both go on at one place, and each sweeps what it does not name; so does a backup."""
    place = str(tmp_path / "far")
    before = SqliteLedger(tmp_path / "before.db")
    mine = before.payload_folder("p", place)
    before.open_writer("p", SPEC, query_id="A").commit(batch(0, _stored(mine, {0: [1]})))
    copy_ledger(before, ledger)
    backup = tmp_path / "backup.db"
    ledger.backup(backup)
    made = [before, ledger, SqliteLedger(backup)]
    folders = [one.payload_folder("p", place) for one in made]
    assert len({folder.path for folder in folders}) == 3
    writers = [one.open_writer("p", SPEC, query_id="A") for one in made]
    for writer, folder in zip(writers, folders, strict=True):
        writer.commit(batch(1, _stored(folder, {PANE: [2]})))
    for writer, folder in zip(writers, folders, strict=True):
        writer.sweep(folder, LATER)
    before.open_writer("p", SPEC, query_id="B", mode="overwrite").sweep(folders[0], LATER)
    for one in made[1:]:
        assert events_of(one, one.pieces("s", PANE)) == [(0, 1), (PANE, 2)]
        assert one.verify() == []


@pytest.mark.parametrize("begins", [False, True])
def test_a_copy_that_was_interrupted_counts_nowhere(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begins: bool
) -> None:
    """Nor one in whose place a pipeline begins while it is made."""
    before, began = SqliteLedger(tmp_path / "before.db"), []
    copy_ledger(SqliteLedger(tmp_path / "empty.db"), before)  # `before` is a copy itself
    other = {"pane_us": 7, "summaries": {"o": {"kind": "kll"}}, "queries": {}}
    before.open_writer("other", other, query_id="B")
    before.open_writer("p", SPEC, query_id="A").commit(batch(0, partial("s", 0, [1])))

    def interrupted(*_: object) -> list[Any]:
        if not begins:
            raise InterruptedError
        began.append(ledger.open_writer("p", SPEC, query_id="A"))
        return []

    monkeypatch.setattr(copying, "_payloads", interrupted)
    with pytest.raises(
        (LedgerError, InterruptedError), match="holds pipelines" if begins else None
    ):
        copy_ledger(before, ledger)
    (writer,) = began or [ledger.open_writer("p", SPEC, query_id="A")]
    place = str(tmp_path / "far")
    assert ledger.payload_folder("p", place) != before.payload_folder("p", place)
    assert writer.commit(batch(0, partial("s", PANE, [2])))
    assert events_of(ledger, ledger.pieces("s", PANE)) == [(PANE, 2)]
    assert ledger.verify() == []


def test_a_backup_that_failed_leaves_no_file(ledger: Ledger, tmp_path: Path) -> None:
    folder = ledger.payload_folder("p", str(tmp_path / "far"))
    ledger.open_writer("p", SPEC, query_id="A").commit(batch(0, _stored(folder, {0: [1, 2]})))
    (file,) = _files(folder)
    sound = file.read_bytes()
    file.write_bytes(b"damaged")
    for _ in range(2):
        with pytest.raises(LedgerError, match="is damaged"):
            ledger.backup(tmp_path / "backup.db")
    assert not list(tmp_path.glob("backup.db*"))
    file.write_bytes(sound)
    ledger.backup(tmp_path / "backup.db")
    with pytest.raises(LedgerError, match="exists already: give the backup a new name"):
        ledger.backup(tmp_path / "backup.db")
    assert SqliteLedger(tmp_path / "backup.db").verify() == []
