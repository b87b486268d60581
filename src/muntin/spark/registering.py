"""`muntin.register`: apart from the data source, which PySpark's own classes are the base of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from muntin.errors import needs
from muntin.spark.failures import plainly
from muntin.spark.session import own_python

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: SparkSession) -> None:
    """Make `format("muntin")` known to a session: for `read`, `write` and `writeStream`.

    Parameters
    ----------
    spark : SparkSession
        Classic, or of Spark Connect. The Python of its driver and of its workers must have Muntin.

    Examples
    --------
    >>> muntin.register(spark)
    >>> spark.read.format("muntin").option("ledger", "sqlite:////var/flights.db").option(
    ...     "select", "SELECT origin, count FROM flights(origin) FOR ALL").load()
    >>> df.writeStream.format("muntin").option("spec", "flights.yaml").option(
    ...     "checkpointLocation", "/var/flights").start()
    """
    needs("spark", "muntin.register")
    from muntin.spark.data_source import MuntinSource

    with plainly(), own_python(spark):
        spark.dataSource.register(MuntinSource)
