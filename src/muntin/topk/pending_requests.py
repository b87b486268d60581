"""What the coordinator has asked of sites, and what they have replied so far."""

from collections.abc import Iterable

from muntin.errors import CorruptMessage
from muntin.topk.bootstrap import Ask
from muntin.topk.membership import Addressed, Membership
from muntin.topk.messages import Reply, Request
from muntin.topk.site import SiteState

ROUNDS_MAX = 40  # requests of one resolution before it is begun again as a survey


class PendingRequests:
    """One question at a time, to some sites; all their replies are awaited together."""

    def __init__(self) -> None:
        self.requests: dict[str, Request] = {}
        self._replies: dict[str, Reply] = {}
        self._number = 0  # of the last question, so that a reply to an older one is known
        self._left = 0

    def begin(self) -> None:
        """A resolution or survey begins: it may ask so often."""
        self._left = ROUNDS_MAX

    def drop(self) -> None:
        """No reply is wanted any more."""
        self.requests = {}

    def ask(self, sites: Iterable[SiteState], epoch: int, ask: Ask, now: float) -> Addressed | None:
        """The requests; None where there were too many: values move faster than one can ask."""
        if self._left == 0:
            return None
        self._left -= 1
        self._number += 1
        self._replies, self.requests = {}, {}
        for site in sites:
            least = None if ask.at_least is None else ask.at_least[site.name]
            request = Request(epoch, site.version, self._number, ask.objects, ask.more, least)
            self.requests[site.name] = request
            site.sent_at = now
        return list(self.requests.items())

    def take(self, site: SiteState, reply: Reply) -> dict[str, Reply] | None:
        """All replies by site, once the last is there; None before, and for one not asked for."""
        request = self.requests.get(site.name)
        if request is None or reply.round != request.round or reply.version != site.version:
            return None
        answered = {item for item, _ in reply.entries}
        if not answered.issuperset(request.objects):
            raise CorruptMessage(f"site {site.name!r} replies without what was asked for")
        self._replies[site.name] = reply
        if len(self._replies) < len(self.requests):
            return None
        replies, self.requests = self._replies, {}
        return replies

    def again(self, membership: Membership, retry: float, now: float) -> Addressed:
        """What has had no answer for `retry`, factors and requests."""
        out: Addressed = []
        for site in membership.members().values():
            if now - site.sent_at < retry:
                continue
            request = None if site.name in self._replies else self.requests.get(site.name)
            if request is not None:
                site.sent_at = now
                if site.acked < site.version:
                    out.append((site.name, site.outstanding(membership.epoch)))
                out.append((site.name, request))
            elif site.acked < site.version:
                out.append(membership.send(site, now))
        return out
