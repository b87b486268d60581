"""One answer of a coordinator as values that threads may share, and as JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from muntin.sites.spec import CoordinatorSpec
from muntin.times import instant_text
from muntin.topk import Answer, Object

Value = int | float | None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The top k, and how far it can be trusted.

    `items`: values in the units of the source (divided by `scale`), as their sites reported them
      last.
    `valid`: see `muntin.topk.Answer`.
    `unit`: the newest at which the items are known to hold.
    `covered`: the window that ends with this unit; microseconds since 1970 UTC.
    `bound`: no object outside exceeded a member by more than this.
    `stale`: `unit` has not moved for longer than the lease: no site seals panes any more.
    """

    k: int
    epsilon: int
    scale: float | None
    items: tuple[tuple[Object, Value], ...]
    valid: bool
    unit: int | None
    covered: tuple[int, int] | None
    missing_sites: tuple[str, ...]
    bound: Value
    stale: bool

    @classmethod
    def of(
        cls, answer: Answer, k: int, epsilon: int, spec: CoordinatorSpec, *, stale: bool
    ) -> Snapshot:
        """An answer in the words of the spec."""
        covered = None
        if answer.as_of is not None:
            end = (answer.as_of + 1) * spec.unit
            covered = (end - spec.window, end)
        return cls(
            k=k,
            epsilon=epsilon,
            scale=spec.scale,
            items=tuple((item.object, _unscaled(item.value, spec.scale)) for item in answer.items),
            valid=answer.valid,
            unit=answer.as_of,
            covered=covered,
            missing_sites=answer.missing_sites,
            bound=_unscaled(answer.bound, spec.scale),
            stale=stale,
        )

    def promises(self) -> dict[str, Any]:
        """What may be relied on, as JSON values."""
        return {
            "k": self.k,
            "valid": self.valid,
            "as_of": instant_text(self.covered[1]) if self.covered else None,
            "missing_sites": list(self.missing_sites),
            "bound": self.bound,
            "stale": self.stale,
        }

    def to_dict(self) -> dict[str, Any]:
        """The body of GET /top_k."""
        window = None
        if self.covered:
            start, end = (instant_text(moment) for moment in self.covered)
            window = {"start": start, "end": end}
        return {
            "epsilon": _unscaled(self.epsilon, self.scale),
            **self.promises(),
            "unit": self.unit,
            "window": window,
            "items": [{"item": item, "value": value} for item, value in self.items],
        }


def _unscaled(value: int | None, scale: float | None) -> Value:
    return value if value is None or scale is None else value / scale
