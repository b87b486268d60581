"""Spark's checkpoint of a pipeline: where it is by default, and how it is deleted."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from muntin.errors import SourceError, SpecError
from muntin.ledger.open import absolute
from muntin.spark.failures import reason
from muntin.spark.source import local_path
from muntin.spec_secrets import shown_url

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def checkpoint_beside(url: str, name: str) -> str:
    """The default checkpoint folder of a pipeline: beside its ledger's file."""
    full = absolute(url)
    if full.startswith("sqlite:///"):
        path = full.removeprefix("sqlite:///").partition("?")[0]
        return f"{path}.checkpoints/{name}"
    raise SpecError(
        f"checkpoint: is missing, and a ledger {shown_url(url)} has no folder to put it beside"
    )


def query_of(location: str) -> str | None:
    """Id of the query whose checkpoint it is; "" where there is none; None where only Spark sees.

    A local folder's is in a file of JSON.
    """
    path = local_path(location)
    if path is None:
        return None
    try:
        return str(json.loads((path / "metadata").read_text("utf-8"))["id"])
    except (OSError, ValueError, KeyError):
        return ""


def delete_checkpoint(spark: SparkSession, location: str) -> None:
    """Delete a checkpoint wherever Spark would find it: `s3a://`, `hdfs://`, `file:///`, a path.

    A query that begins anew with an old one would leave out what the old one has read.

    Raises
    ------
    SourceError
        It cannot be deleted; says why.
    """
    context: Any = spark.sparkContext
    try:
        path = context._jvm.org.apache.hadoop.fs.Path(location)
        files = path.getFileSystem(context._jsc.hadoopConfiguration())
        files.delete(path, True)
        is_left = files.exists(path)
    except Exception as problem:
        cause = getattr(problem, "java_exception", None)
        why = str(cause.getMessage()) if cause is not None else reason(problem)
        raise SourceError(
            f"checkpoint: {location} cannot be deleted ({why.splitlines()[0][:300]}): delete it by "
            "hand, or correct the entry"
        ) from None
    if is_left:
        raise SourceError(f"checkpoint: {location} cannot be deleted: delete it by hand")
