"""The data structures. NumPy state and Numba kernels; no Spark, no I/O, no clock, no globals.

A summary is for one thread at a time: kernels run without Python's lock, so that updates of one
by two threads at once lose events, or end the process.

Names are imported when they are first asked for, so that one summary does not load the kernels
of all.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from muntin.errors import MuntinError
from muntin.lazy import lazy

if os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"):
    raise MuntinError("NUMBA_DISABLE_JIT is set, and Python's numbers do not wrap around: unset it")

if TYPE_CHECKING:
    from muntin.summaries.calm_space_saving import CalmSpaceSaving as CalmSpaceSaving
    from muntin.summaries.count_min import CountMin as CountMin
    from muntin.summaries.distinct import Distinct as Distinct
    from muntin.summaries.dyadic_qdigest import DyadicQDigest as DyadicQDigest
    from muntin.summaries.dynamic_bloom import DynamicBloom as DynamicBloom
    from muntin.summaries.fingerprint_index import Fingerprint as Fingerprint
    from muntin.summaries.hyper_bloom import HyperBloom as HyperBloom
    from muntin.summaries.hyper_calm import HyperCalm as HyperCalm
    from muntin.summaries.periodic_shard import PeriodicShard as PeriodicShard
    from muntin.summaries.quantiles import KLL as KLL
    from muntin.summaries.req import REQ as REQ
    from muntin.summaries.sketched_matrix import SketchedMatrix as SketchedMatrix
    from muntin.summaries.space_saving import SpaceSaving as SpaceSaving
    from muntin.summaries.vector_matrix import VectorMatrix as VectorMatrix
    from muntin.summaries.window_quantiles import FixedWindowQuantiles as FixedWindowQuantiles
    from muntin.summaries.window_quantiles import TimeWindowQuantiles as TimeWindowQuantiles

_MODULE_OF = {
    "CountMin": "muntin.summaries.count_min",
    "Distinct": "muntin.summaries.distinct",
    "DyadicQDigest": "muntin.summaries.dyadic_qdigest",
    "DynamicBloom": "muntin.summaries.dynamic_bloom",
    "FixedWindowQuantiles": "muntin.summaries.window_quantiles",
    "Fingerprint": "muntin.summaries.fingerprint_index",
    "CalmSpaceSaving": "muntin.summaries.calm_space_saving",
    "HyperBloom": "muntin.summaries.hyper_bloom",
    "HyperCalm": "muntin.summaries.hyper_calm",
    "KLL": "muntin.summaries.quantiles",
    "TimeWindowQuantiles": "muntin.summaries.window_quantiles",
    "PeriodicShard": "muntin.summaries.periodic_shard",
    "REQ": "muntin.summaries.req",
    "SketchedMatrix": "muntin.summaries.sketched_matrix",
    "SpaceSaving": "muntin.summaries.space_saving",
    "VectorMatrix": "muntin.summaries.vector_matrix",
}
__all__ = [*_MODULE_OF]  # pyright: ignore[reportUnsupportedDunderAll]

if not TYPE_CHECKING:  # else a misspelt name would be of any type
    __getattr__ = lazy(__name__, _MODULE_OF)


def __dir__() -> list[str]:
    return sorted(__all__)
