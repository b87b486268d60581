"""A command is obeyed once, though the process that obeys it is killed."""

import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from muntin.ledger.open import open_ledger
from tests.server.conftest import until

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(600)]
ROOT = Path(__file__).parents[2]


@contextmanager
def obeying(*words):
    command = [sys.executable, "-m", "tests.chaos.obeying_process", *words]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "taken\n"
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.mark.parametrize("store", ["sqlite", "postgresql", "redis_server"])
def test_one_that_is_killed_once_it_has_obeyed_has_answered(tmp_path, store, request):
    url = f"sqlite:///{tmp_path}/orders.db"
    if store != "sqlite":
        url = request.getfixturevalue(store).url(schema=f"obeying{os.getpid()}")
    with obeying(url, "stopped") as process:
        ledger = open_ledger(url)
        asked = ledger.ask("orders", "slow_down", {})
        assert process.stdout.readline() == "stopped\n"
    with obeying(url):
        answer = until(lambda: ledger.command(asked.id).answer)
    assert answer["orders"] == {"done": True, "length_us": 120_000_000}
    assert ledger.assembler("orders")["orders"]["window"]["factor"] == 2
    ledger.close()
