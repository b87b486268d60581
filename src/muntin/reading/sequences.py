"""Sequential summaries read from a ledger: the shards' states, ready to be asked."""

import hashlib
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

from muntin import summaries
from muntin.cache import Cache
from muntin.errors import SelectError
from muntin.ledger.base import View
from muntin.select.catalog import ForClause


@dataclass(frozen=True, slots=True)
class Followed:
    """All shards of a sequential summary at one moment. Shared: it must not be changed."""

    summary: Any  # what the kind's table function asks; None before the first event
    states: tuple[Any, ...]
    late: int
    span: tuple[int, int] | None  # times of the first and last event
    token: Hashable  # equal tokens, equal content


def followed(view: View, name: str, generation: Hashable, cache: Cache[Any]) -> Followed:
    """The summary as the last commit left it, with the events that are still stored. `cache`: has
    the newest of each summary."""
    payloads = view.states(name)
    digests = (hashlib.blake2b(each, digest_size=16).digest() for each in payloads.values())
    token = (name, generation, *zip(payloads, digests, strict=True))
    kept = cache.get(("sequence", name))
    if kept is not None and kept.token == token:
        return kept
    states = tuple(map(summaries.PeriodicShard.from_bytes, payloads.values()))
    spans = [state.span for state in states if state.span is not None]
    made = Followed(
        [state.whole() for state in states] if spans else None,
        states,
        sum(state.late for state in states),
        (min(s for s, _ in spans), max(e for _, e in spans)) if spans else None,
        token,
    )
    cache.put(("sequence", name), made, 2 * sum(map(len, payloads.values())))
    return made


def check_whole_stream(name: str, window: ForClause) -> None:
    """SelectError where a clause asks for a part of what only follows the whole stream."""
    if window.kind not in ("open", "all"):
        raise SelectError(
            f"{name} speaks of the whole stream so far: it keeps no panes",
            code="window",
            remedy="leave the FOR clause out",
        )
