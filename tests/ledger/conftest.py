"""The ledger in each of its stores, under one name."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import trustme
from ledger_helpers import STORES

from muntin.ledger import Ledger, open_ledger
from tests.store_servers import Server

_numbers = itertools.count()


@pytest.fixture(scope="module", autouse=True)
def readers_wait() -> Iterator[None]:
    """A machine that stands still for a while is no store that is away: where a test is not of the
    latter, readers wait until they see what was committed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("muntin.ledger.shared.READER_SECONDS", 60.0)
        yield


@pytest.fixture(params=STORES)
def ledger_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of a ledger that is not there yet."""
    name = f"test{next(_numbers)}"
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/x.db"
    else:
        yield request.getfixturevalue(request.param).url(schema=name)


@pytest.fixture
def reopen(ledger_url: str) -> Iterator[Callable[[], Ledger]]:
    """Opens the same ledger, each time as another object."""
    opened: list[Ledger] = []

    def opener() -> Ledger:
        opened.append(open_ledger(ledger_url))
        return opened[-1]

    yield opener
    for ledger in opened:
        ledger.close()


@pytest.fixture
def ledger(reopen: Callable[[], Ledger]) -> Ledger:
    return reopen()


@pytest.fixture
def own() -> Iterator[Callable[..., Server]]:
    """Servers that a test may end."""
    made: list[Server] = []

    def start(kind: type[Server], certificate: trustme.LeafCert | None = None) -> Server:
        made.append(kind())
        if certificate is not None:
            made[-1].encrypt(certificate)
        made[-1].start()
        return made[-1]

    yield start
    for one in made:
        one.close()
