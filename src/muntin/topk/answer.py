"""What the coordinator answers, and what may be relied on."""

from __future__ import annotations

from dataclasses import dataclass

from muntin.topk.messages import Object


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
