"""Files by their names: what is to last, and stores that do not answer."""

import os
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import pytest

from muntin import storage
from tests.disks import small_disk
from tests.s3_server import KEYS, LOOPBACK


def test_a_file_that_is_deleted_while_its_folder_is_listed_hides_no_other(tmp_path, monkeypatch):
    class Gone:
        name = "gone"

        def is_file(self) -> bool:
            return True

        def stat(self):
            raise FileNotFoundError

    (tmp_path / "there").write_bytes(b"abc")
    with os.scandir(tmp_path) as found:
        listed = nullcontext([Gone(), *found])
    monkeypatch.setattr(os, "scandir", lambda _: listed)
    place, path = storage.place_of(str(tmp_path))
    assert place.sizes(path) == {"there": 3}


def test_what_a_full_disk_has_no_room_for_takes_none(tmp_path):
    with small_disk(tmp_path, "64k") as disk:
        place, path = storage.place_of(str(disk / "file"))
        with pytest.raises(OSError, match="No space left"):
            place.write(path, bytes(100_000), True)
        assert not list(disk.iterdir())


@pytest.mark.parametrize("lasting", [True, False])
def test_what_is_to_last_has_its_bytes_and_then_its_name_on_the_disk(
    tmp_path, monkeypatch, lasting
):
    """A commit that is on the disk may name it; without both, power loss leaves a name alone."""
    synced = []

    def sync(number: int) -> None:
        path = os.readlink(f"/proc/self/fd/{number}")
        synced.append((path, (tmp_path / "new" / "file").exists()))

    monkeypatch.setattr(os, "fsync", sync)
    place, path = storage.place_of(str(tmp_path / "new" / "file"))
    place.write(path, b"abc", lasting)
    assert (tmp_path / "new" / "file").read_bytes() == b"abc"
    if lasting:
        (part, named), *then = synced
        assert (part.startswith(f"{path}."), part.endswith(".part"), named) == (True, True, False)
        assert then == [(str(tmp_path / "new"), True)]
    else:
        assert not synced


def test_what_several_threads_write_under_one_name_is_whole(tmp_path):
    """Nor do processes of two machines, which have one number, take each other's file away."""
    place, path = storage.place_of(str(tmp_path / "file"))
    every = [bytes([number]) * 1_000_000 for number in range(4)]

    def write(data: bytes) -> None:
        for _ in range(20):
            place.write(path, data, False)

    with ThreadPoolExecutor(len(every)) as pool:
        list(pool.map(write, every))
    assert (tmp_path / "file").read_bytes() in every
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


@pytest.fixture(params=["drops", "hangs", "reads nothing"])
def bad_store(request, monkeypatch):
    """A store that takes connections, and then does not what it should."""
    s3fs = pytest.importorskip("s3fs")
    server, taken = socket.create_server((LOOPBACK, 0)), []

    def serve():
        while True:
            try:
                taken.append(server.accept()[0])
            except OSError:
                return
            if request.param == "drops":
                taken[-1].close()
            elif request.param == "hangs":
                threading.Thread(target=swallow, args=[taken[-1]], daemon=True).start()

    def swallow(connection):
        while connection.recv(1 << 16):
            pass

    threading.Thread(target=serve, daemon=True).start()
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{LOOPBACK}:{server.getsockname()[1]}")
    # by chance its waits between five tries are shorter than our time: then its own error is told
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "100")
    monkeypatch.setattr(storage, "ANSWER_SECONDS", 1.0)
    monkeypatch.setattr(storage, "BYTES_A_SECOND_MIN", 16 << 20)
    s3fs.S3FileSystem.clear_instance_cache()
    yield
    server.shutdown(
        socket.SHUT_RDWR
    )  # else its thread waits on, and may come to listen for another
    server.close()
    for connection in taken:
        connection.close()
    s3fs.S3FileSystem.clear_instance_cache()


def test_a_store_that_does_not_answer_is_told_as_that_in_time(bad_store):
    """Its package tries for minutes, and for ever where nobody reads what it writes."""
    folder = "s3://bucket/folder"
    place, path = storage.place_of(f"{folder}/file")
    data = bytes(16 << 20)

    def stream():
        file = place.create(path)
        try:
            file.write(data)
        finally:
            file.close()

    asked = {
        "read": lambda: place.read(path, 0, None),
        "write": lambda: place.write(path, data, lasting=True),
        "size": lambda: place.size(path),
        "written": lambda: place.written(path),
        "listed": lambda: place.listed(folder),
        "delete": lambda: place.delete(path),
        "create": stream,
    }

    def told_after(ask) -> float:
        began = time.monotonic()
        with pytest.raises(OSError, match=r"the store does not answer within \d+ seconds"):
            ask()
        return time.monotonic() - began

    with ThreadPoolExecutor(len(asked)) as pool:  # beside each other: each waits for its time
        taken = dict(zip(asked, pool.map(told_after, asked.values()), strict=True))
    assert max(taken.values()) < 20, taken
