"""Spark: sources, partial summaries in the workers, batch and stream."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from muntin.spark.fingerprint_index import FingerprintIndex as FingerprintIndex

__all__ = ["FingerprintIndex"]

if not TYPE_CHECKING:  # else a misspelt name would be of any type

    def __getattr__(name: str) -> Any:
        # only when asked for: it imports the kernels, which `import muntin` must not
        if name == "FingerprintIndex":
            from muntin.spark.fingerprint_index import FingerprintIndex

            return FingerprintIndex
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
