"""What a vector matrix holds, and how its keys and indicators come and go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from muntin.errors import BadArgument, UnknownName
from muntin.summaries.vector_matrix.derived import derivable, derive
from muntin.summaries.vector_matrix.held import Held, no_rows
from muntin.summaries.vector_matrix.indicators import (
    INT64_MAX,
    Indicator,
    Layout,
    layout_of,
)
from muntin.summaries.vector_matrix.key_table import KeyTable
from muntin.summaries.vector_matrix.key_values import KeyKind
from muntin.summaries.vector_matrix.names import (
    INDICATORS_MAX,
    KEYS_MAX,
    IndicatorType,
    Key,
    as_indicator,
    as_key,
    as_type,
    refuse_both,
    shown,
)
from muntin.summaries.vector_matrix.numbering import Numbering
from muntin.summaries.vector_matrix.rows import KeyRows, key_rows, load_rows

_COMPACT_ROWS_MIN = 1024


class State:
    """Keys with their tables, indicators with their counters, and the indexes of values."""

    __slots__ = (
        "_keys", "_kinds", "_lagging", "_loosened", "_numbering", "_tables", "capacity", "count",
        "held", "indicators", "layout",
    )  # fmt: skip

    def __init__(
        self,
        keys: Sequence[Key],
        types: Mapping[str, IndicatorType | None],
        capacity: int | None,
    ) -> None:
        if capacity is not None and (
            isinstance(capacity, bool)
            or not isinstance(capacity, int)
            or not 1 <= capacity <= INT64_MAX
        ):
            raise BadArgument(f"capacity={capacity!r:.50}: give the rows a window may hold")
        self.capacity = capacity
        self.count = 0
        self.indicators = [
            Indicator(as_indicator(name), as_type(name, kind)) for name, kind in types.items()
        ]
        if len(self.indicators) > INDICATORS_MAX:
            raise BadArgument(f"{len(types)} indicators: give at most {INDICATORS_MAX}")
        refuse_both(keys, types)
        self.layout = self._layout()
        self._loosened = 0
        self._keys = tuple(keys)
        self._kinds: dict[str, KeyKind | None] = {name: None for key in keys for name in key}
        self._numbering: Numbering | None = None
        self._tables: dict[Key, KeyTable] = {}
        self._lagging: tuple[Key, ...] = ()
        self.held: Held | None = no_rows(self._keys, self._kinds, self.layout)
        """The rows, as long as nothing needs indexes."""

    def _layout(self) -> Layout:
        return layout_of(
            tuple([indicator.name for indicator in self.indicators]),
            tuple([indicator.type for indicator in self.indicators]),
        )

    def hold(self, held: Held, kinds: Mapping[str, KeyKind | None]) -> None:
        """Have these rows, in the layout that is set, and these types of columns."""
        self.held, self._kinds = held, dict(kinds)
        self._numbering, self._tables, self._lagging = None, {}, ()

    def become(self, numbering: Numbering, tables: dict[Key, KeyTable]) -> None:
        """Have these indexes and rows, in the layout that is set."""
        self._numbering, self._tables, self._lagging, self.held = numbering, tables, (), None

    def _index(self) -> Numbering:
        """Make the indexes and tables of the rows that are held."""
        held = self.held
        if held is None:
            raise TypeError("a summary has neither rows nor indexes")
        numbering = Numbering(self._keys)
        for name, kind in self._kinds.items():
            numbering.columns[name].become(kind)
        tables = {}
        for at, key in enumerate(self._keys):
            tables[key] = KeyTable(key, self.layout, held.sizes[at])
            if held.sizes[at]:
                load_rows(tables[key], numbering, held.rows(at))
        self._numbering, self._tables, self.held = numbering, tables, None
        self._lagging = () if self.count else derivable(self._keys)
        self.reserve_rows()
        return numbering

    @property
    def numbering(self) -> Numbering:
        return self._numbering if self._numbering is not None else self._index()

    @property
    def tables(self) -> dict[Key, KeyTable]:
        """Each key's rows, all of them."""
        numbering = self.numbering
        if self._lagging:
            self.reserve_rows()
            derive(self._lagging, self._tables, numbering, checked=False)
            self._lagging = ()
        return self._tables

    @property
    def leading(self) -> dict[Key, KeyTable]:
        """The tables that must be told of an event: others will be derived from them.

        All, once somebody asked for `tables`: what is asked for again and again is kept.
        """
        if self.held is not None:
            self._index()
        if not self._lagging:
            return self._tables
        return {k: table for k, table in self._tables.items() if k not in self._lagging}

    @property
    def keys(self) -> tuple[Key, ...]:
        return self._keys if self.held is not None else tuple(self._tables)

    @property
    def kinds(self) -> dict[str, KeyKind | None]:
        """Type of each key column; None as long as none is known."""
        if self._numbering is None:
            return self._kinds
        return {name: column.kind for name, column in self._numbering.columns.items()}

    @property
    def nbytes(self) -> int:
        if self.held is not None:
            return self.held.nbytes
        return self.numbering.nbytes + sum(table.nbytes for table in self._tables.values())

    def live(self) -> dict[Key, int]:
        """Rows of each key."""
        if self.held is not None:
            return dict(zip(self._keys, self.held.sizes, strict=True))
        return {key: table.live for key, table in self.tables.items()}

    def covered(self) -> dict[Key, int]:
        """Events that the rows of each key hold."""
        if self.held is not None:
            return dict(zip(self._keys, self.held.covered, strict=True))
        return {key: table.covered for key, table in self._tables.items()}

    def rows_of(self, key: Key) -> KeyRows:
        if self.held is not None:
            return self.held.rows(self._keys.index(key))
        return key_rows(self.tables[key], self.numbering)

    def copy(self) -> State:
        new = State.__new__(State)
        new.take(self)
        new.indicators = [indicator.copy() for indicator in self.indicators]
        if self.held is None:
            new._numbering = self.numbering.copy()
            new._tables = {key: table.copy() for key, table in self._tables.items()}
        return new

    def take(self, other: State) -> None:
        """Become what another is; the other is not used any more."""
        for name in self.__slots__:
            setattr(self, name, getattr(other, name))

    # Keys and indicators

    def indicator(self, name: Any) -> Indicator:
        for indicator in self.indicators:
            if indicator.name == name:
                return indicator
        names = ", ".join(indicator.name for indicator in self.indicators) or "none"
        raise UnknownName(f"unknown indicator {name!r:.200}; there are: {names}")

    def add_key(self, key: Any) -> None:
        key = as_key(key)
        if key in self.tables:
            raise BadArgument(f"key {shown(key)} is there already")
        if len(self.tables) == KEYS_MAX:
            raise BadArgument(f"key {shown(key)}: there are {KEYS_MAX} already, the limit")
        refuse_both([key], [indicator.name for indicator in self.indicators])
        self.numbering.add(key)
        self.tables[key] = KeyTable(key, self.layout, self.numbering.rows(key))
        if self.partly_seen():
            self.tables[key].track_validity(self.complete())

    def remove_key(self, key: Key) -> None:
        if len(self.tables) == 1:
            raise BadArgument(f"key {shown(key)} is the only one: a summary needs a key")
        numbering = self.numbering
        del self.tables[key]
        numbering.keep(self.tables)

    def add_indicator(self, name: Any, kind: Any = None) -> None:
        name = as_indicator(name)
        if any(indicator.name == name for indicator in self.indicators):
            raise BadArgument(f"indicator {name!r} is there already")
        if len(self.indicators) == INDICATORS_MAX:
            raise BadArgument(f"indicator {name!r}: there are {INDICATORS_MAX} already, the limit")
        refuse_both(self.tables, [name])
        self.set_indicators([*self.indicators, Indicator(name, as_type(name, kind))])

    def remove_indicator(self, name: Any) -> None:
        gone = self.indicator(name)
        self.set_indicators([i for i in self.indicators if i is not gone])

    def set_indicators(self, indicators: list[Indicator]) -> None:
        """Take other indicators; sums of those that stay are kept."""
        self.indicators = indicators
        self.relay()
        if self.partly_seen():
            complete = self.complete()
            for table in self.tables.values():
                table.track_validity(complete)
        else:
            for table in self.tables.values():
                table.valid = None

    def relay(self) -> None:
        """Bring the rows into the layout of the indicators."""
        if self.held is not None:
            self._index()  # before the layout changes: rows that are held are in the old one
        self.layout = self._layout()
        for table in self._tables.values():
            table.relay(self.layout)

    def complete(self) -> list[bool]:
        """Per indicator, whether all events so far had it."""
        return [indicator.seen == self.count for indicator in self.indicators]

    def partly_seen(self) -> bool:
        return not all(self.complete())

    # Room for sums

    def loosen(self, added: Sequence[int | float], rows: int) -> bool:
        """Widen the indicators' bounds; False where a sum might leave its range.

        A bound costs one addition a batch, and is looked up in the rows only where it became too
        loose, at most once for each time that as many rows were added as there are.
        """
        self._loosened += rows
        if self._widened(added):
            return True
        if self._loosened < sum(map(self.numbering.rows, self._tables)):
            return False
        self.tighten()
        return self._widened(added)

    def _widened(self, added: Sequence[int | float]) -> bool:
        safe = True
        for indicator, more in zip(self.indicators, added, strict=True):
            indicator.largest += more
            safe = safe and indicator.largest < indicator.limit
        return safe

    def tighten(self) -> None:
        """Bound the indicators by what the rows hold."""
        self._loosened = 0
        for at, indicator in enumerate(self.indicators):
            indicator.largest = max(
                table.largest(at, self.numbering.rows(key)) for key, table in self.tables.items()
            )

    # Rows

    def reserve(self, other: State) -> None:
        """Make room for as much as another holds, so that adding it grows nothing twice."""
        if other.held is None:
            self.numbering.reserve(other.numbering)
            return
        for key, size in zip(other._keys, other.held.sizes, strict=True):
            if key in self.tables:
                self.numbering.reserve_key(key, size)

    def reserve_rows(self) -> None:
        """After values were numbered: every matrix that is added to has a row for every number."""
        for key, table in self.leading.items():
            table.reserve(self.numbering.rows(key))

    def cover(self, events: int) -> None:
        """Events were added to the leading tables."""
        for table in self._tables.values():
            table.covered += events

    def compact(self) -> None:
        """Drop values and rows that are not there any more, where they are more than half."""
        numbered = sum(self.numbering.rows(key) for key in self.tables)
        live = sum(table.live for table in self.tables.values())
        if numbered - live <= max(live, _COMPACT_ROWS_MIN):
            return
        fresh = Numbering(self.tables)
        for name, column in self.numbering.columns.items():
            fresh.columns[name].become(column.kind)
        for key, table in self.tables.items():
            rows = key_rows(table, self.numbering)
            self.tables[key] = KeyTable(key, self.layout, len(rows))
            load_rows(self.tables[key], fresh, rows)
        self._numbering = fresh
        self.reserve_rows()
