"""Payloads in an object store that answers badly: all of a payload, or an error that says why."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from muntin.errors import LedgerError
from muntin.ledger.files import PayloadFolder, fetch, payload_folder
from tests.faulty_store import FAULTS, FaultyStore
from tests.s3_server import s3_server

PAYLOAD = os.urandom(300_000)
SAID = {
    "500": "internal error|does not answer within",
    "503": "reduce your request rate|does not answer within|Service Unavailable",
    "expired": "token has expired",
    "cut": "not completed|closed before|does not answer within",
    "lost": "does not answer within|closed before|disconnected",
}


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    with s3_server(tmp_path_factory.mktemp("s3")) as found:
        yield found


@pytest.fixture
def store(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[FaultyStore]:
    """Who may ask it stands in a file, as where something else renews it."""
    made = FaultyStore(environment["AWS_ENDPOINT_URL"])
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ENDPOINT_URL", made.url)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    allow(tmp_path, "first")
    yield made
    made.close()


def allow(folder: Path, who: str) -> None:
    said = f"[default]\naws_access_key_id = {who}\naws_secret_access_key = secret\n"
    (folder / "credentials").write_text(said, "utf-8")


@pytest.fixture
def folder(store: FaultyStore, tmp_path: Path) -> PayloadFolder:
    from s3fs import S3FileSystem

    S3FileSystem.clear_instance_cache()  # each test has a proxy of its own, and a folder
    return payload_folder("", f"s3://bucket/{tmp_path.name}", "p", 0)


@pytest.mark.parametrize("fault", [each for each in FAULTS if each != "expired"])
def test_what_is_over_after_a_moment_is_not_noticed(store, folder, fault):
    seen = set()

    def once(method, path, _):
        """The first request for each thing."""
        first = (method, path) not in seen
        seen.add((method, path))
        return fault if first else ""

    store.fault = once
    stored = folder.write("s", PAYLOAD)
    assert fetch(stored, "") == PAYLOAD
    folder.check_seen(stored.path, stored.nbytes)
    assert store.faults >= 2
    assert folder.sweep([stored.path], {}, 2**62) == 0
    assert folder.sweep([], {}, 2**62) == 1


@pytest.mark.parametrize("fault", FAULTS)
def test_what_lasts_is_told_and_gives_nothing(store, folder, fault, monkeypatch, caplog):
    stored = folder.write("s", PAYLOAD)
    store.fault = lambda *_: fault
    with monkeypatch.context() as patch:
        # what is expired is answered, however slow the machine is
        patch.setattr("muntin.storage.ANSWER_SECONDS", 30.0 if fault == "expired" else 2.0)
        patch.setattr("muntin.storage.LISTING_BYTES", 0)
        with pytest.raises(LedgerError, match=rf"{stored.path} cannot be read: .*({SAID[fault]})"):
            fetch(stored, "")
        if fault != "cut":  # an answer to who writes has nothing to be cut
            with pytest.raises(LedgerError, match=rf"cannot be written: .*({SAID[fault]})"):
                folder.write("s", PAYLOAD)
        assert folder.sweep([], {}, 2**62) == 0
    assert "cannot be listed, so that payload files which nobody needs stay" in caplog.text
    store.fault = lambda *_: ""
    assert fetch(stored, "") == PAYLOAD


def test_credentials_that_were_renewed_are_read_anew(store, folder, tmp_path):
    """By a process that has asked with the old ones: the try that fails is the last to do so."""
    stored = folder.write("s", PAYLOAD)
    assert fetch(stored, "") == PAYLOAD
    store.fault = lambda _, __, head: "expired" if "Credential=first/" in str(head) else ""
    allow(tmp_path, "second")
    with pytest.raises(LedgerError, match="cannot be read: The provided token has expired"):
        fetch(stored, "")
    assert fetch(stored, "") == PAYLOAD
    assert fetch(folder.write("s", PAYLOAD), "") == PAYLOAD
