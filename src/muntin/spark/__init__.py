"""Spark: sources, partial summaries in the workers, batch and stream."""
