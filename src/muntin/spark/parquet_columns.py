"""The columns of local Parquet files, beside what Spark reads them as."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from muntin.errors import SourceError
from muntin.kinds.columns import in_backticks
from muntin.spark.ddl import declared
from muntin.spark.failures import AS_IT_IS, ONE_TYPE
from muntin.spark.file_starts import OF_ONE_TYPE, holds
from muntin.spark.files import local_path, partitions_of
from muntin.spark.frame_columns import check_cases
from muntin.spark.settings import READING
from muntin.spec import Pipeline, SourceSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOG = logging.getLogger("muntin.spark")


def case_of(spark: SparkSession | None, pipeline: Pipeline | None) -> Callable[[str], str]:
    """What is the same of two names that are one column to Spark: in this session, or without one
    in that of the pipeline."""
    key = "spark.sql.caseSensitive"
    own = {**READING, **(pipeline.spark if pipeline else {})}
    is_told = (spark.conf.get(key) if spark else own[key]) == "true"
    return str if is_told else str.lower


def are_in_other_case(
    files: Sequence[str], names: Collection[str], case: Callable[[str], str]
) -> bool:
    """Has a local Parquet file a column that is one of these to Spark, and to Arrow none?"""
    wanted = {*map(case, names)}
    there = (name for file in files for name in schema_of(file).names)
    return case is not str and any(case(n) in wanted and n not in names for n in there)


def check_kinds(
    source: SourceSpec,
    files: Sequence[str],
    kinds: Mapping[str, str],
    nanoseconds: Collection[str],
    teller: str,
    case: Callable[[str], str],
) -> None:
    """Does Spark read these columns of local Parquet files as what they are? `kinds`: its types of
    them; `nanoseconds`: as `nanoseconds_of`; `case`: as `case_of`. Warns of files that lack one,
    where `teller` is not "". Raises SourceError: a file has two for one of them, or Spark would
    read numbers of another type or unit, as the bytes stand there: 65,537 as 1, 1.25 as 125, and
    times as a thousandth."""
    here = local_path(source.path or "")
    told = partitions_of(here, map(Path, files)) if here else set[str]()
    read = kinds.keys() - told if teller and source.schema_ is None else set[str]()
    names, ns = {*map(case, kinds.keys() - told)}, {*map(case, nanoseconds)}
    others = {*nanoseconds, *told}
    kinds = {case(n): k for n, k in kinds.items() if n not in others and OF_ONE_TYPE.fullmatch(k)}
    ddl = ", ".join(f"{in_backticks(name)} {kind}" for name, kind in kinds.items())
    wanted = declared(ddl) if ddl else {}
    for file in files if names or ns else ():
        schema = schema_of(file)
        found = Counter(map(case, schema.names))
        twice = [n for n in schema.names if case(n) in names and found[case(n)] > 1]
        check_cases(twice, twice, f"{file}: ")
        for name in sorted(n for n in read if found and case(n) not in found):
            _LOG.warning("%s: %s has no column '%s', which is null there", teller, file, name)
        for field in schema:
            name, there = case(field.name), field.type
            is_meant = source.schema_ and pa.types.is_temporal(there)  # as the number of it
            if is_meant or pa.types.is_duration(there) or pa.types.is_null(there):
                continue
            if name in ns and timestamp_unit(there) != "ns":
                kind = f"in {timestamp_unit(there)}" if timestamp_unit(there) else there
                raise SourceError(
                    f"{file}: column '{field.name}' is {kind}, and in ns in the first file that "
                    f"was there, and Spark knows one unit: write the files alike{AS_IT_IS}"
                )
            if name in wanted and not holds(wanted[name], there):
                raise SourceError(ONE_TYPE.format(file, field.name, kinds[name], there))


def timestamp_unit(kind: pa.DataType) -> str:
    return kind.unit if pa.types.is_timestamp(kind) else ""


def schema_of(file: str | Path) -> pa.Schema:
    """Of a Parquet file; its times of 96 bits are no numbers to Spark."""
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(file, coerce_int96_timestamp_unit="us") as opened:
            return opened.schema_arrow
    except (pa.ArrowInvalid, OSError):
        return pa.schema([])  # Spark says why
