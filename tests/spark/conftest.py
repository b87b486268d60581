"""Orders, and what `summarize` makes of them in batch."""

import random

import pytest

import muntin
from muntin.ledger.temporary import temporary
from tests.pipeline.support import events, pipeline


def some_rows(number, seed=1):
    rng = random.Random(seed)
    return [
        (
            rng.uniform(0, 900),
            rng.choice([None, *"abcdefgh"]),
            rng.randrange(4),
            rng.randrange(-5, 6),
            rng.choice([None, rng.randrange(10**6)]),
        )
        for _ in range(number)
    ]


@pytest.fixture(scope="module")
def table():
    return events(sorted(some_rows(3000)))


@pytest.fixture(scope="module")
def summarised(spark, table):
    return muntin.summarize(spark.createDataFrame(table), pipeline(), ledger=temporary())
