"""Spark: sources, partial summaries in the workers, batch and stream."""

from __future__ import annotations

from typing import TYPE_CHECKING

from muntin.lazy import lazy

if TYPE_CHECKING:
    from muntin.spark.fingerprint_index import FingerprintIndex as FingerprintIndex

__all__ = ["FingerprintIndex"]

if not TYPE_CHECKING:  # else a misspelt name would be of any type
    # only when asked for: it imports the kernels, which `import muntin` must not
    __getattr__ = lazy(__name__, {"FingerprintIndex": "muntin.spark.fingerprint_index"})
