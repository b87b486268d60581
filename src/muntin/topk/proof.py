"""What the coordinator may claim: which unit is proven, and the answer that says so."""

from __future__ import annotations

from collections.abc import Sequence

from muntin.topk.answer import Answer, Item
from muntin.topk.messages import NOTHING, Object, order
from muntin.topk.site import Site


class Proof:
    """The newest unit at which T is known to have been a top k; None where there is none."""

    def __init__(self) -> None:
        self.as_of: int | None = None

    def forget(self) -> None:
        """T, k or the sites are others now."""
        self.as_of = None

    def at(self, unit: int) -> None:
        """T was proven at `unit`."""
        self.as_of = unit

    def by_silence(self, sites: Sequence[Site]) -> None:
        """Note the newest unit at which all sites were calm with the factors of now."""
        if sites and confirmed(sites):
            until = min(site.until or 0 for site in sites)
            self.as_of = until if self.as_of is None else max(self.as_of, until)

    def recent(self, sites: Sequence[Site], lease: float) -> bool:
        """Whether the unit is at most `lease` older than the newest heard of."""
        newest = max((site.unit for site in sites), default=0)
        return self.as_of is not None and newest - self.as_of <= lease


def confirmed(sites: Sequence[Site]) -> bool:
    """Every site holds the factors last sent, and was calm with them at some common unit."""
    return all(s.acked == s.version and s.until is not None for s in sites) and (
        max((s.since or 0 for s in sites), default=1)
        <= min((s.until or 0 for s in sites), default=0)
    )


def answer_of(
    top: tuple[Object, ...],
    sites: Sequence[Site],
    missing: tuple[str, ...],
    epsilon: int,
    as_of: int | None,
    *,
    proven: bool,
) -> Answer:
    """T with the values that sites reported last, and what may be said about it."""
    reported = {
        item: [site.reported[item] for site in sites if item in site.reported]
        for item in top
        if item != NOTHING
    }
    items = [Item(item, sum(values) if values else None) for item, values in reported.items()]
    items.sort(key=lambda item: (-(item.value or 0), order(item.object)))
    valid = proven and not missing and bool(top)
    return Answer(valid, as_of, tuple(items), missing, None if as_of is None else epsilon)
