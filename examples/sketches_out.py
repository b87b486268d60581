"""Sketches go out as a table, and another tool merges them: two weeks of windows into one answer.

The ledger is that of `muntin demo --replay`, which needs no Java. The sketches are read back by
DuckDB and merged by Apache's own package: pip install datasketches.
"""

import subprocess
import sys

import datasketches
import duckdb

import muntin
from muntin.exporting import export

play = ["demo", "--replay", "--no-open", "--port", "0", "--seconds", "1", "--folder", "replay"]
subprocess.run([sys.executable, "-m", "muntin", *play], check=True, stdout=subprocess.DEVNULL)

with muntin.open("sqlite:///replay/demo.db") as session:
    print(export(session.ledger, "delays", "parquet", "delays"))
    again = export(session.ledger, "delays", "parquet", "delays")
    assert again.rows == 0, "each window goes out once"

windows = duckdb.sql("SELECT origin, sketch FROM 'delays/*.parquet' WHERE NOT other").fetchall()
merged: dict[str, datasketches.kll_doubles_sketch] = {}
for origin, data in windows:
    one = merged.setdefault(origin, datasketches.kll_doubles_sketch(200))
    one.merge(datasketches.kll_doubles_sketch.deserialize(data))
for origin, sketch in sorted(merged.items()):
    print(
        origin, f"{sketch.n:,} flights, p99 of the delay: {sketch.get_quantile(0.99):.0f} minutes"
    )
assert set(merged) == {"EWR", "JFK", "LGA"}
