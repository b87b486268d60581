"""Sketches out of a ledger, as tables that others read: Parquet files, Delta Lake, Iceberg."""

from muntin.exporting.exporter import Exported, export

__all__ = ["Exported", "export"]
