"""The protocol on a made or recorded stream, without network or Spark: what it costs.

Every slide is checked by an oracle that knows all values: an answer that claims to be valid and
is not counts as `invalid`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import inf
from os import PathLike
from typing import Any

import numpy as np

from muntin.errors import BadArgument, needs
from muntin.times import US_PER_SECOND, duration_us
from muntin.topk import streams
from muntin.topk.codec import encode
from muntin.topk.coordinator import Coordinator
from muntin.topk.hybrid import CostModel
from muntin.topk.messages import NOTHING, VALUE_MAX, Message, Object, Push, entries_in
from muntin.topk.monitor import Monitor
from muntin.topk.policy import POLICIES as SHARING
from muntin.topk.policy import Policy

COSTS = ("messages", "entries", "bytes")


@dataclass(slots=True)
class Simulation:
    """What a run cost. Series have one entry a slide; totals exclude the bootstrap.

    Attributes
    ----------
    messages, entries, bytes : int
        Sent both ways; (object, value) pairs and names in them; bytes with `overhead` a message.
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
    """

    policy: str
    windows: int
    invalid: int = 0
    unsure: int = 0
    changes: int = 0
    bootstrap: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COSTS, 0))
    series: dict[str, np.ndarray] = field(init=False)
    partial: int = 0
    full: int = 0
    surveys: int = 0

    def __post_init__(self) -> None:
        self.series = {name: np.zeros(self.windows, np.int64) for name in COSTS}

    @property
    def messages(self) -> int:
        """Sent both ways, after the bootstrap."""
        return int(self.series["messages"].sum())

    @property
    def entries(self) -> int:
        """Pairs of object and value, and names, in them."""
        return int(self.series["entries"].sum())

    @property
    def bytes(self) -> int:
        """Of them, with `overhead` a message."""
        return int(self.series["bytes"].sum())

    def per_100_windows(self) -> dict[str, float]:
        """Messages, entries and bytes per 100 windows."""
        return {name: getattr(self, name) * 100 / self.windows for name in COSTS}

    def __str__(self) -> str:
        return (
            f"{self.policy}: {self.messages} messages, {self.entries} entries, "
            f"{self.bytes} bytes in {self.windows} windows; {self.changes} changes, "
            f"{self.invalid} invalid, {self.unsure} unsure"
        )

    def count(self, message: Message, slide: int, overhead: int) -> None:
        """A message was sent; a slide below 0 is the bootstrap."""
        size = len(encode(message)) + overhead
        for name, cost in zip(COSTS, (1, entries_in(message), size), strict=True):
            if slide < 0:
                self.bootstrap[name] += cost
            else:
                self.series[name][min(slide, self.windows - 1)] += cost


def naive_push(counts: np.ndarray, length: int, windows: int, overhead: int) -> Simulation:
    """Every site sends every value that changed, at every slide that changes one. The values of the
    first window are its bootstrap."""
    found = Simulation("naive", windows)
    for slide in range(-1, windows):
        change = counts[:length].sum(0) if slide < 0 else counts[length + slide] - counts[slide]
        for row in change:
            rows = np.flatnonzero(row)
            if len(rows):
                pairs = tuple(zip(rows.tolist(), row[rows].tolist(), strict=True))
                found.count(Push(1, 1, slide + 1, pairs), slide, overhead)
    return found


@dataclass
class Run:
    """Every message of a slide arrives before the next slide."""

    counts: np.ndarray
    length: int
    k: int
    epsilon: int
    policy: str | Policy
    model: CostModel | None
    overhead: int
    found: Simulation

    def __post_init__(self) -> None:
        self.sites = [f"s{n}" for n in range(self.counts.shape[1])]
        self.objects: list[Object] = list(range(self.counts.shape[2]))

    def coordinator(self, **options: Any) -> Coordinator:
        options |= {"policy": self.policy, "hybrid": self.model}
        return Coordinator(self.sites, self.k, epsilon=self.epsilon, **options)

    def result(self, last: Coordinator) -> Simulation:
        found = self.found
        found.changes, found.partial = last.membership.changes, last.partial
        found.full, found.surveys = last.full, last.surveys
        return found

    def feed(self, monitor: Monitor, unit: int, change: np.ndarray) -> list[Message]:
        rows = np.flatnonzero(change)
        return monitor.slide(unit, rows + 1, change[rows])

    def monitor(self, **options: Any) -> Monitor:
        monitor = Monitor(**options)
        monitor.rows(self.objects)
        return monitor

    def run(self, windows: int) -> Simulation:
        found, coordinator = self.found, self.coordinator(barrier=True)
        window = self.counts[: self.length].sum(0)
        monitors = {site: self.monitor(barrier=True) for site in self.sites}
        for slide in range(-1, windows):
            if slide < 0:
                change = window
            else:
                change = self.counts[self.length + slide] - self.counts[slide]
                window = window + change
            now = slide + 1
            up = []
            for row, (site, monitor) in zip(change, monitors.items(), strict=True):
                up += [(site, message) for message in self.feed(monitor, now, row)]
            while True:
                down = []
                for site, message in up:
                    found.count(message, slide, self.overhead)
                    down += coordinator.receive(site, message, now)
                if not (down := down or coordinator.tick(now)):
                    break
                up = []
                for site, message in down:
                    found.count(message, slide, self.overhead)
                    up += [(site, said) for said in monitors[site].receive(message)]
            if slide < 0:
                continue
            answer = coordinator.answer()
            found.unsure += not answer.valid
            if answer.valid:
                found.invalid += not holds(window.sum(0), coordinator.top, self.k, self.epsilon)
        return self.result(coordinator)


def holds(totals: np.ndarray, top: Iterable[Object], k: int, epsilon: int) -> bool:
    """The oracle: whether `top` is a top k of the totals within epsilon, by definition."""
    rows = [int(item) for item in top if item != NOTHING]
    if len(rows) > k or len(set(rows)) != len(rows):
        return False
    outside = np.delete(totals, rows)
    most = max(0, int(outside.max(initial=0)))
    least = int(totals[rows].min()) if len(rows) == k else 0
    return min(least, int(totals[rows].min(initial=least))) + epsilon >= most


POLICIES = ("resolution", "lsa", "gsa", "hybrid", "naive")


def simulate(
    stream: str | PathLike[str] | np.ndarray = "zipf",
    *,
    exponent: float = 2.0,
    affinity: float | None = None,
    objects: int = 1000,
    rate: float = 267.0,
    sites: int | None = None,
    k: int = 10,
    epsilon: int = 0,
    window: str | int = "15 minutes",
    unit: str | int = "10 seconds",
    windows: int = 100,
    policy: str | Policy = "resolution",
    objective: str = "bytes",
    overhead: int = 8,
    seed: int = 0,
    columns: Mapping[str, str] | None = None,
) -> Simulation:
    """Run the protocol over a stream and count what it sends.

    All messages of a slide arrive before the next one, and nothing is acknowledged.

    Parameters
    ----------
    stream : "zipf", "traffic", a file, or int64[units, sites, objects]
        See `streams`. A file or an array says itself how many objects and sites there are.
    exponent, affinity, objects, rate : of the made streams; `rate` in records a second
    sites : of the made streams, and of a file that names none; 10
    window, unit : str or seconds
        The window slides by one unit and is a whole number of them long.
    windows : int
        Slides that are counted, after the first window.
    policy : "resolution", "even", "lsa", "gsa", "hybrid", "naive", or a Policy
        "hybrid" is resolution with `CostModel(objective)`; "naive" sends every change.
    overhead : int
        Bytes that a message costs beyond its own.
    columns : of a stream from a file, where they are not "time", "object", "site", "value"

    Raises
    ------
    BadArgument
        A parameter is impossible, or the stream is too short for the windows.
    """
    name = policy if isinstance(policy, str) else policy.name
    if isinstance(policy, str) and policy not in (*POLICIES, *SHARING):
        raise BadArgument(
            f"policy {policy!r}: one of {', '.join({**dict.fromkeys(POLICIES), **SHARING})}"
        )
    unit_seconds, window_seconds = seconds(unit), seconds(window)
    length = window_seconds // unit_seconds
    if length < 1 or length * unit_seconds != window_seconds:
        raise BadArgument(f"window {window!r} is not a whole number of units {unit!r}: change one")
    if windows < 1:
        raise BadArgument(f"{windows} windows: give at least 1")
    counts = _counts(
        stream,
        {"exponent": exponent, "affinity": affinity, "objects": objects, "sites": sites},
        units=length + windows,
        records=rate * unit_seconds,
        unit_seconds=unit_seconds,
        seed=seed,
        columns=columns,
    )
    if name == "naive":
        return naive_push(counts, length, windows, overhead)
    model = CostModel(objective, overhead=overhead) if name == "hybrid" else None
    chosen = "resolution" if name == "hybrid" else policy
    found = Simulation(name, windows)
    return Run(counts, length, k, epsilon, chosen, model, overhead, found).run(windows)


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


def plot(table: Mapping[str, Mapping[str, float]], path: str | PathLike[str]) -> None:
    """Draw what `compare` found, each policy's costs per 100 windows, into a PNG or SVG.

    Parameters
    ----------
    table : from `compare`
    path : file to write; its ending says the format

    Raises
    ------
    MissingExtra
        matplotlib is not installed.
    """
    needs("notebook", "a plot", "matplotlib")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 3.2), layout="constrained")
    for place, cost in enumerate(COSTS, 1):
        axis = figure.add_subplot(1, len(COSTS), place)
        bars = axis.bar(list(table), [row[cost] for row in table.values()])
        axis.bar_label(bars, fmt="{:,.0f}", fontsize=7)
        axis.set_yscale("symlog", linthresh=10)
        axis.set_title(f"{cost} per 100 windows", fontsize=9)
        axis.tick_params(axis="x", labelrotation=30, labelsize=8)
    figure.savefig(path, dpi=120)


def seconds(text: str | int) -> int:
    """Seconds of "15 minutes", "10 seconds", "1 hour" or a number."""
    whole, rest = divmod(
        duration_us(f"{text} seconds" if str(text).isdigit() else text), US_PER_SECOND
    )
    if rest:
        raise BadArgument(f"length of time {text!r} is not a whole number of seconds")
    return whole


def _counts(
    stream: Any,
    made: dict[str, Any],
    *,
    units: int,
    records: float,
    unit_seconds: int,
    seed: int,
    columns: Mapping[str, str] | None,
) -> np.ndarray:
    for name, value in made.items():
        if value is not None and not 0 < value < inf:
            raise BadArgument(f"{name} is {value}: give more than 0")
    if not 0.5 < records < VALUE_MAX:
        raise BadArgument(f"{records:g} records in a unit: give a rate that makes 1 to 2**50")
    if seed < 0:
        raise BadArgument(f"seed {seed}: give 0 or more")
    given = made["sites"]
    made = {**made, "sites": streams.SITES if given is None else given}
    cells = units * made["sites"] * made["objects"]
    if isinstance(stream, str) and stream in ("zipf", "traffic") and cells > streams.CELLS_MAX:
        raise BadArgument(
            f"{units:,} units, {made['sites']:,} sites and {made['objects']:,} objects make "
            f"{cells:,} counts: at most {streams.CELLS_MAX:,}"
        )
    records = round(records)
    rng = np.random.default_rng(100 * seed + 7)
    if isinstance(stream, np.ndarray):
        counts = streams.checked(stream)
    elif stream == "zipf":
        counts = streams.zipf(rng, units=units, records_per_unit=records, **made)
    elif stream == "traffic":
        made = {name: made[name] for name in ("objects", "sites")}
        counts = streams.traffic(rng, units=units, records_per_unit=records, **made)
    else:
        counts = streams.from_file(stream, unit_seconds, sites=given, seed=seed, columns=columns)
    if len(counts) < units:
        raise BadArgument(
            f"the stream has {len(counts)} units, and a window with the slides after it takes "
            f"{units}: give fewer windows, a shorter window or a shorter unit"
        )
    return counts
