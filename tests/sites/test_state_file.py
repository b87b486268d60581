"""What a restart goes on from: whole or not at all, and never two coordinators at once."""

from __future__ import annotations

import pytest

from muntin.errors import LedgerError
from muntin.ledger.temporary import TemporaryLedger
from muntin.sites.service import CoordinatorService
from muntin.sites.state_file import StateFile
from tests.sites.stream import coordinator


def test_every_damage_is_seen(tmp_path):
    path = tmp_path / "state"
    file = StateFile(path)
    assert file.load() is None
    file.save(b"some state")
    whole = path.read_bytes()
    assert file.load() == b"some state"
    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes((whole[at] ^ 1,)) + whole[at + 1 :])
        assert file.load() is None
        assert (tmp_path / "state.damaged").exists()
        path.write_bytes(whole[:at])
        assert file.load() is None
    file.save(b"another")
    assert file.load() == b"another"
    file.close()


def test_a_damaged_one_that_cannot_be_put_aside_is_an_error(tmp_path):
    """And no trace: its folder was made read-only, or somebody made a folder of that name."""
    (tmp_path / "state").write_bytes(b"nonsense")
    (tmp_path / "state.damaged").mkdir()
    file = StateFile(tmp_path / "state")
    with pytest.raises(LedgerError, match=r"state is damaged, and cannot become .*: Is a dir"):
        file.load()
    file.close()


def test_one_at_a_time(tmp_path):
    first = StateFile(tmp_path / "state")
    with pytest.raises(LedgerError, match="another coordinator's, which runs"):
        StateFile(tmp_path / "state")
    first.close()
    StateFile(tmp_path / "state").close()
    with pytest.raises(LedgerError, match="name another state file"):
        StateFile(tmp_path / "missing" / "state")


def begun(tmp_path, **changes):
    service = CoordinatorService(coordinator(tmp_path, **changes), TemporaryLedger())
    found = service.coordinator
    service.close()
    return service, found


def test_epochs_only_grow(tmp_path):
    """From the state, without it, and with one that is damaged or of other sites."""
    service, first = begun(tmp_path)
    service._file.save(first.to_bytes())
    _, again = begun(tmp_path)
    assert again.epoch > first.epoch
    _, twice = begun(tmp_path)  # the one before ended before it was saved
    assert twice.epoch > again.epoch
    _, other = begun(tmp_path, k=3)
    assert (other.k, other.epoch > first.epoch) == (3, True)
    _, fewer = begun(tmp_path, sites=["north"])
    assert (list(fewer.sites), fewer.epoch > first.epoch) == (["north"], True)
    path = tmp_path / "coordinator.state"
    path.write_bytes(b"nonsense")
    _, anew = begun(tmp_path)
    assert anew.epoch >= first.epoch
    assert (tmp_path / "coordinator.state.damaged").read_bytes() == b"nonsense"
