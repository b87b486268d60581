"""One look at the ledger for all statements over one of its states."""

from __future__ import annotations

import pytest

from muntin.errors import SelectError
from muntin.select.catalog import Loaded, LoadedTable, WindowAsked
from muntin.server.steady import KEPT_MAX, SECONDS, SteadyCatalog

OPEN = WindowAsked("open")


class Counting:
    """Says how often it was asked, and fails when told."""

    def __init__(self):
        self.asked = 0
        self.version = 1
        self.time = 0.0
        self.fails = False

    def load(self, summary, window):
        self.asked += 1
        if self.fails:
            raise SelectError("no", code="no_window")
        return Loaded(self.asked)

    def summaries(self):
        self.asked += 1
        return {"n": self.asked}

    queries = summaries

    def trend(self, query, window):
        self.asked += 1
        return LoadedTable(self.asked)

    windows = trend


@pytest.fixture
def counting():
    return Counting()


@pytest.fixture
def steady(counting):
    return SteadyCatalog(counting, lambda: counting.version, lambda: counting.time)


def test_asked_once_for_each_state(counting, steady):
    assert steady.load("s", OPEN) is steady.load("s", OPEN)
    assert steady.load("s", WindowAsked("all")) is not steady.load("s", OPEN)
    assert steady.summaries() is steady.summaries()
    assert steady.summaries() is not steady.queries()
    assert steady.trend("s", None) is not steady.windows("s", None)
    assert counting.asked == 6
    counting.version = 2
    assert steady.load("s", OPEN).summary == 7


def test_what_the_clock_changes_is_looked_at_again(counting, steady):
    first = steady.load("s", OPEN)
    counting.time += SECONDS
    assert steady.load("s", OPEN) is first
    counting.time += 0.01
    assert steady.load("s", OPEN) is not first


def test_errors_are_not_kept(counting, steady):
    counting.fails = True
    with pytest.raises(SelectError):
        steady.load("s", OPEN)
    counting.fails = False
    assert steady.load("s", OPEN)


def test_it_is_bounded(counting, steady):
    for number in range(2 * KEPT_MAX):
        steady.load(f"s{number}", OPEN)
    assert len(steady._kept) == KEPT_MAX


def test_a_state_that_has_gone_meanwhile_is_not_kept(counting, steady):
    def load(summary, window):
        counting.version += 1  # the ledger changes while it is read
        steady.summaries()
        return Loaded(None)

    counting.load = load
    assert steady.load("s", OPEN) is not steady.load("s", OPEN)
