"""The files of a checkpoint that Spark wrote, with a bit flipped or the end cut off."""

import random
import re

import pytest

from muntin.errors import SourceError
from muntin.spark.checkpoint import check_undamaged
from tests.chaos.test_checkpoint import spec_of, table_of, taken, written

pytestmark = pytest.mark.spark


def test_flipped_bits_and_cuts_are_refused(tmp_path):
    written(table_of(random.Random(1)), tmp_path)
    place = tmp_path / "checkpoint"
    with pytest.raises(Exception, match="here it dies"):
        taken(spec_of(tmp_path, place), 3)
    check_undamaged(str(place))
    check_undamaged(f"file://{place}")
    check_undamaged(str(tmp_path / "there is none yet"))
    files = [path for path in sorted(place.rglob("[!.]*")) if path.is_file()]
    assert {str(path.relative_to(place)) for path in files} >= {
        "metadata", "offsets/2", "commits/1", "sources/0/0",
    }  # fmt: skip
    for path in files:
        whole = path.read_bytes()
        places = range(0, len(whole), len(whole) // 29)
        damaged = [whole[:size] for size in places]
        for at in places:
            flipped = bytearray(whole)
            flipped[at] ^= 1 << at % 8
            damaged.append(bytes(flipped))
        for data in damaged:
            path.write_bytes(data)
            with pytest.raises(SourceError, match=re.escape(f"{path} is damaged")):
                check_undamaged(str(place))
        path.write_bytes(whole)
    letter = place / "sources" / "0" / "0"
    letter.write_bytes(letter.read_bytes().replace(b"part-00", b"part-04"))
    with pytest.raises(SourceError, match=r"sources/0/0 is damaged: .* delete \.0\.crc"):
        taken(spec_of(tmp_path, place))


def test_checksums_that_tell_nothing_are_passed_over(tmp_path):
    """A process that dies between a file and its checksums leaves none, or a part of them."""
    (tmp_path / "metadata").write_text("{}")
    for stored in (b"", b"crc", b"crc\0\0\0\0\0", b"src\0\0\0\2\0", b"crc\0\xff\0\0\0abcd"):
        (tmp_path / ".metadata.crc").write_bytes(stored)
        check_undamaged(str(tmp_path))
