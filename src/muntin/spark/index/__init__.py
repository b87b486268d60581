"""The parts of the fingerprint index on Spark: its files, how they are built, how they answer."""
