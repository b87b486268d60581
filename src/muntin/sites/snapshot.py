"""One answer of a coordinator as values that threads may share, and as JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from muntin.sites.spec import CoordinatorSpec
from muntin.times import instant_text
from muntin.topk import Answer, Object

Value = int | float | None


@dataclass(frozen=True, slots=True)
class TopKSnapshot:
    """The top k, and how far it can be trusted, in the units of the source.

    `stale`: the answer's unit has not moved for longer than the lease: no site seals panes any
      more.
    """

    answer: Answer
    k: int
    epsilon: int
    spec: CoordinatorSpec
    stale: bool

    @property
    def items(self) -> tuple[tuple[Object, Value], ...]:
        """With the values that their sites reported last."""
        return tuple((item.object, self._unscaled(item.value)) for item in self.answer.items)

    @property
    def covered(self) -> tuple[int, int] | None:
        """The window that ends with the answer's unit; microseconds since 1970 UTC."""
        if self.answer.as_of is None:
            return None
        end = (self.answer.as_of + 1) * self.spec.unit
        return end - self.spec.window, end

    def promises(self) -> dict[str, Any]:
        """What may be relied on, as JSON values."""
        covered = self.covered
        return {
            "k": self.k,
            "valid": self.answer.valid,
            "as_of": instant_text(covered[1]) if covered else None,
            "missing_sites": list(self.answer.missing_sites),
            "bound": self._unscaled(self.answer.bound),
            "stale": self.stale,
        }

    def to_dict(self) -> dict[str, Any]:
        """The body of GET /top_k."""
        ends = [instant_text(moment) for moment in self.covered or ()]
        return {
            "epsilon": self._unscaled(self.epsilon),
            **self.promises(),
            "unit": self.answer.as_of,
            "window": dict(zip(("start", "end"), ends, strict=True)) if ends else None,
            "items": [{"item": item, "value": value} for item, value in self.items],
        }

    def _unscaled(self, value: int | None) -> Value:
        scale = self.spec.scale
        return value if value is None or scale is None else value / scale
