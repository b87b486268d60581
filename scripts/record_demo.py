"""Makes what `muntin demo --replay` plays: four weeks of flights, as the package has them."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path

import pyarrow.parquet as pq

from muntin.arrow import pc
from muntin.demo.flights import flights

FIRST, END = datetime(2013, 1, 6, 5, tzinfo=UTC), datetime(2013, 2, 3, 5, tzinfo=UTC)


def main() -> None:
    """Write the file that is named, or the package's own."""
    here = Path(__file__).parents[1] / "src/muntin/demo/flights.parquet"
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else here
    table = flights().drop_columns(["tailnum"])
    between = pc.and_(pc.greater_equal(table["time"], FIRST), pc.less(table["time"], END))
    pq.write_table(
        table.filter(between), path, compression="zstd", compression_level=19, store_schema=False
    )


if __name__ == "__main__":
    main()
