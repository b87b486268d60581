"""The protocol on a made or recorded stream, without network or Spark: what it costs.

Every slide is checked by an oracle that knows all values: an answer that claims to be valid and
is not counts as `invalid`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from os import PathLike
from typing import Any

import numpy as np

from muntin.errors import BadArgument
from muntin.topk import streams
from muntin.topk.answer import Answer
from muntin.topk.codec import encode
from muntin.topk.coordinator import Coordinator
from muntin.topk.hybrid import CostModel
from muntin.topk.messages import NOTHING, Calm, Hello, Message, Object, Push
from muntin.topk.monitor import Monitor
from muntin.topk.network import Faults, Network
from muntin.topk.policy import Policy

POLICIES = ("resolution", "lsa", "gsa", "hybrid", "naive")
TICKS = 4  # of a unit, in a run with faults
_SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400}


@dataclass(slots=True)
class Simulation:
    """What a run cost. Series have one entry a slide; totals exclude the bootstrap.

    Attributes
    ----------
    messages, entries, bytes : int
        Sent both ways; (object, value) pairs and names in them; bytes with `overhead` a message.
    control : int
        Those of the messages that only acknowledge or say that a site is there.
    invalid : int
        Slides whose answer claimed to be valid and was not.
    unsure : int
        Slides whose answer did not claim to be valid.
    changes : int
        How often T changed.
    bootstrap : dict
        Messages, entries and bytes until the first answer.
    series : dict of int64[windows]
        "messages", "entries", "bytes".
    healed : float or None
        Units from the end of the faults to the first valid answer after it.
    """

    policy: str
    windows: int
    messages: int = 0
    entries: int = 0
    bytes: int = 0
    control: int = 0
    invalid: int = 0
    unsure: int = 0
    changes: int = 0
    bootstrap: dict[str, int] = field(default_factory=dict)
    series: dict[str, np.ndarray] = field(default_factory=dict)
    healed: float | None = None
    partial: int = 0
    full: int = 0
    surveys: int = 0

    def per_100_windows(self) -> dict[str, float]:
        """Messages, entries and bytes per 100 windows."""
        scale = 100 / self.windows
        return {name: getattr(self, name) * scale for name in ("messages", "entries", "bytes")}

    def __str__(self) -> str:
        return (
            f"{self.policy}: {self.messages} messages, {self.entries} entries, "
            f"{self.bytes} bytes in {self.windows} windows; {self.changes} changes, "
            f"{self.invalid} invalid, {self.unsure} unsure"
        )


def simulate(
    stream: str | PathLike[str] | np.ndarray = "zipf",
    *,
    exponent: float = 2.0,
    affinity: float | None = None,
    objects: int = 1000,
    rate: float = 267.0,
    sites: int = 10,
    k: int = 10,
    epsilon: int = 0,
    window: str | int = "15 minutes",
    unit: str | int = "10 seconds",
    windows: int = 100,
    policy: str | Policy = "resolution",
    objective: str = "bytes",
    overhead: int = 8,
    seed: int = 0,
    faults: Faults | Mapping[str, Any] | None = None,
    heartbeat: int = 6,
) -> Simulation:
    """Run the protocol over a stream and count what it sends.

    Parameters
    ----------
    stream : "zipf", "traffic", a file, or int64[units, sites, objects]
        See `streams`. A file or an array says itself how many objects and sites there are.
    exponent, affinity, objects, rate : of the made streams; `rate` in records a second
    window, unit : str or seconds
        The window slides by one unit and is a whole number of them long.
    windows : int
        Slides that are counted, after the first window.
    policy : "resolution", "even", "lsa", "gsa", "hybrid", "naive", or a Policy
        "hybrid" is resolution with `CostModel(objective)`; "naive" sends every change.
    overhead : int
        Bytes that a message costs beyond its own.
    faults : Faults, optional
        Without it all messages of a slide arrive in it, and nothing is acknowledged.

    Raises
    ------
    BadArgument
        A parameter is impossible, or the stream is too short for the windows.
    """
    unit_seconds, window_seconds = seconds(unit), seconds(window)
    length = window_seconds // unit_seconds
    if length < 1 or length * unit_seconds != window_seconds:
        raise BadArgument(f"window {window!r} is not a whole number of units {unit!r}")
    if windows < 1:
        raise BadArgument(f"{windows} windows: give at least 1")
    counts = _counts(
        stream,
        {"exponent": exponent, "affinity": affinity, "objects": objects, "sites": sites},
        units=length + windows,
        records=round(rate * unit_seconds),
        unit_seconds=unit_seconds,
        seed=seed,
    )
    name = policy if isinstance(policy, str) else policy.name
    if name == "naive":
        return _naive(counts, length, windows, overhead)
    model = CostModel(objective, overhead=overhead) if name == "hybrid" else None
    chosen = "resolution" if name == "hybrid" else policy
    if faults is None:
        return _Synchronous(counts, length, k, epsilon, chosen, model, overhead, name).run(windows)
    if not isinstance(faults, Faults):
        faults = Faults(**faults)
    return _Faulty(
        counts, length, k, epsilon, chosen, model, overhead, name, faults, seed, heartbeat
    ).run(windows)


def compare(
    stream: str | PathLike[str] | np.ndarray = "zipf",
    *,
    policies: Iterable[str] = POLICIES,
    runs: int = 1,
    seed: int = 0,
    **options: Any,
) -> dict[str, dict[str, float]]:
    """Mean cost per 100 windows of each policy on the same streams.

    Returns messages, entries, bytes, invalid and changes by policy.
    """
    table: dict[str, dict[str, float]] = {}
    for policy in policies:
        rows = []
        for run in range(runs):
            found = simulate(stream, policy=policy, seed=seed + run, **options)
            rows.append(
                {**found.per_100_windows(), "invalid": found.invalid, "changes": found.changes}
            )
        table[policy] = {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}
    return table


def seconds(text: str | int) -> int:
    """Seconds of "15 minutes", "10 seconds", "1 hour" or a number."""
    if isinstance(text, int):
        return text
    parts = text.split()
    name = parts[1].rstrip("s") if len(parts) == 2 else ""
    if not parts or not parts[0].isdigit() or name not in _SECONDS or int(parts[0]) < 1:
        raise BadArgument(f"length of time {text!r}: say '10 seconds', '15 minutes', '1 hour'")
    return int(parts[0]) * _SECONDS[name]


def _counts(
    stream: Any, made: dict[str, Any], *, units: int, records: int, unit_seconds: int, seed: int
) -> np.ndarray:
    if isinstance(stream, np.ndarray):
        counts = stream
    elif stream == "zipf":
        rng = np.random.default_rng(100 * seed + 7)
        counts = streams.zipf(rng, units=units, records_per_unit=records, **made)
    elif stream == "traffic":
        rng = np.random.default_rng(100 * seed + 7)
        made = {name: made[name] for name in ("objects", "sites")}
        counts = streams.traffic(rng, units=units, records_per_unit=records, **made)
    else:
        counts = streams.from_file(stream, unit_seconds, sites=made["sites"], seed=seed).counts
    if counts.ndim != 3 or counts.dtype.kind not in "iu":
        raise BadArgument(f"a stream is int64[units, sites, objects], not {counts.shape}")
    if len(counts) < units:
        raise BadArgument(f"the stream has {len(counts)} units, {units} are needed")
    return counts.astype(np.int64, copy=False)


def _naive(counts: np.ndarray, length: int, windows: int, overhead: int) -> Simulation:
    """Every site sends every value that changed, at every slide that changes one.

    The values of the first window are its bootstrap.
    """
    found = _Counter("naive", windows)
    for slide in range(-1, windows):
        change = counts[:length].sum(0) if slide < 0 else counts[length + slide] - counts[slide]
        for row in change:
            rows = np.flatnonzero(row)
            if len(rows):
                pairs = tuple(zip(rows.tolist(), row[rows].tolist(), strict=True))
                found.count(Push(1, 1, slide + 1, pairs), slide, overhead)
    return found.result()


class _Counter:
    """Adds up what is sent."""

    def __init__(self, policy: str, windows: int) -> None:
        self.found = Simulation(policy, windows)
        self.series = {n: np.zeros(windows, np.int64) for n in ("messages", "entries", "bytes")}
        self.first = dict.fromkeys(self.series, 0)

    def count(self, message: Message, slide: int, overhead: int) -> None:
        names = len(getattr(message, "objects", ())) + len(getattr(message, "top", None) or ())
        entries = names + len(getattr(message, "entries", ()))
        costs = {"messages": 1, "entries": entries, "bytes": len(encode(message)) + overhead}
        for name, cost in costs.items():
            if slide < 0:
                self.first[name] += cost
            else:
                self.series[name][min(slide, len(self.series[name]) - 1)] += cost
        self.found.control += slide >= 0 and isinstance(message, Calm | Hello)

    def result(self) -> Simulation:
        found = self.found
        found.series, found.bootstrap = self.series, self.first
        found.messages, found.entries, found.bytes = (int(s.sum()) for s in self.series.values())
        return found


class _Run:
    """Monitors and a coordinator over one stream, with the oracle."""

    def __init__(
        self,
        counts: np.ndarray,
        length: int,
        k: int,
        epsilon: int,
        policy: str | Policy,
        model: CostModel | None,
        overhead: int,
        name: str,
    ) -> None:
        self.counts, self.length, self.k, self.epsilon = counts, length, k, epsilon
        self.policy, self.model, self.overhead, self.name = policy, model, overhead, name
        self.sites = [f"s{n}" for n in range(counts.shape[1])]
        self.objects: list[Object] = list(range(counts.shape[2]))
        self.window = counts[:length].sum(0)

    def feed(self, monitor: Monitor, unit: int, change: np.ndarray) -> list[Message]:
        rows = np.flatnonzero(change)
        return monitor.slide(unit, rows + 1, change[rows])

    def monitor(self, **options: Any) -> Monitor:
        monitor = Monitor(**options)
        monitor.rows(self.objects)
        return monitor


class _Synchronous(_Run):
    """Every message of a slide arrives before the next slide."""

    def run(self, windows: int) -> Simulation:
        counter = _Counter(self.name, windows)
        coordinator = Coordinator(
            self.sites,
            self.k,
            epsilon=self.epsilon,
            policy=self.policy,
            hybrid=self.model,
            barrier=True,
        )
        monitors = {site: self.monitor(barrier=True) for site in self.sites}
        for slide in range(-1, windows):
            if slide < 0:
                change = self.window
            else:
                change = self.counts[self.length + slide] - self.counts[slide]
                self.window = self.window + change
            now = slide + 1
            up = []
            for row, (site, monitor) in zip(change, monitors.items(), strict=True):
                up += [(site, message) for message in self.feed(monitor, now, row)]
            while True:
                down = []
                for site, message in up:
                    counter.count(message, slide, self.overhead)
                    down += coordinator.receive(site, message, now)
                if not (down := down or coordinator.tick(now)):
                    break
                up = []
                for site, message in down:
                    counter.count(message, slide, self.overhead)
                    up += [(site, said) for said in monitors[site].receive(message)]
            if slide < 0:
                continue
            answer = coordinator.answer()
            counter.found.unsure += not answer.valid
            if answer.valid:
                counter.found.invalid += not holds(
                    self.window.sum(0), coordinator.top, self.k, self.epsilon
                )
        found = counter.result()
        found.changes, found.partial = coordinator.changes, coordinator.partial
        found.full, found.surveys = coordinator.full, coordinator.surveys
        return found


def holds(totals: np.ndarray, top: Iterable[Object], k: int, epsilon: int) -> bool:
    """The oracle: whether `top` is a top k of the totals within epsilon, by definition."""
    rows = [int(item) for item in top if item != NOTHING]
    if len(rows) > k or len(set(rows)) != len(rows):
        return False
    outside = np.delete(totals, rows)
    most = max(0, int(outside.max(initial=0)))
    least = int(totals[rows].min()) if len(rows) == k else 0
    return min(least, int(totals[rows].min(initial=least))) + epsilon >= most


class _Faulty(_Run):
    """Messages get lost, sites and the coordinator fail; time passes in ticks."""

    def __init__(self, *arguments: Any) -> None:
        *rest, self.faults, seed, self.heartbeat = arguments
        super().__init__(*rest)
        self.rng = np.random.default_rng(1_000_003 * seed + 11)
        self.judged: Answer | None = None
        self.network = Network(self.rng, self.faults)
        starts = np.concatenate((np.zeros_like(self.counts[:1]), np.cumsum(self.counts, 0)))
        self.windows_of = starts[self.length :] - starts[: -self.length]

    def run(self, windows: int) -> Simulation:
        faults, rng = self.faults, self.rng
        self.counter = counter = _Counter(self.name, windows)
        self.slide = -1
        coordinator = self._coordinator()
        self.monitors = {site: self.monitor(heartbeat=self.heartbeat) for site in self.sites}
        self.reached = dict.fromkeys(self.sites, -1)
        out_until = dict.fromkeys(self.sites, -1.0)
        waiting: dict[str, list[Message]] = {site: [] for site in self.sites}
        saved = coordinator.to_bytes()
        quiet_from = windows - faults.quiet
        changes = 0
        for slide in range(windows):
            self.slide = slide
            self.network.calm = slide >= quiet_from
            if not self.network.calm:
                for site in self.sites:
                    if out_until[site] > slide:
                        continue
                    if rng.random() < faults.crash:
                        self.monitors[site] = self.monitor(heartbeat=self.heartbeat)
                        self.reached[site] = -1
                        waiting[site] = []
                        out_until[site] = slide + rng.random() * faults.outage
                    elif rng.random() < faults.freeze:
                        out_until[site] = slide + rng.random() * faults.outage
                if rng.random() < faults.restart:
                    changes += coordinator.changes
                    coordinator = self._coordinator(saved)
            else:
                out_until = dict.fromkeys(self.sites, -1.0)
            if slide % faults.save_every == 0:
                saved = coordinator.to_bytes()
            for tick in range(TICKS):
                now = slide + tick / TICKS
                for site in self.sites:
                    if out_until[site] <= now:
                        self._live(site, slide, waiting, now)
                for site, up, message in self.network.arrived(now):
                    if up:
                        self._down(coordinator.receive(site, message, now), now)
                    elif out_until[site] <= now:
                        self._up(site, self.monitors[site].receive(message), now)
                    else:
                        waiting[site].append(message)
                self._down(coordinator.tick(now), now)
                answer = coordinator.answer()
                self._judge(answer, tick == TICKS - 1)
                if slide >= quiet_from and counter.found.healed is None and answer.valid:
                    counter.found.healed = now - quiet_from
        found = counter.result()
        found.changes = changes + coordinator.changes
        found.partial, found.full = coordinator.partial, coordinator.full
        found.surveys = coordinator.surveys
        return found

    def _coordinator(self, saved: bytes | None = None) -> Coordinator:
        options: dict[str, Any] = {"policy": self.policy}
        if self.model is not None:
            options["hybrid"] = CostModel(self.model.objective, overhead=self.overhead)
        if saved is not None:
            return Coordinator.from_bytes(saved, **options)
        return Coordinator(self.sites, self.k, epsilon=self.epsilon, **options)

    def _live(self, site: str, slide: int, waiting: dict[str, list[Message]], now: float) -> None:
        """Let a site catch up with its stream and with the messages that waited for it."""
        monitor, index = self.monitors[site], self.sites.index(site)
        for message in waiting[site]:
            self._up(site, monitor.receive(message), now)
        waiting[site] = []
        reached = self.reached[site]
        for step in range(reached + 1 if reached >= 0 else slide, slide + 1):
            before = self.windows_of[step - 1][index] if reached >= 0 else 0
            change = self.windows_of[step][index] - before
            self._up(site, self.feed(monitor, step, change), now)
            reached = step
        self.reached[site] = reached
        self._up(site, monitor.tick(now), now)

    def _up(self, site: str, messages: list[Message], now: float) -> None:
        for message in messages:
            self.counter.count(message, self.slide, self.overhead)
            self.network.send(site, True, message, now)

    def _down(self, messages: list[tuple[str, Message]], now: float) -> None:
        for site, message in messages:
            self.counter.count(message, self.slide, self.overhead)
            self.network.send(site, False, message, now)

    def _judge(self, answer: Answer, last: bool) -> None:
        """Check what the answer claims: validity, or its bound over the sites that are there."""
        self.counter.found.unsure += last and not answer.valid
        if answer == self.judged:
            return
        self.judged = answer
        if answer.as_of is None or answer.bound is None:
            wrong = answer.valid
        else:
            there = [n for n, site in enumerate(self.sites) if site not in answer.missing_sites]
            totals = self.windows_of[answer.as_of][there].sum(0)
            top = [item.object for item in answer.items]
            wrong = not holds(totals, top, self.k, answer.bound)
        self.counter.found.invalid += bool(wrong)
