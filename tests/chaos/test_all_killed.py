"""Kafka, driver, Python workers, PostgreSQL, server: any is killed or frozen at any moment."""

from __future__ import annotations

import os
import random
from itertools import cycle, islice

import pytest

from muntin.demo.broker import broker_jars
from muntin.errors import SourceError
from muntin.spark.connector import pinned_jars
from tests.chaos.supervised import WAYS, killed

KILLS = int(os.environ.get("MUNTIN_KILLS", "12"))
pytestmark = [
    pytest.mark.spark, pytest.mark.chaos, pytest.mark.slow, pytest.mark.timeout(4 * 3600),
]  # fmt: skip


def test_whatever_is_killed_each_event_counts_once_and_results_flow_again(tmp_path):
    try:
        broker_jars()
        pinned_jars()
    except SourceError as why:
        pytest.skip(str(why))
    rng = random.Random(int(os.environ.get("MUNTIN_SEED", "22")))
    took = killed(tmp_path, islice(cycle(WAYS), KILLS), rng)
    assert sum(map(len, took.values())) == KILLS
