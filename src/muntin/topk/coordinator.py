"""The coordinator's half of the protocol: keeps T the top k of all sites. No clock, no socket.

Phase     Means
--------  ------------------------------------------------------------------------------------
idle      no site is present
survey    asks all present sites for their largest values (see `bootstrap`), in a new epoch
calm      factors are out; acts when a site alerts
polling   a resolution is asking sites
watching  sites push the contenders' values at every slide (see `watching`)

A message in is answered by messages out; `tick` starts what several messages may have caused,
repeats what got no answer, and finds sites missing. Time is `now`, in window units.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from muntin.errors import BadArgument, CorruptMessage, UnknownName
from muntin.topk.answer import Answer, Item
from muntin.topk.bootstrap import Survey
from muntin.topk.hybrid import CostModel
from muntin.topk.messages import (
    K_MAX,
    LINE_ALL,
    NOTHING,
    SITES_MAX,
    VALUE_MAX,
    Alert,
    Calm,
    Factors,
    Hello,
    Message,
    Object,
    Push,
    Reply,
    Request,
    Watch,
    order,
)
from muntin.topk.objects import check_object
from muntin.topk.policy import Policy, policy_named
from muntin.topk.resolution import Allocation, Report
from muntin.topk.roster import Site
from muntin.topk.round import Ask, Resolved, Round
from muntin.topk.watching import Watching

IDLE, SURVEY, CALM, POLLING, WATCHING = "idle", "survey", "calm", "polling", "watching"

# The whole life of a coordinator: (phase, what happens) -> phase.
NEXT: dict[tuple[str, str], str] = {
    **{(phase, "sites changed"): SURVEY for phase in (IDLE, SURVEY, CALM, POLLING, WATCHING)},
    **{(phase, "no sites"): IDLE for phase in (IDLE, SURVEY, CALM, POLLING, WATCHING)},
    (SURVEY, "resolved"): CALM,
    (CALM, "alerts"): POLLING,
    (POLLING, "resolved"): CALM,
    (POLLING, "pushing pays"): WATCHING,
    (WATCHING, "resolving pays"): POLLING,
}

STATE_FORMAT = 1
EPOCH_STEP = 1 << 16  # a restart skips the epochs that may have been used after the last saving
EPOCHS_AHEAD_MAX = 1 << 40  # a site that claims to be further ahead is not believed
HELLOS_BELIEVED = 4  # in a row: a late one or two are what is left of an earlier start
KEPT_UNITS = 32  # pushes of so many units wait for those of the other sites
ROUNDS_MAX = 40  # requests of one resolution before it is begun again as a survey

Addressed = list[tuple[str, Message]]


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
        epoch: int = 0,
    ) -> None:
        names = list(sites)
        if not 1 <= len(set(names)) == len(names) <= SITES_MAX:
            raise BadArgument(f"{len(names)} sites: give 1 to {SITES_MAX} different names")
        self.sites = {name: Site(name) for name in names}
        self.k, self.epsilon = _checked(k, epsilon)
        self.policy = policy_named(policy)
        self.hybrid = hybrid
        self.barrier = barrier
        self.retry, self.missing_after, self.lease = retry, missing_after, lease
        self.epoch = epoch
        self.phase = IDLE
        self.top: tuple[Object, ...] = ()
        self.own: dict[Object, int] = {}
        self.partial = self.full = self.surveys = self.changes = 0
        self._started: float | None = None
        self._survey: Survey | None = None
        self._survey_due = True
        self._round: Round | None = None
        self._rounds = 0  # requests so far, numbers the replies
        self._rounds_left = 0
        self._requests: dict[str, Request] = {}
        self._replies: dict[str, Reply] = {}
        self._resolutions = 0
        self._watching: Watching | None = None
        self._as_of: int | None = None
        self._sure = False  # the last verdict while watching
        self._now = 0.0

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
        if message.epoch > self.epoch + EPOCHS_AHEAD_MAX:
            raise CorruptMessage(f"site {name!r} claims epoch {message.epoch}, not {self.epoch}")
        handle = _HANDLERS.get(type(message))
        if isinstance(message, Request | Factors | Watch):
            raise CorruptMessage(f"a {type(message).__name__} does not come from a site")
        _check_values(name, message)
        if self.hybrid:
            self.hybrid.charge(message)
        site.heard = now
        if message.epoch > self.epoch:  # this coordinator was restored from an older state
            self.epoch = message.epoch
            self._survey_due = True
        if not site.present:  # it is missing until a survey takes it in
            site.present = True
            self._survey_due = True
        if isinstance(message, Hello):
            return self._charged(self._hello(site, message, now))
        assert handle is not None  # noqa: S101
        if message.epoch != self.epoch or not site.member:
            return []
        if message.version > site.version:  # said to an earlier coordinator in the same epoch
            self.epoch += EPOCH_STEP
            self._survey_due = True
            return []
        site.unit = max(site.unit, message.unit)
        site.hellos = 0
        return self._charged(handle(self, site, message, now))

    def tick(self, now: float) -> Addressed:
        """Let time pass: `now` in window units, from any origin, never going back."""
        if self._started is None:
            self._started = now
            for site in self.sites.values():
                site.heard = now
                site.present = self.barrier
        self._slides_passed(now)
        self._look_for_missing(now)
        return self._charged(self._act(now))

    def _act(self, now: float) -> Addressed:
        if self._survey_due and self._ready_for_survey(now):
            return self._begin_survey(now)
        if self.phase == CALM and any(site.alert for site in self._members()):
            return self._begin_round(now)
        if self.phase == WATCHING and (out := self._watch_on(now)):
            return out
        return [] if self.barrier else self._repeat(now)

    def _charged(self, out: Addressed) -> Addressed:
        if self.hybrid:
            for _, message in out:
                self.hybrid.charge(message)
        return out

    def _slides_passed(self, now: float) -> None:
        if self.hybrid:
            for _ in range(min(1000, int(now) - int(self._now))):
                self.hybrid.slide(len(self._members()), self.k)
        self._now = now

    def set_k(self, k: int, epsilon: int | None = None) -> None:
        """Change k (and epsilon) from the next tick on."""
        self.k, self.epsilon = _checked(k, self.epsilon if epsilon is None else epsilon)
        self._as_of = None
        self._survey_due = True

    @property
    def missing(self) -> tuple[str, ...]:
        """Sites that take no part: not heard of, or not taken in yet."""
        return tuple(site.name for site in self.sites.values() if not site.member)

    def answer(self) -> Answer:
        """T, and how far it can be trusted now."""
        sites = self._members()
        quiet = self.phase == CALM and not self._survey_due and not any(s.alert for s in sites)
        if self.barrier:
            proven = quiet or (self.phase == WATCHING and self._sure and not self._survey_due)
            as_of = int(self._now) if proven else self._as_of
        else:
            self._prove(sites)
            as_of = self._as_of
            newest = max((site.unit for site in sites), default=0)
            recent = as_of is not None and newest - as_of <= self.lease
            settled = quiet and self._confirmed(sites)
            watched = self.phase == WATCHING and self._sure and not self._survey_due
            proven = recent and (settled or watched)
        valid = proven and not self.missing and bool(self.top)
        values = {
            item: [site.told[item] for site in sites if item in site.told]
            for item in self.top
            if item != NOTHING
        }
        items = [Item(item, sum(told) if told else None) for item, told in values.items()]
        items.sort(key=lambda item: (-(item.value or 0), order(item.object)))
        bound = None if as_of is None else self.epsilon
        return Answer(valid, as_of, tuple(items), self.missing, bound)

    def _confirmed(self, sites: list[Site]) -> bool:
        """Every site holds the factors last sent, and was calm with them at some common unit."""
        return all(s.acked == s.version and s.until is not None for s in sites) and (
            max((s.since or 0 for s in sites), default=1)
            <= min((s.until or 0 for s in sites), default=0)
        )

    def _prove(self, sites: list[Site]) -> None:
        """Note the newest unit at which all sites were calm with the factors of now."""
        settled = self.phase in (CALM, POLLING) and not self._survey_due
        if settled and sites and self._confirmed(sites):
            until = min(site.until or 0 for site in sites)
            self._as_of = until if self._as_of is None else max(self._as_of, until)

    def to_bytes(self) -> bytes:
        """What a restart needs, as canonical JSON: save it now and then, best when T changed."""
        state = {
            "format": STATE_FORMAT,
            "epoch": self.epoch,
            "k": self.k,
            "epsilon": self.epsilon,
            "sites": list(self.sites),
            "top": [item for item in self.top if item != NOTHING],
        }
        return json.dumps(state, sort_keys=True, separators=(",", ":")).encode()

    @classmethod
    def from_bytes(cls, data: bytes, **options: Any) -> Coordinator:
        """A coordinator that goes on from `to_bytes`, however old: it surveys its sites anew.

        `options` are those of the constructor beyond sites, k, epsilon and epoch.

        Raises
        ------
        CorruptMessage
            The bytes are not such a state.
        """
        try:
            state = json.loads(bytes(data))
            if state.pop("format") != STATE_FORMAT:
                raise CorruptMessage("state of a coordinator in another format: another Muntin?")
            sites, top, epoch = state.pop("sites"), state.pop("top"), state.pop("epoch")
            k, epsilon = state.pop("k"), state.pop("epsilon")
            whole = all(isinstance(number, int) for number in (epoch, k, epsilon))
            if state or not whole or not 0 <= epoch < 1 << 62 or not isinstance(top, list):
                raise CorruptMessage("state of a coordinator: unknown entries or wrong types")
            for item in top:
                check_object(item)
            if not isinstance(sites, list) or not all(isinstance(name, str) for name in sites):
                raise CorruptMessage("state of a coordinator: sites are not names")
            found = cls(sites, k, epsilon=epsilon, epoch=epoch + EPOCH_STEP, **options)
        except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as problem:
            raise CorruptMessage(f"not the state of a coordinator: {problem}") from None
        found.top = (*top, *([NOTHING] if len(top) < k else []))[:k]
        return found

    # -- survey

    def _ready_for_survey(self, now: float) -> bool:
        """At the very start, wait a little for all sites to be there."""
        present = [site for site in self.sites.values() if site.present]
        if not present:
            if self.phase != IDLE:
                self._move("no sites")
            return False
        started = self._started if self._started is not None else now
        everyone = len(present) == len(self.sites)
        return everyone or self.surveys > 0 or now - started >= self.missing_after

    def _begin_survey(self, now: float) -> Addressed:
        self._move("sites changed")
        self._survey_due = False
        self.surveys += 1
        self.epoch += 1
        self.own = {}
        for site in self.sites.values():
            site.member = site.present
            site.reset()
        if self._watching and self.hybrid:
            self.hybrid.resolved()
        self._watching = None
        self._as_of = None
        self._survey = Survey(self.k)
        self._round = None
        self._rounds_left = ROUNDS_MAX
        ask = self._survey.first()
        return self._request(self._names(), ask.objects, ask.more, None, now)

    def _request(
        self,
        names: list[str],
        objects: tuple[Object, ...],
        more: int,
        at_least: dict[str, int] | None,
        now: float,
    ) -> Addressed:
        if self._rounds_left == 0:  # values move faster than they are asked for: start afresh
            self._survey_due = True
            return []
        self._rounds_left -= 1
        self._rounds += 1
        self._replies = {}
        self._requests = {
            name: Request(
                self.epoch,
                self.sites[name].version,
                self._rounds,
                objects,
                more,
                None if at_least is None else at_least[name],
            )
            for name in names
        }
        for name in names:
            self.sites[name].sent_at = now
        return list(self._requests.items())

    # -- resolution

    def _begin_round(self, now: float) -> Addressed:
        self._move("alerts")
        self._round = Round(self.k, self.epsilon, self.policy, self.top)
        self._rounds_left = ROUNDS_MAX
        for site in self._members():
            if site.alert:
                self._round.reports[site.name] = site.alert
        pays = self._pushing_pays()
        if pays and self.hybrid and self.hybrid.everything:
            return self._watch_everything(now)
        self._round.everyone = pays
        return self._advance(now)

    def _pushing_pays(self) -> bool:
        if self.hybrid is None or not self.hybrid.should_push(len(self._members()), self.k):
            return False
        if NOTHING in self.top and not self.hybrid.everything:  # no lines can be drawn below it
            if not self.barrier:
                return False
            self.hybrid.push_everything()
        return True

    def _advance(self, now: float) -> Addressed:
        assert self._round is not None  # noqa: S101  (phase polling, or the end of a survey)
        step = self._round.step(self._taking_part(), self.own)
        if isinstance(step, Ask):
            return self._request(step.sites, step.objects, step.more, None, now)
        return self._conclude(step, now)

    def _conclude(self, done: Resolved, now: float) -> Addressed:
        round_, self._round = self._round, None
        assert round_ is not None  # noqa: S101
        self._requests = {}
        self._resolutions += 1
        if done.everyone:
            self.full += 1
        else:
            self.partial += 1
        fresh = self._set_top(done.top)
        for name in done.sites:
            values = round_.reports[name].values
            self.sites[name].told = {a: values.get(a, 0) for a in done.top}
        if self.phase == POLLING and done.everyone and self.hybrid and self._pushing_pays():
            sites = self._taking_part()
            chosen = round_.contenders(done.top, sites, self.own, self.hybrid.runners_up)
            if chosen is not None:
                return self._begin_watch(*chosen, now)
            self.hybrid.cannot_push()
        self._move("resolved")
        self._set_own(done.allocation.coordinator)
        out: Addressed = []
        for name, new in zip(done.sites, done.allocation.sites, strict=True):
            site = self.sites[name]
            says_top = fresh or site.version == 0 or site.watching or self._watching is not None
            site.install(new, done.top if says_top else None)
            site.resolved = self._resolutions
            out.append(self._send(site, now))
        self._watching = None
        return out

    def _set_top(self, top: tuple[Object, ...]) -> bool:
        fresh = set(top) != set(self.top)
        if fresh:
            self.changes += bool(self.top)
            self._as_of = None
        self.top = top
        return fresh

    def _set_own(self, new: dict[Object, int]) -> None:
        for item, factor in new.items():
            if factor:
                self.own[item] = factor
            else:
                self.own.pop(item, None)

    # -- watching

    def _begin_watch(
        self, objects: tuple[Object, ...], allocation: Allocation, now: float
    ) -> Addressed:
        assert self.hybrid is not None  # noqa: S101
        self._move("pushing pays")
        self.hybrid.pushed()
        self._set_own(allocation.coordinator)
        names = self._names()
        self._watching = Watching(
            dict(zip(names, allocation.lines[1:], strict=True)),
            allocation.lines[0],
            self.hybrid,
        )
        least = min(sum(self.sites[name].told[a] for name in names) for a in self.top)
        self._watching.raise_below(least + self.epsilon)
        self._sure = False
        out: Addressed = []
        for name, new in zip(names, allocation.sites, strict=True):
            site = self.sites[name]
            site.watch(set(objects), self._watching.lines[name], new)
            out.append(self._send(site, now))
        return out

    def _watch_everything(self, now: float) -> Addressed:
        assert self.hybrid is not None  # noqa: S101
        if self._watching is None:
            self._move("pushing pays")
            self.hybrid.pushed()
            self._round = None
            self._watching = Watching(dict.fromkeys(self._names(), 0), 0, self.hybrid)
        self._watching.push_everything()
        self._sure = False
        out: Addressed = []
        for site in self._members():
            site.watch(set(), LINE_ALL)
            out.append(self._send(site, now))
        return out

    def _watch_on(self, now: float) -> Addressed:
        """Judge the newest unit that all sites have pushed."""
        assert self._watching is not None  # noqa: S101
        sites = self._taking_part()
        if self.barrier:
            values, unit = {name: site.values for name, site in sites.items()}, int(now)
            if any(site.acked < site.version for site in sites.values()):
                return []
        else:
            units = set.intersection(*(set(site.pushed) for site in sites.values()))
            unit = max(units, default=-1)
            if unit < 0 or (self._sure and unit <= (self._as_of or 0)):
                return []
            values = {name: site.pushed[unit] for name, site in sites.items()}
        verdict = self._watching.judge(values, sites, self.own, self.k, self.top, self.epsilon)
        self._sure = verdict.valid
        if verdict.valid:
            self._set_top(verdict.top)
            self._as_of = unit
            for name, site in sites.items():
                site.told = {a: values[name].get(a, 0) for a in verdict.top}
            if self.hybrid and self.hybrid.should_resolve():
                return self._end_watch(values, now)
            # Without a barrier a push holds all values, not those that changed: too much.
            model = self.hybrid if self.barrier else None
            if model is not None and model.should_push_everything(len(sites)):
                model.push_everything()
                return self._watch_everything(now)
            return []
        lines = dict(self._watching.lines)
        if verdict.lower:
            self._watching.set_height(verdict.height)
        out: Addressed = []
        for name, site in sites.items():
            more = verdict.ask.get(name, set())
            if more - site.watched or self._watching.lines[name] != lines[name]:
                site.watch(more, self._watching.lines[name])
                out.append(self._send(site, now))
        # Lines at 0 prove nothing about objects that the coordinator's own factors favour.
        return out or self._begin_survey(now)

    def _end_watch(self, values: dict[str, dict[Object, int]], now: float) -> Addressed:
        assert self._watching is not None  # noqa: S101
        assert self.hybrid is not None  # noqa: S101
        self._move("resolving pays")
        self.hybrid.resolved()
        self._round = Round(self.k, self.epsilon, self.policy, self.top)
        self._rounds_left = ROUNDS_MAX
        self._round.reports.update(self._watching.reports(values, self._taking_part(), self.top))
        return self._advance(now)

    def _send(self, site: Site, now: float) -> tuple[str, Message]:
        message = site.outstanding(self.epoch)
        site.sent_at = now
        if self.barrier:
            site.acknowledge(site.version)
        return site.name, message

    # -- what sites say

    def _hello(self, site: Site, message: Hello, now: float) -> Addressed:
        """A site says that it holds no factors; unless it said so before it got them."""
        if self.phase == SURVEY or self._survey_due:
            return []
        if message.epoch == self.epoch and not site.acked:
            return [self._send(site, now)]  # the first factors were lost
        site.hellos += 1
        if message.unit > site.unit or site.hellos >= HELLOS_BELIEVED:
            self._survey_due = True  # it started anew
        return []

    def _alerted(self, site: Site, alert: Alert, _now: float) -> Addressed:
        if self.phase not in (CALM, POLLING) or alert.version != site.version:
            return []
        values = dict(alert.entries)
        if not all(item in values for item in self.top):
            raise CorruptMessage(f"site {site.name!r} alerts without the members of T")
        site.acknowledge(alert.version)
        if self.hybrid:
            self.hybrid.told(site.name, alert.busy)
        site.alert = Report(values, alert.border)
        if self._round is not None and site.name not in self._round.reports:
            self._round.reports[site.name] = site.alert
        return []

    def _replied(self, site: Site, reply: Reply, now: float) -> Addressed:
        request = self._requests.get(site.name)
        if request is None or reply.round != request.round or reply.version != site.version:
            return []
        values = dict(reply.entries)
        if not all(item in values for item in request.objects):
            raise CorruptMessage(f"site {site.name!r} replies without what was asked for")
        self._replies[site.name] = reply
        if len(self._replies) < len(self._requests):
            return []
        replies, self._requests = self._replies, {}
        if self._survey is not None:
            ask = self._survey.told(replies)
            if ask is not None:
                names = list(replies)
                at_least = None if ask.at_least is None else dict(ask.at_least)
                return self._request(names, ask.objects, ask.more, at_least, now)
            self._survey = None
            self._round = Round(self.k, self.epsilon, self.policy, self.top)
        assert self._round is not None  # noqa: S101
        for name, told in replies.items():
            self._round.reports[name] = Report(dict(told.entries), told.border)
        return self._advance(now)

    def _calmed(self, site: Site, calm: Calm, _now: float) -> Addressed:
        if calm.version != site.version or calm.since > calm.unit:
            return []
        site.acknowledge(calm.version)
        site.since = calm.since
        site.until = calm.unit if site.until is None else max(site.until, calm.unit)
        return []

    def _pushed(self, site: Site, push: Push, _now: float) -> Addressed:
        if self._watching is None or not site.watching or push.version != site.version:
            return []
        site.acknowledge(push.version)
        values = dict(push.entries)
        if self.barrier:
            line = self._watching.lines[site.name]
            for item, value in values.items():
                kept = value if line == LINE_ALL else value + site.factors.get(item, 0) > line
                if kept or item in site.watched:
                    site.values[item] = value
                else:
                    site.values.pop(item, None)
        elif not site.watched <= values.keys():
            raise CorruptMessage(f"site {site.name!r} pushes less than it watches")
        else:
            site.pushed[push.unit] = values
            for unit in sorted(site.pushed)[:-KEPT_UNITS]:
                del site.pushed[unit]
        return []

    # -- time

    def _look_for_missing(self, now: float) -> None:
        if self.barrier:
            return
        for site in self.sites.values():
            if site.present and now - site.heard > self.missing_after:
                site.present = site.member = False
                self._as_of = None  # what was proven, was so with this site
                self._survey_due = True

    def _repeat(self, now: float) -> Addressed:
        out: Addressed = []
        for site in self._members():
            if now - site.sent_at < self.retry:
                continue
            if site.name in self._requests and site.name not in self._replies:
                site.sent_at = now
                if site.acked < site.version:
                    out.append((site.name, site.outstanding(self.epoch)))
                out.append((site.name, self._requests[site.name]))
            elif site.acked < site.version:
                out.append(self._send(site, now))
        return out

    # -- small things

    def _move(self, cause: str) -> None:
        self.phase = NEXT[self.phase, cause]

    def _members(self) -> list[Site]:
        return [site for site in self.sites.values() if site.member]

    def _names(self) -> list[str]:
        return [site.name for site in self._members()]

    def _taking_part(self) -> dict[str, Site]:
        return {site.name: site for site in self._members()}


_HANDLERS = {
    Alert: Coordinator._alerted,
    Reply: Coordinator._replied,
    Calm: Coordinator._calmed,
    Push: Coordinator._pushed,
}


def _checked(k: int, epsilon: int) -> tuple[int, int]:
    if not 1 <= k <= K_MAX:
        raise BadArgument(f"k is {k}: give 1 to {K_MAX}")
    if not 0 <= epsilon <= VALUE_MAX:
        raise BadArgument(f"epsilon is {epsilon}: give 0 to 2**50, in units of the values")
    return k, epsilon


def _check_values(name: str, message: Message) -> None:
    if isinstance(message, Alert | Reply | Push) and any(
        not -VALUE_MAX <= value <= VALUE_MAX for _, value in message.entries
    ):
        raise CorruptMessage(f"site {name!r} sends a value beyond +-2**50")
