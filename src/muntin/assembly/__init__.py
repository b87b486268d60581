"""What the pipeline's own process does with what was committed: windows, rollups, retention."""
