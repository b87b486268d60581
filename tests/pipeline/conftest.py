"""Rollups are made always, so that ledgers can be compared whole: whether they pay is told by the
busiest slice so far, and so by how rows were cut into batches and shards."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from muntin.assembly import maintenance


@pytest.fixture(scope="session", autouse=True)
def rollups_always() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(maintenance, "SHRINK", 0)
        yield
