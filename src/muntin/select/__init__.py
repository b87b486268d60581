"""SELECT over summaries: the paper's statement, and SQL around it, on DuckDB."""
