"""Whose turn it is, for any order in which clients ask and work ends."""

from __future__ import annotations

import asyncio
import io
import tempfile
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muntin.ledger.open import open_ledger
from muntin.server.answering import INLINE_BYTES, Question
from muntin.server.limits import ServerLimits
from muntin.server.problems import RefusalError
from muntin.server.reader import Reader
from muntin.server.statements import CLIENT_SHARE, Statements, StoredAnswer, Turns

CLIENTS = "abcd"
STEPS = st.lists(
    st.one_of(st.sampled_from(CLIENTS), st.integers(0, 5)),  # a client asks, or the nth run ends
    max_size=120,
)


@given(st.integers(1, 4), STEPS)
def test_places_shares_and_turns(places, steps):
    turns, running, waiting, asked = Turns(places), [], [], 0
    passed_over = dict.fromkeys(CLIENTS, 0)
    for step in steps:
        if isinstance(step, str):
            asked += 1
            waiting.append((step, asked))
            turns.put(step, (step, asked))
        elif running:
            turns.done(running.pop(step % len(running))[0])
        while (turn := turns.take()) is not None:
            client, work = turn
            mine = [w for w in waiting if w[0] == client]
            assert work == mine[0]  # its own are in order
            waiting.remove(work)
            running.append(turn)
            of = [who for who, _ in running]
            for other in {w[0] for w in waiting} - {client}:
                passed_over[other] += of.count(other) < max(1, places - 1)
            passed_over[client] = 0
            # whoever may run more is passed over by each other client once at most
            assert max(passed_over.values()) < len(CLIENTS)
        held = [who for who, _ in running]
        assert len(held) <= places
        assert all(held.count(c) <= max(1, places - 1) for c in CLIENTS)
        assert sum(map(turns.waiting_of, CLIENTS)) == len(waiting) + len(held)
        if len(held) < places:  # nobody waits who may run
            assert all(held.count(w[0]) >= max(1, places - 1) for w in waiting)


def test_what_is_dropped_does_not_run():
    turns = Turns(1)
    turns.put("a", 1)
    turns.put("a", 2)
    turns.drop("a", 1)
    turns.drop("b", 1)
    assert turns.waiting_of("a") == 1
    assert (turns.take(), turns.take()) == (("a", 2), None)
    turns.done("a")
    assert turns.waiting_of("a") == 0


@pytest.mark.parametrize("behind", [0, 1])
def test_one_question_of_many_clients_is_computed_for_all_of_them(behind):
    """Twice where the first began before the ledger was known to be as it is."""

    class Slow:
        def __init__(self):
            self.asked, self.go = [], asyncio.Event()

        async def run(self, asked):
            self.asked.append(asked)
            await self.go.wait()
            return io.BytesIO(b"answer")

    async def ask():
        ledger = open_ledger("memory://asked")
        statements = Statements(Reader(ledger), ServerLimits())
        statements.version = ledger.version() - behind
        slow = statements.runner = Slow()
        question = Question("sql", {"select": "SELECT 1"}, 1 << 20)
        waiting = [asyncio.create_task(statements.answer(question, n)) for n in range(20)]
        while sum(len(job.waiters) for job in statements._unanswered) < len(waiting):
            await asyncio.sleep(0.001)
        slow.go.set()
        answers = await asyncio.gather(*waiting)
        assert {answer.data for answer in answers} == {b"answer"}
        assert len(slow.asked) == 1 + behind
        statements._looking.shutdown()
        ledger.close()

    asyncio.run(ask())


@pytest.mark.parametrize("limit", ["answers_unread_max", "answers_bytes_max"])
def test_who_reads_nothing_has_a_share_of_the_room_for_answers(limit):
    """All its questions are let in before the first is answered; then others ask."""
    size = 2 * INLINE_BYTES
    limits = replace(ServerLimits(), **{limit: 8 if limit == "answers_unread_max" else 8 * size})

    class Large:
        places = 2

        async def run(self, asked):
            made = tempfile.TemporaryFile()  # noqa: SIM115
            made.write(bytes(size))
            return made

    async def ask():
        ledger = open_ledger("memory://room")
        statements = Statements(Reader(ledger), limits)
        statements.runner = Large()

        def asking(client, number):
            question = Question("sql", {"select": f"SELECT {number}"}, 1 << 20)
            return statements.answer(question, client, asking=True)

        waiting = [asking("a", number) for number in range(12)]
        got = await asyncio.gather(*waiting, return_exceptions=True)
        held = [answer for answer in got if isinstance(answer, StoredAnswer)]
        assert 0 < len(held) <= 8 // CLIENT_SHARE + Large.places
        assert {type(answer) for answer in got} == {StoredAnswer, RefusalError}
        for client in "bc":
            statements.release(await asking(client, -1), client)
        for answer in held:
            statements.release(answer, "a")
        assert not statements.unread
        statements.release(await asking("a", 1), "a")
        statements._looking.shutdown()
        ledger.close()

    asyncio.run(ask())
