"""Whether an answer, by whatever way it came, says what is true."""

from __future__ import annotations

from typing import Any

from muntin.errors import SelectError
from tests.truth import oracle
from tests.truth.statements import Item, Said, Statement, span_of
from tests.truth.world import PANE, Events, World


def check_answer(world: World, statement: Statement, said: Said) -> str:
    """Rows, and all that is said of them; "exact", "bounds", "uncounted" or "nothing"."""
    text = statement.text
    try:
        return _checked(world, statement, said)
    except AssertionError as wrong:
        wrong.add_note(
            f"{text}\n{ {n: said[n] for n in said if n != 'rows'} }\n{said['rows'][:20]}"
        )
        raise


def _checked(world: World, statement: Statement, said: Said) -> str:
    codes = [note["code"] for note in said["notes"]]
    spans = []
    late: dict[tuple[str, str], int] = {}
    for item, window in zip(statement.items, said["windows"], strict=False):
        assert window["source"] == item.source
        span = span_of(window)
        _check_covered(world, item, span, codes)
        spans.append(span)
        late[item.source, window["asked"]] = int(world.among(span).late.sum())
    events = [world.among(span) for span in spans]
    if statement.items:
        assert said["late"] == sum(late.values()), late
        assert len(said["windows"]) == len(statement.items)
    statement.check(said, events)
    if not statement.items:  # of windows and trends the statement knows itself
        return "exact" if said["exact"] else "uncounted"
    return _check_said(world, statement, said, events, codes)


def _check_covered(world: World, item: Item, span: Any, codes: list[str]) -> None:
    """All that was asked for was read, or it is said that it was not."""
    clause = item.clause
    asked = means = clause.asked(world)
    if clause.kind == "newest":
        (window,) = world.ledger.windows(item.source, limit=1, newest_first=True)
        asked = means = (window.start, window.end)
    if clause.kind == "all":
        asked = None if "retention" in codes or world.retention else (0, 1 << 60)
    if asked is not None and "retention" not in codes:
        assert len(world.among(asked)) == len(world.among(span)), (asked, span)
    if means is not None and span is not None:
        assert means[0] <= span[0] < span[1] <= means[1], (means, span)
    if span is not None:
        assert span[0] % PANE == span[1] % PANE == 0
    if span is None:
        assert {"nothing", "open"} & set(codes) or not len(world.events), codes
    if clause.kind == "open" and world.newest is not None:
        _check_open(world, item, span)


def _check_open(world: World, item: Item, span: Any) -> None:
    """The open window holds what no closed one does, up to the newest event."""
    if world.windows[item.source]["kind"] == "sliding" or world.retention:
        return
    closed = world.ledger.windows(item.source, limit=100_000)
    inside = sum(len(world.among((window.start, window.end))) for window in closed)
    assert inside + len(world.among(span)) == len(world.events), (span, inside)


def _check_said(
    world: World, statement: Statement, said: Said, events: list[Events], codes: list[str]
) -> str:
    lacking: dict[str, int] = {}
    for item, own in zip(statement.items, events, strict=True):
        if item.source == "m":
            parts = oracle.uncounted(world, own, item.key)
            read = {", ".join(item.key)} if item.key else set()
            lacking |= {p: n for p, n in parts.items() if p in read | item.reads(world)}
    given = [bounds for bounds in said["bounds"].values() if "uncounted" in bounds]
    exact = statement.exact(events) if callable(statement.exact) else statement.exact
    assert said["exact"] == (exact and not lacking), (lacking, said["exact"])
    assert bool(lacking) == bool(given) == ("uncounted" in codes), (lacking, said["bounds"])
    if lacking:
        found = [pair for bounds in given for pair in bounds["uncounted"].items()]
        assert set(lacking.items()) <= set(found), (lacking, found)
        return "uncounted"
    if statement.exact is True:
        assert said["bounds"] == {}, said["bounds"]
    nothing = not any(len(own) for own in events)
    return "nothing" if nothing else "exact" if said["exact"] else "bounds"


def check_refused(world: World, statement: Statement, error: SelectError) -> str:
    """Only what retention has dropped is refused, and what no window has closed for."""
    assert error.code == "dropped", (statement.text, error)
    assert world.retention, statement.text
    for item in statement.items:
        horizon = world.ledger.horizon(item.source, PANE)
        asked = item.clause.asked(world)
        newest = item.clause.kind == "newest"  # nothing came for long
        if horizon is not None and (newest or (asked is not None and asked[0] < horizon)):
            return "dropped"
    raise AssertionError(statement.text)
