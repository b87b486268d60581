"""The kinds of summary that a pipeline file may name: one file each."""

from muntin.kinds.base import SegmentSpec as SegmentSpec
from muntin.kinds.base import SummarySpec as SummarySpec
from muntin.kinds.base import WindowSpec as WindowSpec
from muntin.kinds.distinct import DistinctSpec as DistinctSpec
from muntin.kinds.fingerprint import FingerprintSpec as FingerprintSpec
from muntin.kinds.frequency import FrequencySpec as FrequencySpec
from muntin.kinds.periodic import PeriodicSpec as PeriodicSpec
from muntin.kinds.quantiles import QuantilesSpec as QuantilesSpec
from muntin.kinds.top_k import TopKSpec as TopKSpec
from muntin.kinds.vector_matrix import VectorMatrixSpec as VectorMatrixSpec

KINDS: dict[str, type[SummarySpec]] = {
    "vector_matrix": VectorMatrixSpec,
    "quantiles": QuantilesSpec,
    "frequency": FrequencySpec,
    "top_k": TopKSpec,
    "distinct": DistinctSpec,
    "fingerprint": FingerprintSpec,
    "periodic": PeriodicSpec,
}
