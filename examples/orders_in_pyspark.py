"""Generated taxi orders through Spark, in batch, and a few questions.

python examples/orders_in_pyspark.py
"""

import pyarrow as pa

import muntin
from muntin.demo.taxi import orders
from muntin.spark.session import session

PIPELINE = {
    "name": "orders",
    "time": "time",
    "pane": "10 seconds",
    "lateness": "10 seconds",
    "summaries": {
        "orders": {
            "keys": ["driver", "area", ["driver", "area"]],
            "indicators": ["served", "delivery_time", "fare"],
            "capacity": 5_000,
            "window": {"kind": "floating", "length": "1 minute"},
        }
    },
    "queries": {"slowest": "SELECT area, delivery_time / served AS mean FROM orders(area)"},
}


def main() -> None:
    spark = session("orders")
    df = spark.createDataFrame(
        pa.Table.from_batches([orders(60_000, drivers=2_000, per_second=200)])
    )
    with muntin.summarize(df, PIPELINE) as answers:
        print("the five busiest areas of the last two minutes:")
        print(
            answers.sql(
                "SELECT area, count, fare / served / 100 AS mean_fare FROM orders(area) "
                "FOR LAST '2 minutes' ORDER BY count DESC LIMIT 5"
            ).to_text()
        )
        print("why windows closed:")
        print(
            answers.sql(
                "SELECT reason, count(*) AS windows, sum(events) AS events "
                "FROM windows(orders) GROUP BY reason ORDER BY reason"
            ).to_text()
        )
        print("the paper's own spelling, mean delivery time by area:")
        print(
            answers.sql(
                "SELECT X2, X2.Y2 / X2.Y1 FROM vector 2.1, vector 2.2 FOR ALL LIMIT 3"
            ).to_text()
        )
    spark.stop()


if __name__ == "__main__":
    main()
