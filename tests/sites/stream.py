"""A stream that anyone can make again: events of a site and a pane, and who is largest."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from muntin.sites.spec import CoordinatorSpec
from muntin.spec import Pipeline

PANE_US = 250_000
WINDOW_UNITS = 12
HEARTBEAT, RETRY, MISSING_AFTER, LEASE = 2, 1.0, 8.0, 10.0
OBJECTS, K = 40, 4
SITES = ("north", "south")
TOKENS = {name: f"token-of-{name}-0123456789" for name in SITES}
DURATION = {"unit": f"{PANE_US} us", "window": f"{PANE_US * WINDOW_UNITS} us"}
RANKING = {"summary": "flights", "key": "origin", **DURATION}


def counts(site: str, pane: int) -> np.ndarray:
    """int64[OBJECTS]: events of each object. Every 40 panes all ranks move by one; each site
    sees half of the objects three times as often as the other does."""
    rng = np.random.default_rng([SITES.index(site), pane])
    places = (np.arange(OBJECTS) - pane // 40) % OBJECTS
    seen = np.where((np.arange(OBJECTS) + SITES.index(site)) % 2, 1.5, 0.5)
    return rng.poisson(60.0 * 0.6**places * seen)


def events(site: str, pane: int) -> pa.Table:
    """The events of a pane; there is always one, so that time goes on."""
    items = np.repeat(np.arange(OBJECTS), counts(site, pane))
    names = ["here", *(f"o{item:02d}" for item in items.tolist())]
    times = pane * PANE_US + np.arange(len(names)) * (PANE_US - 1) // max(1, len(names) - 1)
    return pa.table({"time": pa.array(times, pa.timestamp("us", "UTC")), "origin": names})


def totals(unit: int, start: int, sites=SITES) -> dict[str, int]:
    """Exact sums over the window that ends with a unit, of streams that begin at pane `start`."""
    found = np.zeros(OBJECTS, np.int64)
    panes = range(max(start, unit - WINDOW_UNITS + 1), unit + 1)
    for site in sites:
        for pane in panes:
            found += counts(site, pane)
    named = {f"o{item:02d}": int(total) for item, total in enumerate(found)}
    return named | {"here": len(panes) * len(sites)}


def check_top(items: list[str], unit: int, start: int, k: int = K) -> None:
    """That these are a top k: no object outside is above the least of them."""
    exact = totals(unit, start)
    assert len(items) == len(set(items)) == k
    least = min(exact[item] for item in items)
    outside = max(total for item, total in exact.items() if item not in items)
    assert least >= outside, (unit, items, exact)


def pipeline(site: str, url: str, **changes) -> Pipeline:
    entries = {
        "name": "flights",
        "time": "time",
        "pane": f"{PANE_US} us",
        "summaries": {"flights": {"keys": ["origin"]}},
        "sites": {
            "coordinator": url,
            "site": site,
            "heartbeat": HEARTBEAT,
            **RANKING,
            **changes.pop("sites", {}),
        },
    }
    return Pipeline.of(entries | changes)


def coordinator(folder, **changes) -> CoordinatorSpec:
    return CoordinatorSpec.of(
        {
            "sites": list(SITES),
            "k": K,
            "retry": RETRY,
            "missing_after": MISSING_AFTER,
            "lease": LEASE,
            "port": 0,
            "state": str(folder / "coordinator.state"),
            **RANKING,
            **changes,
        }
    )
