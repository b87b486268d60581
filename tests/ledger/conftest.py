"""The ledger, in a file and as a temporary one, under one name."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from muntin.ledger import Ledger, open_ledger
from muntin.ledger.temporary import forget

_numbers = itertools.count()


@pytest.fixture(params=["sqlite", "memory"])
def reopen(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], Ledger]]:
    """Opens the same ledger, each time as another object."""
    name = f"test{next(_numbers)}"
    url = f"sqlite:///{tmp_path}/x.db" if request.param == "sqlite" else f"memory://{name}"
    opened: list[Ledger] = []

    def opener() -> Ledger:
        opened.append(open_ledger(url))
        return opened[-1]

    yield opener
    for ledger in opened:
        ledger.close()
    forget(name)


@pytest.fixture
def ledger(reopen: Callable[[], Ledger]) -> Ledger:
    return reopen()
