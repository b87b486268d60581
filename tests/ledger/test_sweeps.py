"""Sweeps that are killed, or overtaken by another writer, take no payload file that counts."""

from __future__ import annotations

import gc
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from ledger_helpers import PANE, SPEC, batch, events_of, packed, slices_of

from muntin.errors import LedgerConflict
from muntin.ledger import Ledger, Made, Partial, open_ledger
from muntin.ledger.files import PayloadFolder
from muntin.ledger.sqlite_writer import Writer
from muntin.storage import place_of
from tests.s3_server import s3_server

pytestmark = [pytest.mark.chaos]
LATER = 2**62


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    s3fs = pytest.importorskip("s3fs")
    s3fs.S3FileSystem.clear_instance_cache()  # another store's, at the same URLs
    with s3_server(tmp_path_factory.mktemp("s3")) as found, pytest.MonkeyPatch.context() as patch:
        for name, value in found.items():
            patch.setenv(name, value)
        yield
    s3fs.S3FileSystem.clear_instance_cache()


@pytest.fixture(params=["beside the ledger", "in a store"])
def place(request: pytest.FixtureRequest) -> str:
    if request.param == "beside the ledger":
        return ""
    request.getfixturevalue("store")
    return "s3://bucket/swept"


def begun(url: str, place: str) -> tuple[Ledger, PayloadFolder, Writer]:
    ledger = open_ledger(url)
    writer = ledger.open_writer("p", SPEC, query_id="A")
    return ledger, ledger.payload_folder("p", place), writer


def feed(folder: PayloadFolder, writer: Writer, *numbers: int) -> None:
    for number in numbers:
        stored = folder.write("s", packed({0: [number]}))
        writer.commit(batch(number, Partial("s", slices_of({0: [number]}), stored)))


def merge(ledger: Ledger, folder: PayloadFolder, writer: Writer) -> None:
    pieces = ledger.pieces("s", PANE)
    whole = {0: [event for _, event in events_of(ledger, pieces)]}
    made = Made(slices_of(whole), folder.write("s", packed(whole)))
    assert writer.compact(pieces, [made])


def prepare(url: str, place: str) -> None:
    """A file that counts, two that were replaced, and one of a try that failed."""
    ledger, folder, writer = begun(url, place)
    feed(folder, writer, 0, 1)
    merge(ledger, folder, writer)
    folder.write("s", b"of a try that failed")
    ledger.close()


def check(url: str, place: str, events: int) -> None:
    """All that counts is there, and the next sweep takes the rest."""
    ledger, folder, writer = begun(url, place)
    assert ledger.verify() == []
    pieces = ledger.pieces("s", PANE)
    assert sorted(events_of(ledger, pieces)) == [(0, number) for number in range(events)]
    writer.sweep(folder, LATER)
    there, path = place_of(folder.full(folder.path))
    assert len(list(there.listed(path))) == len(pieces)
    ledger.close()


def at_call(number: int, files: tuple[str, ...], act: Callable[[], object]) -> Callable:
    """Calls `act` at the n-th call or return of a function of these files."""
    count = 0

    def on_call(frame, event: str, _: object) -> None:
        nonlocal count
        if event in ("call", "return") and any(f in frame.f_code.co_filename for f in files):
            count += 1
            if count == number:
                sys.setprofile(None)
                act()

    return on_call


def test_a_killed_sweep_loses_nothing_and_the_next_one_takes_the_rest(
    tmp_path: Path, place: str
) -> None:
    step = 20 if place else 4
    number, killed = 1, True
    while killed:
        url = f"sqlite:///{tmp_path}/{number}.db"
        prepare(url, place)
        child = os.fork()
        if child == 0:
            gc.disable()  # what other tests have left has threads, which a fork has not
            try:
                _, folder, writer = begun(url, place)
                die = at_call(
                    number,
                    ("/muntin/ledger/", "/muntin/storage"),
                    lambda: os.kill(os.getpid(), signal.SIGKILL),
                )
                sys.setprofile(die)
                writer.sweep(folder, LATER)
            finally:
                os._exit(0)
        ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert ended in (0, -signal.SIGKILL)
        killed = ended < 0
        check(url, place, 2)
        number += step
    assert number > 100


def test_a_sweep_that_is_overtaken_leaves_what_the_newer_writer_commits(
    tmp_path: Path, place: str
) -> None:
    """At each moment between its two transactions another commits, compacts and sweeps."""
    number, overtaken = 1, [True]
    while overtaken:
        url = f"sqlite:///{tmp_path}/{number}.db"
        prepare(url, place)
        if place:
            time.sleep(1)  # what a store's times may be rounded to
        before = time.time_ns() // 1000
        ledger, folder, writer = begun(url, place)
        time.sleep(1 if place else 0.01)
        overtaken = []

        def overtake() -> None:
            newer, folder, writer = begun(url, place)  # noqa: B023
            feed(folder, writer, 2)
            merge(newer, folder, writer)
            feed(folder, writer, 3)
            writer.sweep(folder, before)  # noqa: B023
            newer.close()
            overtaken.append(True)  # noqa: B023

        sys.setprofile(at_call(number, ("/muntin/ledger/files", "/muntin/storage"), overtake))
        try:
            writer.sweep(folder, before)
        except LedgerConflict:
            assert overtaken
        finally:
            sys.setprofile(None)
        ledger.close()
        check(url, place, 4 if overtaken else 2)
        number += 17 if place else 2
    assert number > 30
