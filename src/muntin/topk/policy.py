"""How slack is shared and whom a resolution asks."""

from dataclasses import dataclass
from fractions import Fraction

from muntin.errors import BadArgument


@dataclass(frozen=True, slots=True)
class Policy:
    """How the slack of a resolution is shared.

    Attributes
    ----------
    coordinator : float, optional
        What the coordinator keeps when all sites take part, in sites' worth: 1 is the even
        split of Babcock & Olston, 0 is LSA, infinity is GSA; None is what the sites are expected
        to need (`expectation.reserve_needed`).
    partial : float
        The same when some sites take part, in participants' worth.
    progressive : bool
        Ask a few sites more (then twice as many, ...) before asking all. False is the published
        protocol: the violators alone, else all.
    anticipate : bool
        Share by how each object moves at each site (see `expectation`) instead of evenly.
    leave : float
        At the very start no factors are given if every site's own gap is this part of an even
        share of the slack. 0 is the published protocol, where factors begin at 0.
    """

    name: str
    coordinator: float | None = 1.0
    partial: float = 1.0
    progressive: bool = False
    anticipate: bool = False
    leave: float = 0.0

    def __post_init__(self) -> None:
        if min(self.coordinator or 0, self.partial, self.leave) < 0:
            raise BadArgument(f"policy {self.name!r}: a share is below 0")


POLICIES = {
    "resolution": Policy("resolution", None, 0.5, progressive=True, anticipate=True, leave=0.5),
    "even": Policy("even"),
    "lsa": Policy("lsa", coordinator=0, partial=0),
    "gsa": Policy("gsa", coordinator=float("inf"), partial=float("inf")),
}


def policy_named(name: str | Policy) -> Policy:
    if isinstance(name, Policy):
        return name
    if name not in POLICIES:
        raise BadArgument(f"policy {name!r}: one of {', '.join(POLICIES)}")
    return POLICIES[name]


def share_weights(coordinator: float, participants: int) -> list[int]:
    """Integer weights, the coordinator's first: it has `coordinator` participants' worth."""
    if coordinator == float("inf"):
        return [1] + [0] * participants
    share = Fraction(coordinator).limit_denominator(16)
    return [share.numerator] + [share.denominator] * participants
