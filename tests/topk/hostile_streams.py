"""Streams on which a protocol that saves messages can only lose: counts[units, sites, objects]."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Make = Callable[[np.random.Generator, int, int, int], np.ndarray]


def ties(mean: float) -> Make:
    """Every object alike everywhere: all tie, and every record changes the order."""
    return lambda rng, units, sites, objects: rng.poisson(mean, (units, sites, objects))


def swap(rng: np.random.Generator, units: int, sites: int, objects: int) -> np.ndarray:
    """One record a unit, and each swaps two objects at the border of T."""
    counts = np.zeros((units, sites, objects), np.int64)
    counts[0, :, :40] = 20
    for unit in range(1, units):
        counts[unit, rng.integers(sites), 9 + unit % 2] = 1
    return counts


def cauchy(rng: np.random.Generator, units: int, sites: int, objects: int) -> np.ndarray:
    """Leaps without a mean."""
    return np.abs(rng.standard_cauchy((units, sites, objects)) * 3).clip(0, 1000).astype(np.int64)


def rotate(rng: np.random.Generator, units: int, sites: int, objects: int) -> np.ndarray:
    """The largest is another one in each unit."""
    counts = rng.poisson(0.2, (units, sites, objects))
    for unit in range(units):
        counts[unit, :, unit * 3 % objects] += 50
    return counts


def one_site(rng: np.random.Generator, units: int, sites: int, objects: int) -> np.ndarray:
    """All happens at one site; the others have to be asked in vain."""
    counts = np.zeros((units, sites, objects), np.int64)
    counts[:, 0] = rng.poisson(0.3, (units, objects))
    return counts


def churn(rng: np.random.Generator, units: int, sites: int, objects: int) -> np.ndarray:
    """Objects come for one unit and go."""
    counts = np.zeros((units, sites, objects), np.int64)
    for unit in range(units):
        for site in range(sites):
            counts[unit, site, rng.integers(0, objects, 3)] = rng.integers(1, 4)
    return counts


def flip(rng: np.random.Generator, units: int, sites: int, objects: int) -> np.ndarray:
    """Calm long enough to be trusted, then a storm."""
    counts = np.zeros((units, sites, objects), np.int64)
    counts[:, :, :10], counts[:, :, 10:60] = 60, 20
    for unit in range(units):
        if unit % 40 >= 30:
            counts[unit] = rng.poisson(40, (sites, objects))
    return counts


STREAMS: dict[str, Make] = {
    "sparse": ties(0.002),
    "few": ties(0.02),
    "ties": ties(0.3),
    "dense": ties(3.0),
    "swap": swap,
    "cauchy": cauchy,
    "rotate": rotate,
    "one site": one_site,
    "churn": churn,
    "flip": flip,
}
