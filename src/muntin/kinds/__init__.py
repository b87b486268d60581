"""The kinds of summary that a pipeline file may name: one file each."""

from __future__ import annotations

from muntin.kinds.base import SegmentSpec, SummarySpec, WindowSpec
from muntin.kinds.distinct import DistinctSpec
from muntin.kinds.fingerprint import FingerprintSpec
from muntin.kinds.frequency import FrequencySpec
from muntin.kinds.periodic import PeriodicSpec
from muntin.kinds.quantiles import QuantilesSpec
from muntin.kinds.top_k import TopKSpec
from muntin.kinds.vector_matrix import VectorMatrixSpec

KINDS: dict[str, type[SummarySpec]] = {
    "vector_matrix": VectorMatrixSpec,
    "quantiles": QuantilesSpec,
    "frequency": FrequencySpec,
    "top_k": TopKSpec,
    "distinct": DistinctSpec,
    "fingerprint": FingerprintSpec,
    "periodic": PeriodicSpec,
}

__all__ = [
    "KINDS",
    "DistinctSpec",
    "FingerprintSpec",
    "FrequencySpec",
    "PeriodicSpec",
    "QuantilesSpec",
    "SegmentSpec",
    "SummarySpec",
    "TopKSpec",
    "VectorMatrixSpec",
    "WindowSpec",
]
