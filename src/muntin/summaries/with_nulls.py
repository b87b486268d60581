"""A summary of values, and the number of events that had none: no event is lost.

=========== =================================================================================
State       a summary of one of the kinds below; nulls: int
Error       that of the kind, over the events that have a value; `nulls` is exact
Merge       as the kind; the nulls are added
Duplicates  as for the kind; a null counts again
Source      none: bookkeeping
Limits      of a summary by key, the nulls are counted for all keys together
=========== =================================================================================
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.errors import BadArgument, CorruptSummary, IncompatibleSummary
from muntin.summaries.checks import integer_in
from muntin.summaries.envelope import kind_of, seal, unseal
from muntin.summaries.merging import merged
from muntin.summaries.reading import INT64_MAX, Fields
from muntin.summaries.weights import added

_CLASSES = {
    "count_min": ("muntin.summaries.count_min", "CountMin"),
    "distinct": ("muntin.summaries.distinct", "Distinct"),
    "fingerprint": ("muntin.summaries.fingerprint_index", "Fingerprint"),
    "keyed": ("muntin.summaries.keyed", "Keyed"),
    "kll": ("muntin.summaries.quantiles", "KLL"),
    "space_saving": ("muntin.summaries.space_saving", "SpaceSaving"),
}


class WithNulls:
    """A summary beside the number of events that it could not take.

    Parameters
    ----------
    inner : CountMin, Distinct, Fingerprint, Keyed, KLL or SpaceSaving
        Belongs to this one from here on. Questions are asked of it.
    nulls : int
        Events without a value.

    Raises
    ------
    BadArgument
        Another kind of summary, or a negative number.

    Examples
    --------
    >>> from muntin.summaries import KLL
    >>> delays = WithNulls(KLL())
    >>> delays.update(pa.array([1.0, None, float("nan"), 4.0]))
    >>> delays.count, delays.nulls, delays.inner.count
    (4, 2, 2)
    """

    kind: ClassVar[str] = "with_nulls"
    __slots__ = ("inner", "nulls")

    def __init__(self, inner: Any, nulls: int = 0) -> None:
        if getattr(inner, "kind", None) not in _CLASSES:
            raise BadArgument(f"inner is a {type(inner).__name__}: use one of {_kinds()}")
        self.inner = inner
        self.nulls = integer_in("nulls", nulls, 0, INT64_MAX)

    @property
    def count(self) -> int:
        """Events summarised, those without a value included."""
        return self.inner.count + self.nulls

    @property
    def nbytes(self) -> int:
        """Bytes of memory held."""
        return self.inner.nbytes

    def update(self, *values: pa.Array, by: pa.RecordBatch | None = None) -> None:
        """Count events.

        Parameters
        ----------
        *values : arrays [n]
            What the inner summary's `update` takes. An event with a null or NaN among its values
            is counted in `nulls` only.
        by : RecordBatch of n rows, optional
            Key columns, for an inner summary by key; null is a key of its own.

        Raises
        ------
        BadArgument
            Values that the inner summary refuses. Nothing was counted.
        """
        if not values:
            raise BadArgument("update needs values: give an array for each column")
        missing = absent(values)
        if missing is not None:
            keep = pa.array(~missing)
            values = tuple(column.filter(keep) for column in values)
            by = by.filter(keep) if by is not None else None
        if len(values[0]):
            self.inner.update(*(values if by is None else (by, *values)))
        if missing is not None:
            self.skip(int(np.count_nonzero(missing)))

    def skip(self, events: int) -> None:
        """Count events without a value."""
        self.nulls = added(self.nulls, events, self.kind, "events")

    def merge(self, other: Self) -> None:
        """Add the events of another, which stays as it is.

        Raises
        ------
        IncompatibleSummary
            Another kind, or other parameters, of the inner summary.
        SummaryOverflow
            More events than int64 counts. Nothing was changed.
        """
        self._check_alike(other)
        nulls = added(self.nulls, other.nulls, self.kind, "events")
        self.inner.merge(other.inner)
        self.nulls = nulls

    @classmethod
    def merged(cls, summaries: Iterable[Self]) -> Self:
        """A new summary of the events of all; at least one is given.

        Raises
        ------
        BadArgument
            None is given.
        IncompatibleSummary
            Inner summaries of different kinds or parameters.
        """
        parts = list(summaries)
        if not parts:
            raise BadArgument("merged() of nothing: give at least one summary")
        nulls = 0
        for part in parts:
            parts[0]._check_alike(part)
            nulls = added(nulls, part.nulls, cls.kind, "events")
        return cls(merged([part.inner for part in parts]), nulls)

    def copy(self) -> Self:
        """An independent copy."""
        return type(self)(self.inner.copy(), self.nulls)

    def to_bytes(self) -> bytes:
        """The number of nulls, and the inner summary in its own envelope, in Muntin's."""
        return seal(self.kind, {"nulls": self.nulls}, self.inner.to_bytes())

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The summary that `to_bytes` wrote; CorruptSummary on anything else."""
        parameters, view = unseal(data, cls.kind)
        fields = Fields(cls.kind, parameters)
        nulls = fields.integer("nulls", 0, INT64_MAX)
        fields.done()
        body = bytes(view)
        kind = kind_of(body)
        if kind not in _CLASSES:
            raise CorruptSummary(f"with_nulls: a {kind} cannot stand here")
        inner = _class_of(kind).from_bytes(body)
        if inner.count > INT64_MAX - nulls:
            raise CorruptSummary("with_nulls: more events than int64 counts")
        return cls(inner, nulls)

    def _check_alike(self, other: Any) -> None:
        if not isinstance(other, WithNulls):
            raise IncompatibleSummary(f"cannot merge a {type(other).__name__} into a WithNulls")
        if other.inner.kind != self.inner.kind:
            raise IncompatibleSummary(f"a {self.inner.kind} cannot take a {other.inner.kind}")

    def __repr__(self) -> str:
        return f"WithNulls({self.inner!r}, nulls={self.nulls})"


def absent(columns: Iterable[pa.Array]) -> np.ndarray | None:
    """bool[n]: rows in which a column is null or NaN; None where there are none."""
    missing: np.ndarray | None = None
    for column in columns:
        is_float = pa.types.is_floating(column.type)
        if not column.null_count and not (_has_nan(column) if is_float else _hides_nulls(column)):
            continue
        nulls = pc.call_function("is_null", [column], pc.NullOptions(nan_is_null=is_float))
        found = nulls.to_numpy(zero_copy_only=False)
        if found.any():
            missing = found if missing is None else missing | found
    return missing


def _has_nan(column: pa.Array) -> bool:
    """Whether a column of floats without nulls has a NaN: the minimum is one then."""
    values = column.to_numpy()
    with np.errstate(invalid="ignore"):
        return len(values) > 0 and bool(np.isnan(np.minimum.reduce(values)))


def _hides_nulls(column: pa.Array) -> bool:
    """A dictionary may hold a null that its indices do not show."""
    return pa.types.is_dictionary(column.type) and column.dictionary.null_count > 0


def _class_of(kind: str) -> Any:
    module, name = _CLASSES[kind]
    return getattr(import_module(module), name)


def _kinds() -> str:
    return ", ".join(name for _, name in _CLASSES.values())
