"""What a kind of summary is: four functions over columns of states, and its parameters.

Everything else (grouping, keys, rollups, windows, limits, bytes, shards) is written once and knows
no kind.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

import pyarrow as pa

from muntin.errors import BadArgument, CorruptSummary, IncompatibleSummary
from muntin.segments.columns import Shape, States
from muntin.segments.grouping import Groups
from muntin.segments.keys import Keys
from muntin.segments.table import Table


@dataclass(frozen=True)
class Algebra(ABC):
    """A kind with its parameters: an immutable value, equal to another of the same parameters."""

    kind: ClassVar[str]
    order_free: ClassVar[bool]
    """Whether states, and so bytes, do not depend on how events were spread, cut and ordered."""
    keys_are_items: ClassVar[bool] = False
    """Whether a table has the empty key, and the keys that are asked for are items of a state."""

    def parameters(self) -> dict[str, Any]:
        """What two segments must share to be merged, as JSON holds it: the fields."""
        return {one.name: getattr(self, one.name) for one in fields(self)}

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, Any]) -> Self:
        """The inverse of `parameters`, of the types that the fields' defaults have, unless these
        are None; CorruptSummary."""
        own = {one.name: one.default for one in fields(cls)}
        if set(parameters) == set(own) and all(
            default is None or type(parameters[name]) is type(default)
            for name, default in own.items()
        ):
            try:
                return cls(**parameters)
            except (BadArgument, TypeError):
                pass
        raise CorruptSummary(f"{cls.kind}: parameters {dict(parameters)!r:.200}")

    @abstractmethod
    def columns(self) -> dict[str, Shape]:
        """The columns of the states, in the order of the bytes."""

    @abstractmethod
    def fold(self, values: Sequence[Any], groups: Groups, items: Keys | None) -> States:
        """Events -> one state a group.

        Parameters
        ----------
        values : arrays [n]
            The kind says which; as `prepared` left them.
        items : Keys, optional
            Those of `prepared`.
        """

    @abstractmethod
    def merge(self, states: States, groups: Groups, items: Keys | None) -> States:
        """States -> one state a group, of at least one each."""

    @abstractmethod
    def check(self, table: Table) -> None:
        """CorruptSummary where no events could have made these states. One pass."""

    @abstractmethod
    def answer(self, table: Table, question: Any) -> pa.Table:
        """Value, bounds and confidence of each state.

        Returns
        -------
        pyarrow.Table
            `row` (int64: number of the state), ascending; then what is asked for.
        """

    def prepared(self, values: Sequence[pa.Array]) -> tuple[Sequence[Any], Keys | None]:
        """What `fold` takes: made once of a batch, for all of its keys. Kinds whose states name
        items give their numbers, and the different ones."""
        return values, None

    def fitted(self, values: Sequence[pa.Array]) -> Self:
        """With what only the values decide: types of sums that nobody declared."""
        return self

    def united(self, other: Algebra) -> Algebra:
        """The kind of a merge of both; IncompatibleSummary."""
        if self != other:
            raise IncompatibleSummary(
                f"{self.kind} of {other.parameters()} cannot join {self.parameters()}"
            )
        return self

    def adapted(self, table: Table, to: Algebra) -> States:
        """States as the kind of a merge has them."""
        return table.states

    def negated(self, states: States) -> States:
        """What a merge takes these states away with; IncompatibleSummary where the kind cannot."""
        raise IncompatibleSummary(f"{self.kind} cannot be subtracted")

    def remainder(self, table: Table) -> States:
        """The states that a merge with negated ones has left, of rows that may have no events;
        IncompatibleSummary where one is less than nothing."""
        return table.states
