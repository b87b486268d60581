"""What a coordinator tells of itself: its answer, its sites, what was sent, how it went.

Taken on the server's event loop; its attributes are whole values that any thread may read.
"""

import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pyarrow as pa

from muntin.select.functions import GLOBAL_TOP_K
from muntin.sites.counts import SiteCounts, totals
from muntin.sites.spec import CoordinatorSpec
from muntin.times import instant_text, now_us
from muntin.topk import Answer, Coordinator, Object
from muntin.topk.messages import NOTHING
from muntin.topk.site import UNIT_MIN

Unscaled = int | float | None
_MOMENT = pa.timestamp("us")


@dataclass(frozen=True, slots=True)
class TopKSnapshot:
    """The top k, and how far it can be trusted, in the units of the source: what `top_k` asks.

    `stale`: the answer's unit has not moved for longer than the lease: no site seals panes any
      more.
    `problem`: why no answer is valid, though all sites are there.
    """

    answer: Answer
    k: int
    epsilon: int
    spec: CoordinatorSpec
    stale: bool
    problem: str = ""
    kind: ClassVar[str] = GLOBAL_TOP_K

    def top(self, k: int) -> pa.Table:
        """At most `k` rows, and not more than the coordinator keeps: item, value, valid, as_of."""
        items, covered = self.items[:k], self.covered
        plain = all(isinstance(item, int) for item, _ in items) and bool(items)
        names = [item if plain else str(item) for item, _ in items]
        values = [value for _, value in items]
        whole = pa.int64() if self.spec.scale is None else pa.float64()
        return pa.table(
            {
                "item": pa.array(names, pa.int64() if plain else pa.string()),
                "value": pa.array(values, whole),
                "valid": pa.array([self.answer.valid] * len(items), pa.bool_()),
                "as_of": pa.array([covered[1] if covered else None] * len(items), _MOMENT),
            }
        )

    @property
    def items(self) -> tuple[tuple[Object, Unscaled], ...]:
        """With the values that their sites reported last; at most k, also where T is of before."""
        items = self.answer.items[: self.k]
        return tuple((item.object, self._unscaled(item.value)) for item in items)

    @property
    def covered(self) -> tuple[int, int] | None:
        """The window that ends with the answer's unit; microseconds since 1970 UTC."""
        if self.answer.as_of is None:
            return None
        end = (self.answer.as_of + 1) * self.spec.unit
        return end - self.spec.window, end

    def promises(self) -> dict[str, Any]:
        """What may be relied on, as JSON values."""
        covered = self.covered
        return {
            "k": self.k,
            "valid": self.answer.valid,
            "as_of": instant_text(covered[1]) if covered else None,
            "missing_sites": list(self.answer.missing_sites),
            "bound": self._unscaled(self.answer.bound),
            "stale": self.stale,
            **({"problem": self.problem} if self.problem else {}),
        }

    def to_dict(self) -> dict[str, Any]:
        """The body of GET /top_k."""
        ends = [instant_text(moment) for moment in self.covered or ()]
        return {
            "epsilon": self._unscaled(self.epsilon),
            **self.promises(),
            "unit": self.answer.as_of,
            "window": dict(zip(("start", "end"), ends, strict=True)) if ends else None,
            "items": [{"item": item, "value": value} for item, value in self.items],
        }

    def _unscaled(self, value: int | None) -> Unscaled:
        scale = self.spec.scale
        return value if value is None or scale is None else value / scale


HISTORY_MAX = 256  # changes of T
HISTORY_PUSHED_MAX = 16
PACE_MAX = 512  # points of the traffic's course
PACE_SECONDS = 2.0


class Status:
    """What readers see now, and the course of things.

    `snapshot`: the answer.
    `state`: everything, as JSON values; docs/topk.md describes it.
    `pushed`: the same without what grows long: it is pushed twice a second.
    """

    snapshot: TopKSnapshot
    state: dict[str, Any]
    pushed: dict[str, Any]

    def __init__(
        self,
        spec: CoordinatorSpec,
        run: str,
        counts: Mapping[str, SiteCounts],
        refused: Mapping[int, int],
        problems: Mapping[str, str],
    ) -> None:
        self._spec = spec
        self._run = run
        self._counts, self._refused, self._problems = counts, refused, problems
        self._started = instant_text(now_us())
        self._history: deque[dict[str, Any]] = deque(maxlen=HISTORY_MAX)
        self._pace: deque[dict[str, Any]] = deque(maxlen=PACE_MAX)
        self._pace_at: float | None = None
        self._top: tuple[Any, ...] | None = None
        self._as_of: tuple[int | None, float] = (None, 0.0)
        self._settled = (0.0, 0)  # when an answer was valid, and resolutions until then
        self._said: tuple[Any, ...] = ()

    def renew(
        self, coordinator: Coordinator, connected: Mapping[str, int], now: float, problem: str
    ) -> bool:
        """Renew it; whether the answer, or who is connected, is another.

        `connected`: sites that are connected -> since when, in microseconds since 1970.
        `now`: in window units.
        `problem`: see `TopKSnapshot`.
        """
        self._note_top(coordinator)
        self._note_pace()
        snapshot = self._seen(coordinator, now, problem)
        known = bool(self._said) and snapshot == self._said[0]
        state = {
            "name": self._spec.name,
            "run": self._run,
            "started": self._started,
            "ranking": {**self._spec.said(), "policy": self._spec.policy},
            "phase": coordinator.phase,
            "epoch": coordinator.epoch,
            "surveys": coordinator.surveys,
            "resolutions": {"partial": coordinator.partial, "full": coordinator.full},
            "changes": coordinator.membership.changes,
            "hybrid": dict(coordinator.hybrid.state()) if coordinator.hybrid else None,
            "answer": self.state["answer"] if known else snapshot.to_dict(),
            "sites": [
                _site(coordinator.sites[name], counts, connected.get(name))
                | {"problem": self._problems.get(name, "")}
                for name, counts in self._counts.items()
            ],
            "traffic": totals(self._counts.values()),
            "pace": list(self._pace),
            "history": list(self._history),
            "refused": {str(code): number for code, number in sorted(self._refused.items())},
        }
        pushed = {**state, "history": state["history"][-HISTORY_PUSHED_MAX:]}
        del pushed["pace"]
        # only now: readers in other threads never see half of one that failed
        self.snapshot, self.state, self.pushed = snapshot, state, pushed
        said = (snapshot, frozenset(connected))
        moved, self._said = said != self._said, said
        return moved

    def _seen(self, coordinator: Coordinator, now: float, problem: str) -> TopKSnapshot:
        answer = coordinator.answer()
        if problem:
            answer = replace(answer, valid=False, bound=None)
        if answer.as_of != self._as_of[0]:
            self._as_of = (answer.as_of, now)
        stale = answer.as_of is not None and now - self._as_of[1] > self._spec.lease
        resolved = coordinator.partial + coordinator.full
        if answer.valid or answer.missing_sites:
            self._settled = (now, resolved)
        since, before = self._settled
        unsettled = now - since > self._spec.lease and resolved > before + 1
        problem = problem or _trouble(coordinator, unsettled=unsettled)
        return TopKSnapshot(answer, coordinator.k, coordinator.epsilon, self._spec, stale, problem)

    def _note_top(self, coordinator: Coordinator) -> None:
        members = tuple(item for item in coordinator.top if item != NOTHING)
        before = members if self._top is None else self._top
        if set(members) != set(before):
            units = [site.unit for site in coordinator.sites.values() if site.unit > UNIT_MIN]
            self._history.append(
                {
                    "at": instant_text(now_us()),
                    "unit": max(units, default=None),
                    "entered": [item for item in members if item not in before],
                    "left": [item for item in before if item not in members],
                }
            )
        self._top = members

    def _note_pace(self) -> None:
        now = time.monotonic()
        pause = max(PACE_SECONDS, self._spec.clock_unit_seconds)
        if self._pace_at is not None and now - self._pace_at < pause:
            return
        self._pace_at = now
        sums = totals(self._counts.values())
        point: dict[str, Any] = {"at": instant_text(now_us())}
        for name in ("sent", "naive"):
            point |= {f"{name}_{what}": sums[name][what] for what in ("messages", "bytes")}
        self._pace.append(point)


def _trouble(coordinator: Coordinator, *, unsettled: bool) -> str:
    """What keeps answers from being valid where all sites are there: ties, or streams' times.
    `unsettled`: resolutions follow each other, and none has held."""
    if coordinator.tied:
        return (
            "more items tie than a message holds, so that nobody can tell the largest: rank a key "
            "with fewer values, or over a longer window"
        )
    sites = coordinator.membership.members().values()
    units = {site.unit: site.name for site in sites if site.unit > UNIT_MIN}
    if not units:
        return ""
    ahead, behind = units[max(units)], units[min(units)]
    lease, apart = f"the lease, {coordinator.lease:g} units", max(units) - min(units)
    if apart > coordinator.lease:
        return (
            f"{ahead} is ahead of {behind} by more than {lease}: wait until {behind} has caught "
            "up, or correct the times of one"
        )
    if not unsettled:
        return ""
    ways = ["enlarge epsilon or the unit"]
    ways += [] if coordinator.hybrid else ["set  hybrid: bytes"]
    ways += [f"wait until {behind} has caught up with {ahead}"] if apart > coordinator.retry else []
    return (
        f"values change before resolutions have settled, and no answer was valid for {lease}: "
        f"{', or '.join(ways)}"
    )


def _site(known: Any, counts: SiteCounts, since: int | None) -> dict[str, Any]:
    reported = counts.reported
    units = [
        unit for unit in (known.unit, reported.get("unit")) if unit is not None and unit > UNIT_MIN
    ]
    return {
        "name": known.name,
        "connected": since is not None,
        "connected_since": instant_text(since),
        "missing": not known.member,
        "phase": _phase(known),
        "unit": max(units, default=None),
        "slack": reported.get("slack"),
        "objects": reported.get("objects"),
        "up": vars(counts.up).copy(),
        "down": vars(counts.down).copy(),
        "reports": vars(counts.reports).copy(),
        "naive": vars(counts.naive).copy(),
    }


def _phase(site: Any) -> str:
    """What the coordinator knows a site to be doing."""
    if not site.member:
        return "joining" if site.present else "missing"
    if site.watching:
        return "watching"
    if site.alert is not None:
        return "alerted"
    return "calm" if site.version and site.acked == site.version else "joining"
