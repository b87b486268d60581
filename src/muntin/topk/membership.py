"""All sites, T, and the coordinator's own factors: what every part of the coordinator works on."""

from collections.abc import Iterable

from muntin.errors import BadArgument
from muntin.topk.messages import K_MAX, SITES_MAX, VALUE_MAX, Message, Object
from muntin.topk.site import SiteState

Addressed = list[tuple[str, Message]]


class Membership:
    """The sites as the coordinator sees them.

    `sites`: by name, in the order given.
    `top`: T; `changes`: how often it became another.
    `own`: the coordinator's factors that are not 0.
    `epoch`: the number of the survey that all said now belongs to.
    """

    def __init__(self, names: Iterable[str], *, barrier: bool, epoch: int) -> None:
        self.sites = {name: SiteState(name) for name in check_sites(list(names))}
        self.barrier = barrier
        self.epoch = epoch
        self.top: tuple[Object, ...] = ()
        self.changes = 0
        self.own: dict[Object, int] = {}

    def members(self) -> dict[str, SiteState]:
        """The sites that take part in the epoch, by name."""
        return {name: site for name, site in self.sites.items() if site.member}

    @property
    def missing(self) -> tuple[str, ...]:
        """Sites that take no part: not heard of, or not taken in yet."""
        return tuple(site.name for site in self.sites.values() if not site.member)

    def lose_the_silent(self, now: float, after: float) -> bool:
        """Sites not heard of for longer than `after` are missing; whether there is a new one."""
        lost = [s for s in self.sites.values() if s.present and now - s.heard > after]
        for site in lost:
            site.present = site.member = False
        return bool(lost)

    def begin_epoch(self) -> None:
        """Nobody holds factors; all who are present are members."""
        self.epoch += 1
        self.own = {}
        for site in self.sites.values():
            site.member = site.present
            site.reset()

    def set_top(self, top: tuple[Object, ...]) -> bool:
        """Take this T; whether it has other members than before."""
        fresh = set(top) != set(self.top)
        self.changes += fresh and bool(self.top)
        self.top = top
        return fresh

    @property
    def most_factors(self) -> int:
        """How many the one holds who has the most."""
        return max(len(self.own), *(len(site.factors) for site in self.members().values()))

    def send(self, site: SiteState, now: float) -> tuple[str, Message]:
        """What brings the site up to date."""
        message = site.outstanding(self.epoch)
        site.sent_at = now
        if self.barrier:
            site.acknowledge(site.version)
        return site.name, message


def check_sites(names: list[str]) -> list[str]:
    """The names, if they are some, not too many, and different."""
    if not 1 <= len(set(names)) == len(names) <= SITES_MAX:
        raise BadArgument(f"{len(names)} sites: give 1 to {SITES_MAX} different names")
    return names


def check_k(k: int, epsilon: int) -> tuple[int, int]:
    """Both, if they are within bounds."""
    if not 1 <= k <= K_MAX:
        raise BadArgument(f"k is {k}: give 1 to {K_MAX}")
    if not 0 <= epsilon <= VALUE_MAX:
        raise BadArgument(f"epsilon is {epsilon}: give 0 to 2**50, in units of the values")
    return k, epsilon
