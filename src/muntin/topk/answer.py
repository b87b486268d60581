"""What the coordinator answers, what may be relied on, and which unit is proven."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from muntin.topk.messages import NOTHING, Object, order
from muntin.topk.site import SiteState


@dataclass(frozen=True, slots=True)
class Item:
    """A member of the answer.

    `value` is the sum of what its sites reported last: exact where a resolution or a push just said
    it, else older; None where no site has reported it.
    """

    object: Object
    value: int | None


@dataclass(frozen=True, slots=True)
class Answer:
    """The top k over the sites, and how far it can be trusted.

    Attributes
    ----------
    valid : bool
        The items were a top k of all sites, within epsilon, at unit `as_of`; nothing is
        unresolved, no site is missing, and `as_of` is recent (within the lease).
    as_of : int | None
        The newest unit at which the items are known to hold (over the sites that are not
        missing); None where there is none for these items.
    items : tuple of Item
        In the order of their known values; fewer than k where fewer have a positive
        total (one whose total fell to 0 stays until another has more).
    missing_sites : tuple of str
        Sites that have not been heard of lately; the items say nothing about them.
    bound : int | None
        At `as_of` no object outside exceeds a member by more than this, summed over the sites
        that are not missing; None where nothing can be said.
    """

    valid: bool
    as_of: int | None
    items: tuple[Item, ...]
    missing_sites: tuple[str, ...]
    bound: int | None


def calm_until(sites: Sequence[SiteState], before: int | None) -> int | None:
    """The newest unit at which all sites were calm with the factors of now, or `before`."""
    if not confirmed(sites):
        return before
    until = min(site.until or 0 for site in sites)
    return until if before is None else max(before, until)


def confirmed(sites: Sequence[SiteState]) -> bool:
    """Every site holds the factors last sent, and was calm with them at some common unit."""
    return all(s.acked == s.version and s.until is not None for s in sites) and (
        max((s.since or 0 for s in sites), default=1)
        <= min((s.until or 0 for s in sites), default=0)
    )


def answer_of(
    top: tuple[Object, ...],
    sites: Sequence[SiteState],
    missing: tuple[str, ...],
    epsilon: int,
    as_of: int | None,
    *,
    proven: bool,
) -> Answer:
    """T with the values that sites reported last, and what may be said about it."""
    members = tuple(item for item in top if item != NOTHING)
    columns = [map(site.reported.get, members) for site in sites]
    items = _items(members, tuple(map(_sum, *columns)) if columns else (None,) * len(members))
    valid = proven and not missing and bool(top)
    return Answer(valid, as_of, items, missing, None if as_of is None else epsilon)


def _sum(*values: int | None) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


@lru_cache(maxsize=4)  # it is asked at every tick, and seldom another
def _items(members: tuple[Object, ...], values: tuple[int | None, ...]) -> tuple[Item, ...]:
    items = [Item(item, value) for item, value in zip(members, values, strict=True)]
    items.sort(key=lambda item: (-(item.value or 0), order(item.object)))
    return tuple(items)
