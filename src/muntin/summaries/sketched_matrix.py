"""The vector matrix with Count-Min rows ("sketch i.j"): sums by key in fixed memory.

=========== =================================================================================
State       per key: cells [depth, width, 1 + indicators] of int64 or float64 sums, and the
            `track` heaviest values of the key in a SpaceSaving
Error       truth <= value always; value - truth <= e / width * total of that column, with
            probability 1 - exp(-depth) for each sum asked for. Floats: to their rounding
Merge       with the same keys, indicators, width, depth, track and seed. Exact: the cells of
            the whole stream (floats: to their rounding)
Duplicates  count again
Source      Cormode & Muthukrishnan, J. Algorithms 55 (2005), with vectors for cells
Limits      indicators >= 0 (a negative one would void the upper bound); no subtraction. Keys
            are compared by 64-bit hashes: two of a million collide once in 37 million times
=========== =================================================================================
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa

from muntin.errors import BadArgument, CorruptSummary, IncompatibleSummary, SummaryOverflow
from muntin.summaries import key_columns
from muntin.summaries.base import Estimate
from muntin.summaries.checks import check_alike, integer_in
from muntin.summaries.envelope import seal, unseal
from muntin.summaries.indicators import indicator_values
from muntin.summaries.reading import INT64_MAX, Body, Fields, exact_sum
from muntin.summaries.sketched_key import SketchedKey
from muntin.summaries.vector_matrix.names import (
    COUNT,
    IndicatorType,
    Key,
    as_indicators,
    as_keys,
    find_key,
    refuse_both,
)

CELLS_MAX = 1 << 28  # 2 GiB: past that, a width was mistyped
DEPTH_MAX = 32
TRACK_MAX = 1 << 20
SEED_MAX = 2**64 - 1
KeyName = str | Sequence[str]


class SketchedMatrix:
    """Upper bounds of sums of indicators by key.

    Parameters
    ----------
    keys : list of str or of sequences of str
        Columns, or combinations of columns, as for `VectorMatrix`.
    indicators : list of str, or mapping of str to {"int64", "float64", None}
        Numeric columns, never negative. None: the first batch decides. `count` is always there.
    width, depth : int
        As for `CountMin`; one sketch of vectors a key.
    track : int
        Heaviest values of each key, by count, that `table` lists; at least 1.
    seed : int
        Of the hash, 0 ... 2**64 - 1.

    Raises
    ------
    BadArgument
        A parameter out of its range, or a name given twice.

    Examples
    --------
    >>> orders = SketchedMatrix(keys=["driver"], indicators=["served"], width=512, depth=4)
    >>> orders.update(pa.table({"driver": ["a", "a"], "served": [1, 4]}))
    >>> orders.table("driver").select(["driver", "count", "served"]).to_pylist()
    [{'driver': 'a', 'count': 2, 'served': 5}]
    """

    kind: ClassVar[str] = "sketched_matrix"

    def __init__(
        self,
        keys: Iterable[KeyName],
        indicators: Iterable[str] | Mapping[str, IndicatorType | None] = (),
        width: int = 2048,
        depth: int = 4,
        track: int = 1000,
        seed: int = 0,
    ) -> None:
        names, types = as_keys(keys), as_indicators(indicators)
        refuse_names(names, types)
        self.width = integer_in("width", width, 2, CELLS_MAX)
        self.depth = integer_in("depth", depth, 1, DEPTH_MAX)
        self.track = integer_in("track", track, 1, TRACK_MAX)
        self.seed = integer_in("seed", seed, 0, SEED_MAX)
        if self.width * self.depth * (1 + len(types)) * len(names) > CELLS_MAX:
            raise BadArgument(f"{width} x {depth} cells of all keys and indicators: too many")
        self._start(names, types)

    def _start(self, keys: Sequence[Key], types: Mapping[str, IndicatorType | None]) -> None:
        self._types: dict[str, IndicatorType | None] = dict(types)
        self._kinds: dict[str, str | None] = {name: None for key in keys for name in key}
        self._nulls = dict.fromkeys(types, 0)
        self._totals: list[int | float] = [0] * (1 + len(types))
        shape = self.width, self.depth, 1 + len(types)
        self._keys = {key: SketchedKey(key, *shape, self.track, self.seed) for key in keys}

    @property
    def keys(self) -> tuple[Key, ...]:
        """Each key as a tuple of its columns."""
        return tuple(self._keys)

    @property
    def indicators(self) -> dict[str, str | None]:
        """Name -> type; None where no batch has decided it yet."""
        return dict(self._types)

    @property
    def count(self) -> int:
        """Events summarised."""
        return int(self._totals[0])

    @property
    def totals(self) -> dict[str, int | float]:
        """`count` and the sum of each indicator over all events: exact for integers."""
        return dict(zip((COUNT, *self._types), self._totals, strict=True))

    @property
    def nulls(self) -> dict[str, int]:
        """Indicator -> events that had no value for it: null, NaN or infinite."""
        return dict(self._nulls)

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return sum(key.nbytes for key in self._keys.values())

    @property
    def confidence(self) -> float:
        """Probability that one lower bound holds."""
        return -math.expm1(-self.depth)

    def rows(self, key: KeyName | int | None = None) -> Any:
        """Values of a key that `table` lists; without a key, a dict key -> how many."""
        if key is None:
            return {key: len(sketch.heavy.kept()) for key, sketch in self._keys.items()}
        return len(self._keys[find_key(self.keys, key)].heavy.kept())

    def update(self, batch: pa.RecordBatch | pa.Table) -> None:
        """Count the events of a batch. An update that raises changes nothing.

        Parameters
        ----------
        batch : pyarrow.RecordBatch or pyarrow.Table
            Columns that are neither key nor indicator are ignored. A null indicator adds nothing.

        Raises
        ------
        BadArgument
            A column is missing or of a type that does not fit, or an indicator is negative.
        SummaryOverflow
            The sum of an indicator over all events would leave its range.
        """
        if not isinstance(batch, pa.RecordBatch | pa.Table):
            raise BadArgument(f"update takes a RecordBatch or Table, not {type(batch).__name__}")
        rows = batch.num_rows
        kinds, columns = dict(self._kinds), {}
        for name in kinds:
            (columns[name],) = key_columns.columns_in(batch, [name])
            kind = key_columns.kind_of(name, columns[name])
            if kind and kinds[name] not in (None, kind):
                raise BadArgument(f"key column {name!r} is {kind}, but was {kinds[name]} before")
            kinds[name] = kind or kinds[name]
        vectors, types, nulls, totals = self._vectors(batch)
        hashes = {n: key_columns.hashes_of(n, c, self.seed) for n, c in columns.items()}
        for name, column in columns.items():
            if kinds[name] == "string":
                key_columns.refuse_broken_text(name, column)
        if not rows:
            return
        self._kinds, self._types, self._nulls, self._totals = kinds, types, nulls, totals
        for key, sketch in self._keys.items():
            sketch.add(
                [columns[name] for name in key],
                [kinds[name] for name in key],
                key_columns.fold([hashes[name] for name in key]),
                vectors,
                self._is_float(),
            )

    def estimate(self, key: KeyName | int, items: Any) -> dict[str, Estimate]:
        """Sums of given values of a key.

        Parameters
        ----------
        key : str, sequence of str, or int
            A key, or its position from 1.
        items : array [n]; or a table, mapping or list of arrays with the key's columns
            Values of the key.

        Returns
        -------
        dict of str to Estimate
            `count` and each indicator: int64[n] or float64[n]. `value` = `upper`, never below
            the truth; `lower` holds at `confidence` = 1 - exp(-depth).
        """
        found = find_key(self.keys, key)
        columns = key_columns.columns_in(items, found)
        for name, column in zip(found, columns, strict=True):
            kind, before = key_columns.kind_of(name, column), self._kinds[name]
            if kind and before and kind != before:
                raise BadArgument(f"key column {name!r} is {before}, not {kind}")
        named = zip(found, columns, strict=True)
        hashes = key_columns.fold([key_columns.hashes_of(*column, self.seed) for column in named])
        return self._estimates(self._keys[found], hashes)

    def table(self, key: KeyName | int) -> pa.Table:
        """The heaviest values of a key with their sums.

        Parameters
        ----------
        key : str, sequence of str, or int
            A key, or its position from 1.

        Returns
        -------
        pyarrow.Table
            The key's columns; `count` and the indicators, which are upper bounds; then
            `count_lower` (certain) and `<indicator>_lower` (at `confidence`). Largest counts
            first. A value that is not listed has at most `SpaceSaving`'s bound of events:
            count / (track + 1).
        """
        found = find_key(self.keys, key)
        sketch = self._keys[found]
        kept = sketch.heavy.kept()
        hashes = kept.to_numpy(zero_copy_only=False).astype(np.uint64)
        sums = self._estimates(sketch, hashes)
        heavy = sketch.heavy.estimate(kept)
        upper = {name: estimate.upper for name, estimate in sums.items()}
        lower = {name + LOWER: estimate.lower for name, estimate in sums.items()}
        upper[COUNT] = np.minimum(upper[COUNT], heavy.upper)
        lower[COUNT + LOWER] = heavy.lower
        order = pa.array(np.argsort(-upper[COUNT], kind="stable"))
        columns = dict(zip(found, sketch.values, strict=True)) | upper | lower
        return pa.table(columns).take(order)

    def merge(self, other: Self) -> None:
        """Add the events of another of the same parameters, which stays as it is.

        Raises
        ------
        IncompatibleSummary
            Other parameters, keys or indicators, or a key column of another type.
        SummaryOverflow
            The sum of an indicator would leave its range. Nothing was changed.
        """
        check_alike(self, other)
        kinds = dict(self._kinds)
        for name, theirs in other._kinds.items():
            if kinds[name] and theirs and kinds[name] != theirs:
                raise IncompatibleSummary(
                    f"key column {name!r}: {kinds[name]} here, {theirs} there"
                )
            kinds[name] = kinds[name] or theirs
        other = other.copy()  # its lanes may have to become floats
        types: dict[str, IndicatorType | None] = {
            name: wider(kind, other._types[name]) for name, kind in self._types.items()
        }
        pairs = zip(self.totals.items(), other._totals, strict=True)
        totals = [added(name, mine, theirs) for (name, mine), theirs in pairs]
        for matrix in (self, other):
            matrix._widen(types)
        self._kinds, self._types, self._totals = kinds, types, totals
        self._nulls = {name: nulls + other._nulls[name] for name, nulls in self._nulls.items()}
        for key, sketch in self._keys.items():
            sketch.merge(other._keys[key], [kinds[name] for name in key], self._is_float())

    @classmethod
    def merged(cls, summaries: Iterable[Self]) -> Self:
        """A new summary of the events of all; at least one is given."""
        parts = list(summaries)
        if not parts:
            raise BadArgument("merged() of nothing: give at least one summary")
        whole = parts[0].copy()
        for part in parts[1:]:
            whole.merge(part)
        return whole

    @property
    def parameters(self) -> dict[str, Any]:
        """What two summaries must share to be merged."""
        return {
            "keys": [list(key) for key in self._keys],
            "indicators": list(self._types),
            "width": self.width,
            "depth": self.depth,
            "track": self.track,
            "seed": self.seed,
        }

    def copy(self) -> Self:
        """An independent copy."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin._types, twin._kinds = dict(self._types), dict(self._kinds)
        twin._nulls, twin._totals = dict(self._nulls), list(self._totals)
        twin._keys = {key: sketch.copy() for key, sketch in self._keys.items()}
        return twin

    def to_bytes(self) -> bytes:
        """The summary in Muntin's envelope."""
        described = self.parameters | {
            "types": list(self._types.values()),
            "kinds": self._kinds,
            "nulls": list(self._nulls.values()),
            "totals": self._totals,
        }
        is_float = self._is_float()
        body = b"".join(sketch.to_bytes(is_float) for sketch in self._keys.values())
        return seal(self.kind, described, body)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The summary that `to_bytes` wrote; CorruptSummary on anything else."""
        parameters, view = unseal(data, cls.kind)
        fields = Fields(cls.kind, parameters)
        matrix = object.__new__(cls)
        matrix.width = fields.integer("width", 2, CELLS_MAX)
        matrix.depth = fields.integer("depth", 1, DEPTH_MAX)
        matrix.track = fields.integer("track", 1, TRACK_MAX)
        matrix.seed = fields.integer("seed", 0, SEED_MAX)
        keys, indicators, types = (fields.value(n) for n in ("keys", "indicators", "types"))
        kinds, nulls, totals = (fields.value(n) for n in ("kinds", "nulls", "totals"))
        fields.done()
        try:
            names = as_keys([tuple(key) for key in keys])
            typed = as_indicators(dict(zip(indicators, types, strict=True)))
            refuse_names(names, typed)
        except (BadArgument, TypeError, ValueError) as problem:
            raise CorruptSummary(f"sketched_matrix: names are impossible ({problem})") from None
        columns = {name for key in names for name in key}
        if not isinstance(kinds, dict) or set(kinds) != columns or len(typed) != len(indicators):
            raise CorruptSummary("sketched_matrix: types of columns that are not there")
        if not all(
            k is None or (type(k) is str and k in key_columns.TYPES) for k in kinds.values()
        ):
            raise CorruptSummary("sketched_matrix: a key column has an unknown type")
        check_totals(list(typed.values()), nulls, totals)
        body = Body(cls.kind, view)
        cells = matrix.width * matrix.depth * (1 + len(typed)) * len(names)
        if 2 * cells > body.left:
            raise CorruptSummary(f"sketched_matrix: {cells} cells are not there")
        matrix._start(names, typed)
        matrix._kinds = {name: kinds[name] for name in matrix._kinds}
        matrix._nulls = dict(zip(typed, nulls, strict=True))
        matrix._totals = totals
        for key, sketch in matrix._keys.items():
            sketch.read(
                body, matrix._is_float(), totals, [kinds[name] for name in key], matrix.seed
            )
        body.done()
        return matrix

    def _vectors(self, batch: pa.RecordBatch | pa.Table) -> tuple[np.ndarray, Any, Any, Any]:
        """Vectors int64[events, lanes] of a batch, and types, nulls and totals with them."""
        vectors = np.ones((batch.num_rows, len(self._totals)), np.int64)
        types, nulls = dict(self._types), dict(self._nulls)
        totals = [added(COUNT, self._totals[0], batch.num_rows)]
        for lane, (name, kind) in enumerate(types.items(), start=1):
            (column,) = key_columns.columns_in(batch, [name])
            read = indicator_values(name, column, kind)
            numbers = np.zeros(len(column), np.int64) if read.numbers is None else read.numbers
            if len(numbers) and numbers.min() < 0:
                raise BadArgument(
                    f"indicator {name!r} is {numbers.min()}: sketched sums need values of at least "
                    "0; keep positive and negative parts as two indicators, or drop `sketch`"
                )
            types[name] = read.type
            nulls[name] += read.nulls
            if read.type == "float64":
                # adding 0.0 turns -0.0 into 0.0
                vectors.view(np.float64)[:, lane] = numbers + 0.0
                totals.append(added(name, float(self._totals[lane]), float(np.sum(numbers))))
            else:
                vectors[:, lane] = numbers
                totals.append(added(name, self._totals[lane], exact_sum(vectors[:, lane])))
        return vectors, types, nulls, totals

    def _estimates(self, sketch: SketchedKey, hashes: np.ndarray) -> dict[str, Estimate]:
        lanes = sketch.estimate(hashes, self._is_float())
        found = {}
        for lane, (name, total) in enumerate(self.totals.items()):
            error = math.e * total / self.width
            if self._is_float()[lane]:
                value = lanes.view(np.float64)[:, lane].copy()
            else:
                value = lanes[:, lane].copy()
                error = math.ceil(error)
            lower = np.maximum(value - error, 0)
            found[name] = Estimate(value, lower.astype(value.dtype), value.copy(), self.confidence)
        return found

    def _is_float(self) -> np.ndarray:
        return np.array([False, *(kind == "float64" for kind in self._types.values())])

    def _widen(self, types: Mapping[str, IndicatorType | None]) -> None:
        """Turn lanes of integers into lanes of floats where these types say so."""
        for lane, (name, kind) in enumerate(types.items(), start=1):
            if kind == "float64" and self._types[name] == "int64":
                for sketch in self._keys.values():
                    sketch.to_floats(lane)

    def __repr__(self) -> str:
        return (
            f"SketchedMatrix(keys={self.keys}, indicators={self.indicators}, "
            f"width={self.width}, depth={self.depth}): {self.count} events"
        )


LOWER = "_lower"


def refuse_names(keys: Sequence[Key], indicators: Iterable[str]) -> None:
    """A table of a key has one column of each name, the lower bounds included."""
    refuse_both(keys, indicators)
    names = {name for key in keys for name in key} | set(indicators)
    for name in (COUNT, *indicators):
        if name + LOWER in names:
            raise BadArgument(f"{name + LOWER!r} names the lower bounds of {name!r}: rename it")


def wider(mine: IndicatorType | None, theirs: IndicatorType | None) -> IndicatorType | None:
    return "float64" if "float64" in (mine, theirs) else mine or theirs


def added(name: str, total: Any, more: Any) -> Any:
    found = total + more
    if found > INT64_MAX if isinstance(found, int) else not math.isfinite(found):
        raise SummaryOverflow(f"the sum of {name!r} over all events leaves its range: {found}")
    return found


def check_totals(types: Sequence[IndicatorType | None], nulls: Any, totals: Any) -> None:
    if (
        not isinstance(nulls, list)
        or not isinstance(totals, list)
        or len(nulls) != len(types)
        or len(totals) != len(types) + 1
    ):
        raise CorruptSummary("sketched_matrix: nulls and totals of other indicators")
    for value, kind in zip((*nulls, *totals), (*[None] * (len(nulls) + 1), *types), strict=True):
        wanted = float if kind == "float64" else int
        if type(value) is not wanted or not 0 <= value <= (
            INT64_MAX if wanted is int else math.inf
        ):
            raise CorruptSummary(f"sketched_matrix: a total is {value!r}")
    if any(total for total, kind in zip(totals[1:], types, strict=True) if kind is None):
        raise CorruptSummary("sketched_matrix: a sum without a type")
    if any(value > totals[0] for value in nulls):
        raise CorruptSummary("sketched_matrix: more nulls than events")
