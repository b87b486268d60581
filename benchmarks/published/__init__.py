"""What was published, kept faithful, so that the benchmarks can compare with it."""
