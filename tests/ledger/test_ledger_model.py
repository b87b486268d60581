"""Any interleaving of what writers do leaves exactly the events that were committed.

The model is a list of (pane, event). The ledger is read as the windows read it: longest clean
rollups first, panes below. Retention may only take what no longer rollup holds.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from ledger_helpers import (
    PANE,
    SERVERS,
    SPEC,
    batch,
    compacted,
    events_of,
    gather,
    held,
    partial,
    roll,
)

from muntin.errors import BadArgument, LedgerConflict
from muntin.ledger import Batch, ClosedWindow, Piece, Rejected, open_ledger
from muntin.ledger.temporary import forget

LENGTHS = (20, 40, 80)
PANES = st.integers(0, 15).map(lambda number: number * PANE)
END = 160
_names = itertools.count()


@dataclass
class Expected:
    """What the pipeline's row must say."""

    batches: int = 0
    read: int = 0
    counted: int = 0
    late: int = 0
    rejected: int = 0
    watermark: int | None = None
    epoch: int = 0
    held: list[tuple[int, int]] = field(default_factory=list)
    """(pane, event) of what retention has not taken."""


class LedgerMachine(RuleBasedStateMachine):
    url_of: Callable[[str], str] = "memory://{}".format

    @initialize()
    def start(self) -> None:
        self.name = f"model{next(_names)}"
        self.url = type(self).url_of(self.name)
        self.ledger = open_ledger(self.url)
        self.expected = Expected()
        self.events = itertools.count()
        self.committed: list[Batch] = []
        self.windows: dict[int, ClosedWindow] = {}
        self.zombies = []
        self.writer = None
        self.stale: list = []
        self.version = 0
        self.seen: dict[int, Piece] = {}
        self.open_writer()

    def open_writer(self) -> None:
        if self.writer is not None:
            self.zombies = [*self.zombies[-2:], self.writer]
        self.writer = self.ledger.open_writer("p", SPEC, query_id="A")
        assert self.writer.epoch > self.expected.epoch
        self.expected.epoch = self.writer.epoch

    # What writers do

    @rule(
        panes=st.lists(PANES, max_size=6),
        ahead=st.none() | st.integers(-40, 60),
        rejected=st.integers(0, 3),
    )
    def commit(self, panes: list[int], ahead: int | None, rejected: int) -> None:
        expected = self.expected
        numbered = [(pane, next(self.events)) for pane in panes]
        watermark = None if ahead is None else (expected.watermark or 0) + ahead
        one = batch(
            len(self.committed),
            *[partial("s", pane, [event]) for pane, event in numbered],
            rejected_count=rejected,
            rejected=[Rejected("malformed", "", "", b"")] * min(rejected, 1),
            watermark=watermark,
            into=self.ledger,
        )
        assert self.writer.commit(one)
        self.committed.append(one)
        expected.batches += 1
        expected.read += len(panes) + rejected
        expected.counted += len(panes)
        expected.rejected += rejected
        before = expected.watermark
        if before is not None:
            expected.late += sum(pane + PANE <= before for pane in panes)
        if watermark is not None:
            expected.watermark = watermark if before is None else max(before, watermark)
        # what retention would drop at once is counted, and not held
        expected.held += [(pane, event) for pane, event in numbered if _held(self.ledger, pane)]

    @precondition(lambda self: self.committed)
    @rule(data=st.data())
    def replay(self, data: st.DataObject) -> None:
        assert self.writer.commit(data.draw(st.sampled_from(self.committed))) is False

    @rule()
    def skip_a_batch(self) -> None:
        with pytest.raises(LedgerConflict):
            self.writer.commit(batch(len(self.committed) + 1))

    @rule()
    def another_query(self) -> None:
        if self.committed:
            with pytest.raises(LedgerConflict):
                self.ledger.open_writer("p", SPEC, query_id="B")

    @precondition(lambda self: self.zombies)
    @rule(data=st.data(), pane=PANES)
    def zombie(self, data: st.DataObject, pane: int) -> None:
        old = data.draw(st.sampled_from(range(len(self.zombies))))
        for write in (
            lambda writer: writer.commit(batch(len(self.committed), partial("s", pane, [-1]))),
            lambda writer: writer.drop_before("s", PANE, END),
            lambda writer: writer.roll_up("s", 40, 0, 40, []),
            lambda writer: writer.close_windows([], [], {"zombie": True}),
        ):
            with pytest.raises(LedgerConflict):
                write(self.zombies[old])

    @rule()
    def take_over(self) -> None:
        self.open_writer()

    @rule()
    def reopen(self) -> None:
        self.ledger.close()
        self.ledger = open_ledger(self.url)
        self.writer, self.zombies = None, []
        self.open_writer()

    @rule(length=st.sampled_from((PANE, *LENGTHS)), most=st.integers(1, 4))
    def compact(self, length: int, most: int) -> None:
        pieces = self.ledger.pieces("s", length)[:most]
        if pieces:
            self.stale = pieces
            assert self.writer.compact(pieces, [compacted(self.ledger, pieces)])

    @precondition(lambda self: self.stale)
    @rule()
    def compact_what_is_gone(self) -> None:
        there = {
            piece.id for length in (PANE, *LENGTHS) for piece in self.ledger.pieces("s", length)
        }
        if not {piece.id for piece in self.stale} <= there:
            assert self.writer.compact(self.stale, []) is False

    @rule(length=st.sampled_from(LENGTHS), backwards=st.booleans(), slices=st.integers(1, 3))
    def roll_up(self, length: int, backwards: bool, slices: int) -> None:
        cover = {one.length: one for one in self.ledger.coverage("s")}.get(length)
        wide = slices * length
        start = 80 if cover is None else cover.start - wide if backwards else cover.until
        if start >= 0 and start + wide <= END:
            self.roll(length, start, slices)

    def roll(self, length: int, start: int, slices: int) -> None:
        """Roll up; refused where it is not sealed, or where only longer rollups hold a part."""
        refusal = ""
        try:
            roll(self.ledger, self.writer, "s", length, start, slices)
        except BadArgument as problem:
            refusal = str(problem)
        watermark, horizon = self.expected.watermark, self.ledger.horizon("s", PANE)
        if watermark is None or start + slices * length > watermark:
            assert "only what is sealed" in refusal
        elif refusal:
            assert "retention has dropped" in refusal
            assert horizon is not None
            assert start < horizon

    @rule(pane=PANES, wrong=st.sampled_from(["missing", "moved", "twice"]))
    def rollups_that_do_not_receive(self, pane: int, wrong: str) -> None:
        """A batch whose late events do not reach each rollup that covers their pane."""
        one = batch(len(self.committed), partial("s", pane, [-1]), into=self.ledger)
        received = [part for part in one.partials if part.length is not None]
        if not received:
            return
        part = received[0]
        if wrong == "missing":
            rest = [each for each in one.partials if each is not part]
        elif wrong == "moved":
            moved = replace(part.slices, starts=part.slices.starts + part.length)
            rest = [replace(each, slices=moved) if each is part else each for each in one.partials]
        else:
            rest = [*one.partials, part]
        with pytest.raises(BadArgument):
            self.writer.commit(replace(one, partials=rest))

    @rule(length=st.sampled_from((PANE, *LENGTHS)), before=st.integers(0, END))
    def drop(self, length: int, before: int) -> None:
        longer = [one for one in self.ledger.coverage("s") if one.length > length]
        must_stay = {
            (pane, event)
            for pane, event in self.expected.held
            if pane >= before
            or any(one.start <= pane - pane % one.length < one.until for one in longer)
        }
        self.writer.drop_before("s", length, before)
        kept = gather(self.ledger, "s", 0, END)
        self.expected.held = [one for one in self.expected.held if one[1] in kept]
        assert must_stay <= set(self.expected.held)

    @rule(start=st.integers(0, 3).map(lambda n: n * 100), revised=st.booleans())
    def close_window(self, start: int, revised: bool) -> None:
        old = self.windows.get(start)
        revision = 0 if old is None else old.revision + revised
        new = ClosedWindow(
            "s", start, start + 100, "full", revision, False, len(self.committed), 0, {}, 5
        )
        self.writer.close_windows([new], [], {"windows": len(self.windows)})
        self.windows[start] = new

    # What holds after each step

    @invariant()
    def nothing_is_lost_or_invented(self) -> None:
        expected = Counter(event for _, event in self.expected.held)
        with self.ledger.snapshot() as view:
            for length in LENGTHS:  # in slices of each length, and in one piece
                for start in range(0, END, length):
                    truth = Counter(
                        event
                        for pane, event in self.expected.held
                        if start <= pane < start + length
                    )
                    if _readable(view, start, length):
                        assert gather(view, "s", start, start + length) == truth
            assert gather(view, "s", 0, END) == expected

    @invariant()
    def the_row_counts_everything(self) -> None:
        (info,) = self.ledger.pipelines()
        expected = self.expected
        assert (info.epoch, info.batches, info.read) == (
            expected.epoch, expected.batches, expected.read,
        )  # fmt: skip
        assert (info.counted, info.late, info.rejected) == (
            expected.counted, expected.late, expected.rejected,
        )  # fmt: skip
        assert info.read == info.counted + info.rejected
        assert info.watermark == expected.watermark
        assert self.writer.last_batch("A") == (len(self.committed) - 1 if self.committed else None)

    @invariant()
    def slices_agree_with_payloads(self) -> None:
        for length in (PANE, *LENGTHS):
            pieces = self.ledger.pieces("s", length)
            assert self.ledger.pieces("s", length, known=self.seen) == pieces
            self.seen |= {piece.id: piece for piece in pieces}  # those of before may be gone
            for piece in pieces:
                found = Counter(start for start, _ in events_of(self.ledger, [piece]))
                assert dict(zip(piece.slices.starts, piece.slices.events, strict=True)) == found
            reach = (min(p.start for p in pieces), max(p.until for p in pieces)) if pieces else None
            assert self.ledger.bounds("s", length) == reach

    @invariant()
    def rollups_hold_what_they_cover(self) -> None:
        for cover in self.ledger.coverage("s"):
            found = held(self.ledger, "s", cover.length, cover.start, cover.until)
            inside = {e for p, e in self.expected.held if cover.start <= p < cover.until}
            assert set(found) == inside
            assert set(found.values()) <= {1}

    @invariant()
    def windows_are_the_newest(self) -> None:
        assert self.ledger.windows() == [self.windows[start] for start in sorted(self.windows)]

    @invariant()
    def the_version_grows(self) -> None:
        version = self.ledger.version()
        assert version >= self.version
        self.version = version

    def teardown(self) -> None:
        if hasattr(self, "ledger"):
            assert self.ledger.verify() == []
            self.ledger.close()
            forget(self.name)


def _held(view, pane: int) -> bool:
    horizon = view.horizon("s", PANE)
    return (
        horizon is None
        or pane >= horizon
        or any(one.start <= pane < one.until for one in view.coverage("s"))
    )


def _readable(view, start: int, length: int) -> bool:
    """Retention keeps whole slices of the next longer rollup; shorter ranges may be gone."""
    horizon = view.horizon("s", PANE)
    shorter = [one for one in view.coverage("s") if one.length <= length]
    return (
        horizon is None
        or start >= horizon
        or any(one.start <= start and start + length <= one.until for one in shorter)
    )


TestLedger = LedgerMachine.TestCase
TestLedger.settings = settings(max_examples=settings().max_examples // 3, stateful_step_count=30)


@pytest.mark.parametrize("store", SERVERS)
def test_any_interleaving_in_a_store(store, request):
    server = request.getfixturevalue(store)

    class InStore(LedgerMachine):
        url_of = staticmethod(lambda name: server.url(schema=name))

    few = settings(max_examples=max(2, settings().max_examples // 25), stateful_step_count=30)
    run_state_machine_as_test(InStore, settings=few)


@pytest.mark.parametrize("start", range(0, 100, 25))
def test_random_histories_of_rollups_and_retention(start):
    """Plain random steps, many and fast: coverage that begins, ends and is given up anywhere."""
    for seed in range(start, start + 25):
        chance = random.Random(seed)
        machine = LedgerMachine()
        machine.start()
        for _ in range(16):
            step = chance.choice(["commit", "roll", "roll", "compact", "drop", "drop"])
            length = chance.choice(LENGTHS)
            if step == "commit":
                panes = [PANE * chance.randrange(16) for _ in range(chance.randint(1, 3))]
                machine.commit(panes, chance.choice((None, 40, 200)), 0)
            elif step == "roll":
                machine.roll_up(length, chance.random() < 0.4, chance.randint(1, 3))
            elif step == "compact":
                machine.compact(length, chance.randint(1, 4))
            else:
                machine.drop(chance.choice((PANE, length)), chance.randrange(END + 1))
            machine.nothing_is_lost_or_invented()
        machine.teardown()
