"""`muntin run` with `sites:` and real Spark beside another site: the answer is exact."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml

import muntin
from muntin.sites import CoordinatorServer
from tests.docs_samples import sample_of
from tests.sites.conftest import until
from tests.sites.fed import START, Fed, top
from tests.sites.stream import (
    HEARTBEAT,
    PANE_US,
    RANKING,
    TOKENS,
    check_top,
    coordinator,
    events,
)

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(280)]
PANES, PANES_A_FILE = 60, 10


def test_muntin_run_takes_part(tmp_path):
    (tmp_path / "events").mkdir()
    for first in range(START, START + PANES, PANES_A_FILE):
        path = tmp_path / "events" / f"part-{first}.parquet"
        with pq.ParquetWriter(path, events("north", START).schema) as file:
            for pane in range(first, first + PANES_A_FILE):
                file.write_table(events("north", pane))
    with ExitStack() as stack:
        tokens = {name: {"token": token} for name, token in TOKENS.items()}
        spec = coordinator(tmp_path, sites=tokens, missing_after=400, lease=4000)
        server = stack.enter_context(CoordinatorServer(spec, reader_token="", operator_token=""))
        south = Fed("south", server.address, token=TOKENS["south"])
        stack.callback(south.close)
        south.feed(PANES)
        south.site.start()
        entries = {
            "name": "flights",
            "source": {"path": f"{tmp_path}/events", "format": "parquet", "maxFilesPerTrigger": 1},
            "time": "time",
            "pane": f"{PANE_US} us",
            "trigger": "0 seconds",
            "ledger": f"sqlite:///{tmp_path}/north.db",
            "summaries": {"flights": {"keys": ["origin"]}},
            "spark": {"spark.master": "local[2,4]", "spark.sql.shuffle.partitions": "2"},
            "sites": {
                "coordinator": server.address,
                "site": "north",
                "token_env": "TOKEN_NORTH",
                "heartbeat": HEARTBEAT,
                **RANKING,
            },
        }
        file = tmp_path / "north.yaml"
        file.write_text(yaml.safe_dump(entries))
        _, line = sample_of("topk.md", "muntin run", "muntin coordinator").splitlines()
        command = shlex.split(line.replace("examples/sites", str(tmp_path)), comments=True)[1:]
        with (tmp_path / "log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.sites.command", *command, "--no-live"],
                cwd=Path(__file__).parents[2],
                stdout=log,
                stderr=log,
                start_new_session=True,
                env=os.environ | {"TOKEN_NORTH": TOKENS["north"]},
            )
        stack.callback(os.killpg, process.pid, signal.SIGKILL)

        def done():
            assert process.poll() is None, (tmp_path / "log").read_text()[-3000:]
            found = top(server)
            return found if found["valid"] and found["unit"] == START + PANES - 2 else None

        found = until(done, 200)
        check_top([item["item"] for item in found["items"]], found["unit"], START)
        rows = muntin.connect(server.url).sql("SELECT item, value FROM top_k(global, 4)").rows
        assert rows == [[item["item"], item["value"]] for item in found["items"]]
        process.send_signal(signal.SIGINT)
        process.wait(60)
        assert "stopping; a batch at hand ends first" in (tmp_path / "log").read_text()
        assert until(lambda: list(server.service.sessions) == ["south"])
