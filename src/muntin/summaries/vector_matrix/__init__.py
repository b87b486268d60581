"""The vector matrix: exact sums of indicators by key and by combination of keys.

| what | |
| --- | --- |
| State | per key: index (value -> row number), int64[rows, 1 + indicators]: count and sums |
| Error | integers: none, overflow raises; floats: double-double, 1 unit in the last place |
| Merge | exact, in any order; keys and indicators of both are kept, what one lacked is null |
| Duplicates | count twice: feed each event once |
| Source | the vector matrix of the paper that this project implements, `docs/vector-matrix.md` |
| Limits | 64 keys of at most 16 columns, 256 indicators, 2^31 - 2 rows a key |
"""

from muntin.summaries.vector_matrix.matrix import VectorMatrix

__all__ = ["VectorMatrix"]
