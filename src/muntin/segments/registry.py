"""One row for each kind of summary that lives in segments."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from muntin.errors import CorruptSummary
from muntin.segments.algebra import Algebra

KINDS: dict[str, tuple[str, str]] = {
    "vector_matrix": ("muntin.segments.sums", "Sums"),
    "distinct": ("muntin.segments.distinct", "DistinctItems"),
    "fingerprint": ("muntin.segments.fingerprint", "Fingerprints"),
    "frequency": ("muntin.segments.frequency", "Frequency"),
    "merged_distinct": ("muntin.segments.merged", "MergedDistinct"),
    "merged_quantiles": ("muntin.segments.merged", "MergedQuantiles"),
    "quantiles": ("muntin.segments.quantiles", "Quantiles"),
    "sketched_matrix": ("muntin.segments.sketched", "SketchedSums"),
    "tail_quantiles": ("muntin.segments.tail", "TailQuantiles"),
    "top_k": ("muntin.segments.top_k", "TopItems"),
}
"""Kind -> module and class, which is imported when it is first met."""


def algebra_class(kind: str) -> type[Algebra]:
    """The class of a kind; KeyError."""
    module, name = KINDS[kind]
    return getattr(import_module(module), name)


def algebra_of(kind: Any, parameters: Any) -> Algebra:
    """The kind and parameters that bytes tell of; CorruptSummary."""
    if not isinstance(kind, str) or kind not in KINDS:
        raise CorruptSummary(f"segment of unknown kind {kind!r:.50}: written by a newer Muntin?")
    if not isinstance(parameters, Mapping):
        raise CorruptSummary(f"segment: {kind} without parameters")
    return algebra_class(kind).from_parameters(parameters)
