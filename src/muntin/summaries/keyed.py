"""A summary for each value of a key ("by origin"), for a bounded number of keys.

=========== =================================================================================
State       up to `limit` keys, each with a summary of one kind and whether it is complete;
            one more summary, `other`, for the events of all further keys
Error       that of the kind, for each complete key; every event is in exactly one summary
Merge       with the same kind, parameters, columns and limit. Which keys are kept where there
            are more than `limit` depends on the order; the events of the rest are in `other`
Duplicates  as for the kind
Limits      the first `limit` keys are kept, not the heaviest
=========== =================================================================================

**Complete.** Where two are merged, a key that one of them keeps may hide in the other's `other`.
Its summary then holds a part of its events only, and `complete` is false for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa

from muntin.errors import BadArgument, CorruptSummary, IncompatibleSummary
from muntin.summaries import key_columns
from muntin.summaries.base import Summary
from muntin.summaries.checks import integer_in
from muntin.summaries.envelope import kind_of, seal, unseal
from muntin.summaries.key_index import COLUMNS_MAX, KeyIndex, are_names, group, raw_keys
from muntin.summaries.merging import merged
from muntin.summaries.reading import INT64_MAX, Body, Fields, block

LIMIT_MAX = 1_000_000  # keys: past that, a sketch over (key, item) pairs is the better tool
_CLASSES = {
    "count_min": ("muntin.summaries.count_min", "CountMin"),
    "distinct": ("muntin.summaries.distinct", "Distinct"),
    "kll": ("muntin.summaries.quantiles", "KLL"),
    "space_saving": ("muntin.summaries.space_saving", "SpaceSaving"),
}


class Keyed:
    """Summaries by key.

    Parameters
    ----------
    kind : "count_min", "distinct", "kll" or "space_saving"
        Of the summary of each key.
    parameters : mapping, optional
        Of that kind's constructor.
    by : str or sequence of str
        Key columns: text, integers, booleans, dates or timestamps; null is a key of its own.
    limit : int
        Keys that are kept, 1 ... 1,000,000.

    Raises
    ------
    BadArgument
        A parameter out of its range, or refused by the kind.

    Examples
    --------
    >>> pilots = Keyed("distinct", {"lg_k": 8}, by="origin")
    >>> pilots.update(["JFK", "EWR", "JFK"], ["ann", "bob", "ann"])
    >>> round(float(pilots.get("JFK").estimate().value[0]))
    1
    """

    kind: ClassVar[str] = "keyed"

    def __init__(
        self,
        kind: str,
        parameters: Mapping[str, Any] | None = None,
        by: str | Sequence[str] = (),
        limit: int = 10_000,
    ) -> None:
        names = (by,) if isinstance(by, str) else tuple(by)
        if not are_names(names):
            raise BadArgument(f"by={by!r}: give 1 to {COLUMNS_MAX} different column names")
        try:
            template = _class_of(kind)(**dict(parameters or {}))
        except KeyError:
            raise BadArgument(f"kind {kind!r} is none of {', '.join(sorted(_CLASSES))}") from None
        except TypeError as problem:
            raise BadArgument(f"parameters of {kind}: {problem}") from None
        self._start(template, names, integer_in("limit", limit, 1, LIMIT_MAX))

    def _start(self, template: Summary, by: tuple[str, ...], limit: int) -> None:
        self.limit = limit
        self._template = template
        self._keys = KeyIndex(by)
        self._summaries: list[Any] = []
        self._complete: list[bool] = []
        self._other: Any = None

    def __len__(self) -> int:
        """Keys that are kept."""
        return len(self._summaries)

    @property
    def by(self) -> tuple[str, ...]:
        """The key columns."""
        return self._keys.names

    @property
    def template(self) -> Any:
        """An empty summary such as each key has. Not to be changed."""
        return self._template

    @property
    def inner_kind(self) -> str:
        """Kind of each key's summary."""
        return self._template.kind

    @property
    def other(self) -> Any:
        """Summary of the events of keys past the limit; None where there are none."""
        return self._other

    @property
    def count(self) -> int:
        """Events summarised, those in `other` included."""
        return sum(summary.count for summary in self.summaries())

    @property
    def nbytes(self) -> int:
        """Bytes of memory held, about."""
        held = sum(summary.nbytes for summary in (*self.summaries(), self._template))
        return held + self._keys.nbytes

    def summaries(self) -> list[Any]:
        """The summaries in the order of `table`: of each key, then `other`. Not to be changed."""
        return [*self._summaries, *([self._other] if self._other is not None else [])]

    def get(self, key: Any) -> Any:
        """The summary of a key (of several columns: a tuple), or None. Not to be changed."""
        number = self._keys.number_of(key)
        return None if number is None else self._summaries[number]

    def complete(self, key: Any) -> bool:
        """Whether the summary of a key holds all events of that key; for an unknown key, whether
        there were surely none.
        """
        number = self._keys.number_of(key)
        return self._other is None if number is None else self._complete[number]

    def items(self) -> Iterator[tuple[Any, Any]]:
        """Each key (of several columns: a tuple) with its summary; not `other`."""
        columns = [column.to_pylist() for column in self._keys.columns()]
        keys = columns[0] if len(columns) == 1 else zip(*columns, strict=True)
        return zip(keys, list(self._summaries), strict=True)

    def table(self) -> pa.Table:
        """The keys, in the order of `summaries`.

        Returns
        -------
        pyarrow.Table
            The key columns; `count` of events (int64); `complete` (bool); `other` (bool), true in
            the last row where there are events past the limit: its key columns are null.
        """
        extra = 0 if self._other is None else 1
        columns = [
            pa.concat_arrays([column, pa.nulls(extra, column.type)])
            for column in self._keys.columns()
        ]
        size = len(self)
        columns += [
            pa.array([summary.count for summary in self.summaries()], pa.int64()),
            pa.array([*self._complete, *[True] * extra], pa.bool_()),
            pa.array([False] * size + [True] * extra, pa.bool_()),
        ]
        return pa.Table.from_arrays(columns, [*self.by, "count", "complete", "other"])

    def update(self, keys: Any, *values: Any) -> None:
        """Count events.

        Parameters
        ----------
        keys : RecordBatch, Table or mapping that has the columns `by`; or array(s) [n]
            One key a row; of several columns, arrays in the order of `by`.
        *values : arrays [n], or a scalar that stands for all
            What the kind's `update` takes: items, weights ...

        Raises
        ------
        BadArgument
            Columns are missing, of another type than before, of different lengths, or refused
            by the kind. Nothing was counted.
        """
        columns, kinds = self._keys.canonical(key_columns.columns_in(keys, self.by))
        rows = len(columns[0])
        given = [_column_of_values(value, rows) for value in values]
        if not rows:
            return
        # a trial finds what the kind refuses, before a part of the rows is counted
        trial = (self._summaries[0] if self._summaries else self._template).copy()
        trial.update(*given)
        self._keys.kinds = kinds
        codes, first = key_columns.codes_of(columns)
        slots = self._slots([column.take(first) for column in columns])
        order, runs = group(slots[codes], self.limit)
        taken = [_take(column, order) for column in given]
        for slot, start, end in runs:
            self._summary_at(slot).update(*(_slice(column, start, end) for column in taken))

    def merge(self, other: Self) -> None:
        """Add the summaries of another.

        Raises
        ------
        IncompatibleSummary
            Other columns, types, limit, kind or parameters.
        """
        kinds = self._check_alike(other)
        if other is self:
            other = self.copy()
        self._keys.kinds = kinds
        mine, theirs = self._other is not None, other._other is not None
        if theirs:
            self._complete = [
                complete and other._keys.get(key) is not None
                for key, complete in zip(self._keys, self._complete, strict=True)
            ]
        for key, summary, complete in zip(
            other._keys, other._summaries, other._complete, strict=True
        ):
            at = self._keys.get(key)
            if at is not None:
                self._summaries[at].merge(summary)
                self._complete[at] = self._complete[at] and complete
            elif len(self) < self.limit:
                self._keys.add(key)
                self._summaries.append(summary.copy())
                self._complete.append(complete and not mine)
            else:
                self._summary_at(self.limit).merge(summary)
        if theirs:
            self._summary_at(self.limit).merge(other._other)

    @classmethod
    def merged(cls, parts: Iterable[Self]) -> Self:
        """A new one of the events of all, as by one `merge` after the other; none is changed.

        Each key's summaries are merged at once, which is faster where the kind can.

        Raises
        ------
        BadArgument
            None is given.
        IncompatibleSummary
            Other columns, types, limit, kind or parameters.
        """
        parts = list(parts)
        if not parts:
            raise BadArgument("merged() of nothing: give at least one summary")
        whole = object.__new__(cls)
        whole._start(parts[0]._template, parts[0].by, parts[0].limit)
        index, limit = whole._keys, whole.limit
        lists: list[list[Any]] = []
        rest: list[Any] = []
        for part in parts:
            index.kinds = whole._kinds_with(part)
            if part._other is not None:
                for at, key in enumerate(index):
                    if part._keys.get(key) is None:
                        whole._complete[at] = False
            hidden = bool(rest)
            for key, summary, complete in zip(
                part._keys, part._summaries, part._complete, strict=True
            ):
                at = index.get(key)
                if at is not None:
                    lists[at].append(summary)
                    whole._complete[at] &= complete
                elif len(lists) < limit:
                    index.add(key)
                    lists.append([summary])
                    whole._complete.append(complete and not hidden)
                else:
                    rest.append(summary)
            if part._other is not None:
                rest.append(part._other)
        whole._summaries = [merged(summaries) for summaries in lists]
        whole._other = merged(rest) if rest else None
        return whole

    def copy(self) -> Self:
        """An independent copy."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin._keys = self._keys.copy()
        twin._complete = list(self._complete)
        twin._summaries = [summary.copy() for summary in self._summaries]
        twin._other = self._other.copy() if self._other is not None else None
        return twin

    def to_bytes(self) -> bytes:
        """All keys and summaries in Muntin's envelope; each summary is sealed by itself."""
        described = {
            "by": list(self.by),
            "types": self._keys.kinds,
            "limit": self.limit,
            "keys": len(self),
            "other": self._other is not None,
        }
        pieces = [block(self._template.to_bytes()), key_columns.encode(self._keys.columns())]
        pieces.append(np.array(self._complete, np.uint8).tobytes())
        pieces += [block(summary.to_bytes()) for summary in self.summaries()]
        return seal(self.kind, described, b"".join(pieces))

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The summaries that `to_bytes` wrote.

        Raises
        ------
        CorruptSummary
            Anything else: damaged, cut, of another kind, or with contradictions.
        """
        parameters, view = unseal(data, cls.kind)
        fields = Fields(cls.kind, parameters)
        by, types = fields.texts("by"), fields.value("types")
        limit = fields.integer("limit", 1, LIMIT_MAX)
        size = fields.integer("keys", 0, limit)
        further = fields.boolean("other")
        fields.done()
        body = Body(cls.kind, view)
        template = _read_inner(bytes(body.block()))
        if template.count:
            raise CorruptSummary("keyed: the template is not empty")
        keyed = object.__new__(cls)
        keyed._start(template, tuple(by), limit)
        keyed._keys = KeyIndex.read(cls.kind, by, types, size, body)
        flags = body.array("u1", size)
        keyed._complete = (flags == 1).tolist()
        found = [_read_inner(bytes(body.block()), template) for _ in range(size + further)]
        body.done()
        if size and flags.max() > 1:
            raise CorruptSummary("keyed: a key is neither complete nor not")
        counts = [summary.count for summary in found]
        if not all(counts) or sum(counts) > INT64_MAX:
            raise CorruptSummary("keyed: a key without an event, or too many events")
        if further and size < limit:
            raise CorruptSummary("keyed: events past a limit that was not reached")
        keyed._summaries = found[:size]
        keyed._other = found[size] if further else None
        return keyed

    def _slots(self, distinct: list[pa.Array]) -> np.ndarray:
        """Number of the summary of each of these keys, which are noted; `limit` is `other`."""
        slots = np.empty(len(distinct[0]), np.int64)
        for row, key in enumerate(raw_keys(distinct)):
            number = self._keys.get(key)
            if number is None and len(self) < self.limit:
                number = self._keys.add(key)
                self._summaries.append(self._template.copy())
                self._complete.append(True)
            slots[row] = self.limit if number is None else number
        return slots

    def _summary_at(self, slot: int) -> Any:
        if slot < self.limit:
            return self._summaries[slot]
        if self._other is None:
            self._other = self._template.copy()
        return self._other

    def _check_alike(self, other: Self) -> list[str | None]:
        """Types of the key columns of both; IncompatibleSummary."""
        kinds = self._kinds_with(other)
        trial = self._template.copy()  # finds items of another type before anything is changed
        for summary in (*self._summaries[:1], *other._summaries[:1]):
            trial.merge(summary)
        return kinds

    def _kinds_with(self, other: Any) -> list[str | None]:
        """As `_check_alike`, but for what the summaries themselves find out."""
        if not isinstance(other, Keyed):
            raise IncompatibleSummary(f"cannot merge a {type(other).__name__} into a Keyed")
        if (other.by, other.limit) != (self.by, self.limit):
            raise IncompatibleSummary(
                f"Keyed by {self.by}, limit {self.limit}, cannot take one by {other.by}, "
                f"limit {other.limit}"
            )
        if not _alike(self._template, other._template):
            raise IncompatibleSummary(
                f"summaries {other._template!r} by key cannot join {self._template!r}"
            )
        return self._keys.common_kinds(other._keys)

    def __repr__(self) -> str:
        more = "" if self._other is None else f", {self._other.count} events of further keys"
        return (
            f"Keyed({self.inner_kind}, by={self.by}): {self.count} events, {len(self)} keys{more}"
        )


def _class_of(kind: str) -> Any:
    module, name = _CLASSES[kind]
    return getattr(import_module(module), name)


def _read_inner(data: bytes, template: Any = None) -> Any:
    """A key's summary; CorruptSummary where it is of another kind or has other parameters."""
    kind = kind_of(data)
    if kind not in _CLASSES or (template is not None and kind != template.kind):
        raise CorruptSummary(f"keyed: a {kind} cannot stand here")
    summary = _class_of(kind).from_bytes(data)
    if template is not None and not _alike(template, summary):
        raise CorruptSummary("keyed: a summary has other parameters")
    return summary


def _alike(one: Any, other: Any) -> bool:
    """Whether two summaries are of one kind and have the same parameters."""
    return type(one) is type(other) and one.parameters == other.parameters


def _column_of_values(value: Any, rows: int) -> Any:
    if isinstance(value, pa.ChunkedArray):
        value = value.combine_chunks()
    if not isinstance(value, pa.Array) and (value is None or np.ndim(value) == 0):
        return value
    if not isinstance(value, pa.Array | np.ndarray):
        value = pa.array(value)
    if len(value) != rows:
        raise BadArgument(f"{len(value)} values for {rows} keys: give one for each row")
    return value


def _take(column: Any, order: np.ndarray) -> Any:
    if isinstance(column, pa.Array):
        return column.take(pa.array(order))
    return column[order] if isinstance(column, np.ndarray) and column.ndim else column


def _slice(column: Any, start: int, end: int) -> Any:
    if isinstance(column, pa.Array):
        return column.slice(start, end - start)
    return column[start:end] if isinstance(column, np.ndarray) and column.ndim else column
