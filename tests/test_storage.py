"""Files by their names: what is to last."""

import os
from contextlib import nullcontext

import pytest

from muntin import storage
from tests.disks import small_disk


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
    part = f"{path}.{os.getpid()}.part"
    assert synced == ([(part, False), (str(tmp_path / "new"), True)] if lasting else [])
