"""Streams to try the protocol on: counts per window unit, int64[units, sites, objects].

`zipf` and `traffic` are the two that the project's figures are measured on. Run r of a
measurement uses ``numpy.random.default_rng(100 * r + 7)``.
"""

import os
from collections.abc import Mapping
from os import PathLike

import numpy as np
import pyarrow as pa
from pyarrow.csv import read_csv
from pyarrow.parquet import read_table as read_parquet

from muntin.errors import BadArgument
from muntin.topk.messages import VALUE_MAX

CELLS_MAX = 1 << 28  # 2 GiB of counts
SITES = 10
_COLUMNS = ("time", "object", "site", "value")


def zipf(
    rng: np.random.Generator,
    objects: int,
    sites: int,
    units: int,
    records_per_unit: int,
    exponent: float = 2.0,
    affinity: float | None = None,
) -> np.ndarray:
    """Objects by Zipf's law, int64[units, sites, objects].

    Every record goes to a site at random; with `affinity`, by shares that each object draws from
    a symmetric Dirichlet distribution with that parameter (small: most at few sites).
    """
    popularity = np.arange(1, objects + 1, dtype=float) ** -exponent
    popularity /= popularity.sum()
    if affinity is None:
        share = np.full((sites, objects), 1 / sites)
    else:
        share = rng.dirichlet(np.full(sites, affinity), objects).T
    cells = (share * popularity).ravel()
    return rng.multinomial(records_per_unit, cells, size=units).reshape(units, sites, objects)


def traffic(
    rng: np.random.Generator, objects: int, sites: int, units: int, records_per_unit: int
) -> np.ndarray:
    """Like road traffic, int64[units, sites, objects]. Lognormal rates with near ties, drifting
    slowly (AR(1) in the logarithm), each object seen mostly at a few sites."""
    base = rng.lognormal(0, 0.5, objects)
    share = rng.dirichlet(np.full(sites, 0.5), objects).T
    drift = np.zeros(objects)
    counts = np.empty((units, sites, objects), np.int64)
    for unit in range(units):
        drift = 0.98 * drift + 0.04 * rng.normal(size=objects)
        rate = base * np.exp(drift)
        counts[unit] = rng.poisson(rate / rate.sum() * records_per_unit * share)
    return counts


def from_file(
    path: str | PathLike[str],
    unit_seconds: int,
    *,
    sites: int | None = None,
    seed: int = 0,
    columns: Mapping[str, str] | None = None,
) -> np.ndarray:
    """Read a stream: int64[units, sites, objects].

    `path` (.npy (int64[units, sites, objects]), .csv or .parquet): a table has columns `time`
      (timestamp, or seconds) and `object`, and may have `site` and `value` (integers; 1 if there is
      none).
    `sites`: where there is no column `site`, each record goes to one of so many at random (10).
    `columns`: what these columns are called in the file: {"time": "time_hour", "object": "origin"}.

    Raises BadArgument: the file cannot be read, lacks a column, has null or non-integer values, or
    its counts would take more than 2 GiB; or `sites` is given, and the file says itself which site
    each is of.
    """
    name = str(path)
    if not os.path.isfile(name):
        raise BadArgument(f"{name}: no such file")
    try:
        if name.endswith(".npy"):
            _check_none(sites)
            # mapped: nothing is read of one that is too large
            return checked(np.load(name, allow_pickle=False, mmap_mode="c"))
        table = read_parquet(name) if name.endswith(".parquet") else read_csv(name)
    except (OSError, ValueError, pa.ArrowException) as problem:
        raise BadArgument(f"{name} cannot be read as a stream: {problem}") from None
    return from_table(table, unit_seconds, sites=sites, seed=seed, columns=columns)


def from_table(
    table: pa.Table,
    unit_seconds: int,
    *,
    sites: int | None = None,
    seed: int = 0,
    columns: Mapping[str, str] | None = None,
) -> np.ndarray:
    """The same from an Arrow table."""
    there = ", ".join(table.column_names)
    table = _renamed(table, columns or {})
    for column in ("time", "object"):
        if column not in table.column_names:
            raise BadArgument(f"no column {column!r}: say which one it is, of {there}")
    if table.num_rows == 0:
        raise BadArgument("the table has no rows")
    if any(table.column(name).null_count for name in _COLUMNS if name in table.column_names):
        raise BadArgument("null times, objects, sites or values: drop those rows first")
    units = _units(table.column("time"), unit_seconds)
    objects, many = _codes(table.column("object"))
    if "site" in table.column_names:
        _check_none(sites)
        places, sites = _codes(table.column("site"))
    else:
        sites = SITES if sites is None else sites
        places = np.random.default_rng(seed).integers(0, sites, table.num_rows)
    values = np.ones(table.num_rows, np.int64)
    if "value" in table.column_names:
        column = table.column("value")
        if not pa.types.is_integer(column.type):
            raise BadArgument(f"values are {column.type}: scale them to integers")
        values = _int64(column.to_numpy())
    shape = (int(units.max()) + 1, sites, many)
    _check_size(shape)
    counts = np.zeros(shape, np.int64)
    np.add.at(counts, (units, places, objects), values)
    return counts


def checked(counts: np.ndarray) -> np.ndarray:
    """Counts that somebody gives, if they can be such."""
    if counts.ndim != 3 or counts.dtype.kind not in "iu":
        raise BadArgument(f"a stream is int64[units, sites, objects], not {counts.shape}")
    _check_size(counts.shape)
    return _int64(np.asarray(counts))


def _check_size(shape: tuple[int, ...]) -> None:
    if np.prod(shape, dtype=float) > CELLS_MAX:
        raise BadArgument(f"{shape} units, sites and objects are too many for memory")


def _int64(values: np.ndarray) -> np.ndarray:
    if values.size and max(int(values.max()), -int(values.min())) > VALUE_MAX:
        raise BadArgument("values go beyond +-2**50: give them in a coarser unit")
    return values.astype(np.int64, copy=False)


def _check_none(sites: int | None) -> None:
    if sites is not None:
        raise BadArgument(f"{sites} sites: the file has sites of its own; leave the number out")


def _renamed(table: pa.Table, columns: Mapping[str, str]) -> pa.Table:
    """The table with the columns that are asked for under our names, and those alone."""
    for ours, theirs in columns.items():
        if ours not in _COLUMNS:
            raise BadArgument(f"columns are {', '.join(_COLUMNS)}, there is no {ours!r}")
        if theirs not in table.column_names:
            raise BadArgument(f"no column {theirs!r}: the columns are {table.column_names}")
    taken = {name: columns.get(name, name) for name in _COLUMNS}
    return pa.table({n: table.column(c) for n, c in taken.items() if c in table.column_names})


def _units(column: pa.ChunkedArray, unit_seconds: int) -> np.ndarray:
    if pa.types.is_timestamp(column.type):
        second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[column.type.unit]
        units = column.cast(pa.int64()).to_numpy() // (unit_seconds * second)
    elif pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
        seconds = column.to_numpy()
        if not (np.abs(seconds.astype(np.float64)) < 1 << 62).all():  # nor NaN
            raise BadArgument(f"times reach from {seconds.min()} to {seconds.max()} seconds")
        units = np.floor_divide(seconds, unit_seconds).astype(np.int64)
    else:
        raise BadArgument(f"times are {column.type}: timestamps or seconds are wanted")
    return units - units.min()


def _codes(column: pa.ChunkedArray) -> tuple[np.ndarray, int]:
    """A number for each different value, int64, and how many there are."""
    try:
        encoded = column.cast(pa.string()).combine_chunks().dictionary_encode()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        said = f"objects or sites are {column.type}: text, numbers or times are wanted"
        raise BadArgument(said) from None
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.unify_dictionaries().combine_chunks()
    return encoded.indices.to_numpy().astype(np.int64), len(encoded.dictionary)
