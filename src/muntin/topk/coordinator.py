"""The coordinator's half of the protocol: keeps T the top k of all sites. No clock, no socket.

Phase     Means
--------  ------------------------------------------------------------------------------------
idle      no site is present
survey    asks all present sites for their largest values (see `bootstrap`), in a new epoch
calm      factors are out; acts when a site alerts
polling   a resolution is asking sites
watching  sites push the contenders' values at every slide (see `watch_mode`)

A message in is answered by messages out; `tick` starts what several messages may have caused,
repeats what got no answer, and finds sites missing. Time is `now`, in window units.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from muntin.errors import CorruptMessage, UnknownName
from muntin.topk.answer import Answer, answer_of, calm_until, confirmed
from muntin.topk.bootstrap import Ask, Survey
from muntin.topk.codec import fits
from muntin.topk.hybrid import SLIDES_MAX, CostModel
from muntin.topk.membership import Addressed, Membership, check_k
from muntin.topk.messages import (
    NOTHING,
    Alert,
    Busy,
    Calm,
    FromSite,
    Hello,
    Message,
    Object,
    Push,
    Reply,
    vetted,
)
from muntin.topk.pending_requests import PendingRequests
from muntin.topk.policy import Policy, policy_named
from muntin.topk.resolution import Report
from muntin.topk.round import AskSites, Resolved, Round
from muntin.topk.saved import Saved
from muntin.topk.site import SiteState, put
from muntin.topk.survey_schedule import HELLOS_BELIEVED, SurveySchedule
from muntin.topk.watch_mode import WatchMode

IDLE, SURVEY, CALM, POLLING, WATCHING = "idle", "survey", "calm", "polling", "watching"

# The whole life of a coordinator: (phase, what happens) -> phase.
NEXT: dict[tuple[str, str], str] = {
    **{(phase, "sites changed"): SURVEY for phase in (IDLE, SURVEY, CALM, POLLING, WATCHING)},
    **{(phase, "no sites"): IDLE for phase in (IDLE, SURVEY, CALM, POLLING, WATCHING)},
    (SURVEY, "resolved"): CALM,
    (SURVEY, "pushing pays"): WATCHING,
    (CALM, "alerts"): POLLING,
    (POLLING, "resolved"): CALM,
    (POLLING, "pushing pays"): WATCHING,
    (WATCHING, "resolving pays"): POLLING,
}

FACTORS_MORE = 1 << 16  # than twice those of the last survey: most are of objects that have gone
EPOCH_STEP = 1 << 16  # a restart skips the epochs that may have been used after the last saving


class Coordinator:
    """Keeps the global top k valid over sites that mostly stay silent.

    Parameters
    ----------
    sites : names, at most 1,024
    k : int
        Members of the answer, 1 to 10,000.
    epsilon : int
        Tolerance in units of the values: a member may be smaller than an object outside by this.
    policy : "resolution", "even", "lsa", "gsa" or a Policy
    hybrid : CostModel, optional
        Pushing instead of resolving while that costs less.
    barrier : bool
        As for `Monitor`: every message of a slide arrives before the next slide.
    retry, missing_after, lease : float
        Without barrier, in window units: when to repeat a message; when a silent site is missing
        (above the monitors' heartbeat); how old a confirmation still counts as valid.
    gather : float, optional
        Without barrier: so long the first survey waits for all sites to be there; by default
        `missing_after`. A later one waits for `retry` once a site has come.
    epoch : int
        Epochs only go up. `from_bytes` sees to that; where the state of an earlier coordinator
        over the same sites is lost, give a number that only grows, such as the hour since 1970
        times 2**16.
    """

    def __init__(
        self,
        sites: Iterable[str],
        k: int,
        *,
        epsilon: int = 0,
        policy: str | Policy = "resolution",
        hybrid: CostModel | None = None,
        barrier: bool = False,
        retry: float = 2.0,
        missing_after: float = 18.0,
        lease: float = 18.0,
        gather: float | None = None,
        epoch: int = 0,
    ) -> None:
        self.k, self.epsilon = check_k(k, epsilon)
        self.membership = Membership(sites, barrier=barrier, epoch=epoch)
        self.sites = self.membership.sites
        """What is known of each."""
        self.policy = policy_named(policy)
        self.hybrid = hybrid
        self.barrier = barrier
        self.retry, self.missing_after, self.lease = retry, missing_after, lease
        self.phase = IDLE
        self.partial = self.full = self.surveys = 0
        self.tied = False
        """More objects tie than a message holds: it was not to be told which are largest."""
        first = missing_after if gather is None else gather
        self._schedule = SurveySchedule(self.membership, first=first, settle=retry)
        self._survey: Survey | None = None
        self._round: Round | None = None
        self._pending = PendingRequests()
        self._watch: WatchMode | None = None
        self._factors_max: int | None = None  # from a survey's first factors on
        self._as_of: int | None = None  # the newest unit at which T is known to have been a top k
        self._now = 0.0

    @property
    def top(self) -> tuple[Object, ...]:
        """T, as it stands; `answer` says how far it can be trusted."""
        return self.membership.top

    @property
    def epoch(self) -> int:
        """The number of the last survey."""
        return self.membership.epoch

    @property
    def missing(self) -> tuple[str, ...]:
        """Sites that take no part: not heard of, or not taken in yet."""
        return self.membership.missing

    # -- from outside

    def receive(self, name: str, message: Message, now: float = 0.0) -> Addressed:
        """Take a message of a site.

        Raises
        ------
        UnknownName
            There is no such site.
        CorruptMessage
            The message cannot be meant seriously; nothing has changed.
        """
        site = self.sites.get(name)
        if site is None:
            raise UnknownName(f"site {name!r}: the sites are {', '.join(self.sites)}")
        message = vetted(name, message, self.epoch)
        self._charged([(name, message)])
        site.heard = now
        if message.epoch > self.epoch:  # this coordinator was restored from an older state
            self.membership.epoch = message.epoch
            self._schedule.call()
        if not site.present:  # it is missing until a survey takes it in
            site.present = True
            self._schedule.came(now)
        if message.epoch < self.epoch:  # whatever it is, who says it has no factors of this epoch
            life = message.life if isinstance(message, Hello) else 0
            message = Hello(message.epoch, message.unit, life)
        if isinstance(message, Hello):
            return self._charged(self._hello(site, message, now))
        if not site.member:
            return []
        if message.version > site.version:  # said to an earlier coordinator in the same epoch
            self.membership.epoch += EPOCH_STEP
            self._schedule.call()
            return []
        site.unit = max(site.unit, message.unit)
        site.hellos = 0
        if self.barrier and isinstance(message, Alert | Reply):
            site.remember(message.entries)
        if isinstance(message, Busy):
            if self.hybrid:
                self.hybrid.record(name, message)
            return []
        return self._charged(_HANDLERS[type(message)](self, site, message, now))

    def tick(self, now: float) -> Addressed:
        """Let time pass: `now` in window units, from any origin, never going back."""
        if self._schedule.start(now):
            for site in self.sites.values():
                site.heard = now
                site.present = self.barrier
        if self.hybrid:
            for _ in range(min(SLIDES_MAX, int(now) - int(self._now))):
                self.hybrid.slide(len(self.membership.members()), self.k)
        self._now = now
        if not self.barrier and self.membership.lose_the_silent(now, self.missing_after):
            self._as_of = None  # what was proven, was so with that site
            self._schedule.call()
        return self._charged(self._act(now))

    def _charged(self, messages: Addressed) -> Addressed:
        if self.hybrid:
            for name, message in messages:
                self.hybrid.charge(name, message)
        return messages

    def set_k(self, k: int, epsilon: int | None = None) -> None:
        """Change k (and epsilon) from the next tick on."""
        self.k, self.epsilon = check_k(k, self.epsilon if epsilon is None else epsilon)
        self._as_of = None
        self._schedule.call()

    def answer(self) -> Answer:
        """T, and how far it can be trusted now."""
        sites = list(self.membership.members().values())
        due = self._schedule.due
        quiet = self.phase == CALM and not due and not any(s.alert for s in sites)
        sure = self.phase == WATCHING and not due
        watched = sure and self._watch is not None and self._watch.sure
        if self.barrier:
            proven = quiet or watched
            as_of = int(self._now) if proven else self._as_of
        else:
            if self.phase in (CALM, POLLING) and not due:
                self._as_of = calm_until(sites, self._as_of)
            as_of = self._as_of
            newest = max((site.unit for site in sites), default=0)
            recent = as_of is not None and newest - as_of <= self.lease
            proven = recent and ((quiet and confirmed(sites)) or watched)
        return answer_of(self.top, sites, self.missing, self.epsilon, as_of, proven=proven)

    def to_bytes(self) -> bytes:
        """What a restart needs, as canonical JSON: save it now and then, best when T changed."""
        top = [item for item in self.top if item != NOTHING]
        saved = Saved(
            format=1, epoch=self.epoch, k=self.k, epsilon=self.epsilon, sites=[*self.sites], top=top
        )
        return saved.to_bytes()

    @classmethod
    def from_bytes(cls, data: bytes, *, epoch: int = 0, **options: Any) -> Coordinator:
        """A coordinator that goes on from `to_bytes`, however old: it surveys its sites anew.

        `epoch`: of the first survey at least, as in the constructor. Two that go on from the same
        bytes, since the first ended before it was saved, need different ones: with the same, a site
        may hold what the first one said and be taken to hold what the second says.
        `options` are those of the constructor beyond sites, k, epsilon and epoch.

        Raises
        ------
        CorruptMessage
            The bytes are not such a state.
        """
        saved = Saved.from_bytes(data)
        epoch, k, top = max(epoch, saved.epoch + EPOCH_STEP), saved.k, saved.top
        found = cls(saved.sites, k, epsilon=saved.epsilon, epoch=epoch, **options)
        found.membership.top = (*top, *([NOTHING] if len(top) < k else []))[:k]
        return found

    # -- what is due

    def _act(self, now: float) -> Addressed:
        if self._schedule.due:
            if self.phase != IDLE and not any(site.present for site in self.sites.values()):
                self._move("no sites")
            return self._begin_survey(now) if self._schedule.ready(now) else []
        if self.phase == CALM and any(s.alert for s in self.membership.members().values()):
            return self._begin_round(now)
        if self.phase == WATCHING and (out := self._watch_on(now)):
            return out
        return [] if self.barrier else self._pending.again(self.membership, self.retry, now)

    # -- survey

    def _begin_survey(self, now: float) -> Addressed:
        self._move("sites changed")
        self._schedule.begin()
        self.surveys += 1
        self.membership.begin_epoch()
        if self.hybrid:
            self.hybrid.survey_begins()
        self._watch = self._as_of = self._factors_max = None
        self._survey = Survey(self.k)
        self._round = None
        self._pending.begin()
        return self._request(self.membership.members(), Ask((), self.k), now)

    def _request(self, names: Iterable[str], ask: Ask, now: float) -> Addressed:
        if not fits(ask.objects):
            return self._unanswerable(now)
        requests = self._pending.ask([self.sites[name] for name in names], self.epoch, ask, now)
        if requests is None:
            self._schedule.call()
        return requests or []

    def _unanswerable(self, now: float) -> Addressed:
        """More objects tie than a message holds: all is pushed, or it is tried again later."""
        self._pending.drop()
        surveyed, self._survey = self._survey is not None, None
        if self.hybrid and not self.hybrid.refused:
            if surveyed:
                self.hybrid.survey_ends()
            return self._begin_watch().push_everything(now)
        self.tied = True
        self._schedule.call(now + self.retry)
        return []

    # -- resolution

    def _begin_round(self, now: float) -> Addressed:
        self._move("alerts")
        self._pending.begin()
        sites = self.membership.members()
        round_ = self._resolve({name: site.alert for name, site in sites.items() if site.alert})
        if self.hybrid:
            afforded = self.hybrid.affords([])
            pays = afforded and self.hybrid.should_push(self.membership, self.k)
            if not afforded or (pays and self.hybrid.everything):
                return self._begin_watch().push_everything(now)
            round_.everyone = pays
        return self._advance(now)

    def _resolve(self, reports: dict[str, Report]) -> Round:
        self._round = Round(self.k, self.epsilon, self.policy, self.membership, reports)
        return self._round

    def _advance(self, now: float) -> Addressed:
        assert self._round is not None  # noqa: S101  (phase polling, or the end of a survey)
        step = self._round.step()
        if step is None:
            return self._unanswerable(now)
        if isinstance(step, AskSites):
            out = self._request(step.sites, step.ask, now)
            if self.phase == POLLING and self.hybrid and not self.hybrid.affords(out):
                self._pending.drop()
                return self._begin_watch().push_everything(now)
            return out
        return self._conclude(step, now)

    def _conclude(self, done: Resolved, now: float) -> Addressed:
        round_, self._round = self._round, None
        assert round_ is not None  # noqa: S101
        given = dict(zip(done.sites, done.allocation.sites, strict=True))
        if not all(self.sites[name].can_take(new.keys(), done.top) for name, new in given.items()):
            return self._unanswerable(now)
        self._pending.drop()
        if done.everyone:
            self.full += 1
        else:
            self.partial += 1
        if fresh := self.membership.set_top(done.top):
            self._as_of = None
        for name in done.sites:
            values = round_.reports[name].values
            self.sites[name].reported = {a: values.get(a, 0) for a in done.top}
        asked_all = self.phase == POLLING and done.everyone
        if asked_all and self.hybrid and self.hybrid.should_push(self.membership, self.k):
            sites = self.membership.members()
            chosen = round_.contenders(done.top, self.hybrid.runners_up)
            if chosen is not None and all(
                site.can_take(new.keys(), chosen[0])
                for site, new in zip(sites.values(), chosen[1].sites, strict=True)
            ):
                return self._begin_watch().contenders(*chosen, self.epsilon, now)
            self.hybrid.cannot_push()
        self._move("resolved")
        self.tied = False
        put(self.membership.own, done.allocation.coordinator)
        out: Addressed = []
        for name, new in given.items():
            site = self.sites[name]
            says_top = fresh or site.version == 0 or site.watching or self._watch is not None
            site.install(new, done.top if says_top else None)
            site.resolved = self.partial + self.full
            out.append(self.membership.send(site, now))
        self._watch = None
        if self._factors_max is None:
            self._factors_max = 2 * self.membership.most_factors + FACTORS_MORE
        elif self.membership.most_factors > self._factors_max:
            self._schedule.call()
        return out

    # -- watching

    def _begin_watch(self) -> WatchMode:
        assert self.hybrid is not None  # noqa: S101
        self._move("pushing pays")
        self._round, self.tied = None, False
        self._watch = WatchMode(self.membership, self.hybrid)
        return self._watch

    def _watch_on(self, now: float) -> Addressed:
        """Judge the newest unit that all sites have pushed."""
        assert self._watch is not None  # noqa: S101
        if not self.barrier and (mended := self._watch.mend(now, self.retry)):
            return mended
        judged = self._watch.judge(self.k, self.epsilon, self._as_of, now)
        if judged.lost:
            return self._begin_survey(now)
        if judged.unit is not None:
            self._as_of = judged.unit
        if judged.reports is not None:
            assert self.hybrid is not None  # noqa: S101
            self._move("resolving pays")
            self.hybrid.begin(pushing=False)
            self._pending.begin()
            self._resolve(judged.reports)
            return self._advance(now)
        return judged.say or []

    # -- what sites say

    def _hello(self, site: SiteState, message: Hello, now: float) -> Addressed:
        """A site says that it holds no factors; unless it said so before it got them."""
        newer = self._schedule.greeted(site, message)
        if self.phase == SURVEY or self._schedule.due:
            return []
        everything = self._watch is not None and self._watch.everything
        if message.epoch == self.epoch and not site.acked and not newer:
            site.hellos += everything
            if site.hellos < HELLOS_BELIEVED:
                return [self.membership.send(site, now)]  # what was said first was lost
        if self.hybrid and everything and message.epoch == self.epoch:
            self.hybrid.refuse_everything()  # it had too much to tell
        if self._schedule.believes(site, message, newer=newer):
            self._schedule.call()
        return []

    def _alerted(self, site: SiteState, alert: Alert, _now: float) -> Addressed:
        if self.phase not in (CALM, POLLING) or alert.version != site.version:
            return []
        values = dict(alert.entries)
        if not all(item in values for item in self.top):
            raise CorruptMessage(f"site {site.name!r} alerts without the members of T")
        site.acknowledge(alert.version)
        if self.hybrid:
            self.hybrid.record(site.name, alert)
        site.alert = Report(values, alert.border)
        if self._round is not None and site.name not in self._round.reports:
            self._round.reports[site.name] = site.alert
        return []

    def _replied(self, site: SiteState, reply: Reply, now: float) -> Addressed:
        replies = self._pending.take(site, reply)
        if replies is None:
            return []
        if self._survey is not None:
            ask = self._survey.receive(replies)
            if self._survey.hopeless:
                return self._unanswerable(now)
            if ask is not None:
                return self._request(replies, ask, now)
            self._survey = None
            if self.hybrid:
                self.hybrid.survey_ends()
            self._resolve({})
        assert self._round is not None  # noqa: S101
        for name, reply in replies.items():
            self._round.reports[name] = Report(dict(reply.entries), reply.border)
        return self._advance(now)

    def _calmed(self, site: SiteState, calm: Calm, _now: float) -> Addressed:
        if calm.version != site.version or calm.since > calm.unit:
            return []
        site.acknowledge(calm.version)
        site.since = calm.since
        site.until = calm.unit if site.until is None else max(site.until, calm.unit)
        return []

    def _pushed(self, site: SiteState, push: Push, now: float) -> Addressed:
        if self._watch is not None:
            self._watch.take(site, push, now)
        return []

    def _move(self, cause: str) -> None:
        self.phase = NEXT[self.phase, cause]


_HANDLERS: dict[type[FromSite], Callable[..., Addressed]] = {
    Alert: Coordinator._alerted,
    Reply: Coordinator._replied,
    Calm: Coordinator._calmed,
    Push: Coordinator._pushed,
}
