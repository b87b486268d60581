"""One engine for the tests that do not change its catalog."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from select_catalogs import catalog

from muntin.select.engine import Engine


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    made = Engine(catalog())
    yield made
    made.close()
