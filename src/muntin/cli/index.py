"""`muntin index`: build a fingerprint index, and ask a saved one without starting Spark."""

from __future__ import annotations

import datetime as dt
import json
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from itertools import islice
from typing import TYPE_CHECKING, Any

import typer

from muntin.cli.counting import check_counting
from muntin.cli.stopping import stopping
from muntin.cli.tables import FORMAT, Format, print_rows
from muntin.errors import BadArgument, SourceError, needs
from muntin.spec_secrets import HIDDEN, is_secret
from muntin.times import datetime_of, instant_us

if TYPE_CHECKING:
    import pyarrow as pa

    from muntin.spark.index.reader import IndexReader

KEYS_AT_ONCE = 1 << 16
QUANTILES = [0.5, 0.9, 0.95, 0.99]

_INDEX = typer.Argument(help="Folder of the index, or its URL.")


def register(app: typer.Typer) -> None:
    group = typer.Typer(no_args_is_help=True)
    app.add_typer(group, name="index", help="Is a key in a large table? With ranks of a number.")

    @group.command()
    def build(
        context: typer.Context,
        source: str = typer.Argument(help="Files or folder; - where --source-format needs none."),
        out: str = typer.Option(..., "--out", "-o", help="Folder for the index, or its URL."),
        key: str = typer.Option(
            ..., "--key", "-k", help="Column of text, integers, dates or times."
        ),
        rank: str | None = typer.Option(None, "--rank", "-r", help="Column of numbers or times."),
        partitions: int = typer.Option(64, help="Hash ranges: a few million keys each."),
        fpp: float = typer.Option(0.001, help="False-positive rate that is never passed."),
        error: float = typer.Option(0.001, help="Rank error that is never passed."),
        source_format: str | None = typer.Option(
            None, help="parquet, csv, json or any Spark source; by the file's ending if absent."
        ),
        option: list[str] = typer.Option([], help="Of the Spark source: name=value, repeatable."),
        overwrite: bool = typer.Option(False, "--overwrite", help="Replace the index in --out."),
    ) -> None:
        """Build an index over files, or over anything that Spark reads."""
        needs("spark", "muntin index build")
        from muntin.spark.fingerprint_index import FingerprintIndex, check_new

        check_counting(context, error=(rank is not None, "with --rank"))
        check_new(out, partitions, fpp, error, overwrite=overwrite)
        with stopping():
            records = _records(source, source_format, option)
            typer.echo(f"building an index of {key!r} in {out}", err=True)
            began = time.monotonic()
            index = FingerprintIndex.build(
                records, key, rank, partitions, fpp, error, path=out, overwrite=overwrite
            )
        typer.echo(f"built in {time.monotonic() - began:.1f} s", err=True)
        _print_info(index, "table")

    @group.command()
    def contains(
        index: str = _INDEX,
        keys: list[str] = typer.Argument(None, help="Keys to ask for."),
        file: str | None = typer.Option(
            None, "--file", help="One key a line; - is standard input."
        ),
        format: Format = FORMAT,  # noqa: A002
    ) -> None:
        """Which keys the index may hold: a no is always right."""
        if bool(keys) == (file is not None):
            raise BadArgument("give keys, or --file with one a line (- is standard input)")
        reader = _opened(index)
        asked = iter(keys) if keys else lines_of(str(file))
        _write((reader.contains(some) for some in _batches(reader, asked)), format)

    @group.command()
    def quantile(
        index: str = _INDEX,
        q: list[float] = typer.Argument(None, help=f"In [0, 1]; {QUANTILES} if absent."),
        format: Format = FORMAT,  # noqa: A002
    ) -> None:
        """Quantiles of the ranked column, with bounds that always hold."""
        _write([_opened(index).quantile(q or QUANTILES)], format)

    @group.command()
    def rank(
        index: str = _INDEX,
        values: list[str] = typer.Argument(help="Numbers, or times as ISO 8601."),
        format: Format = FORMAT,  # noqa: A002
    ) -> None:
        """How many records are at most each value, with bounds that always hold."""
        from muntin.summaries.order_maps import TimestampRange

        reader = _opened(index)
        times = reader.digest is not None and isinstance(reader.digest.domain, TimestampRange)
        _write([reader.rank(_numbers(values, times=times))], format)

    @group.command()
    def info(index: str = _INDEX, format: Format = FORMAT) -> None:  # noqa: A002
        """What the index holds, how large it is and what it promises."""
        _print_info(_opened(index), format)


def _opened(index: str) -> IndexReader:
    from muntin.spark.index.reader import IndexReader

    return IndexReader.open(index)


def _records(source: str, source_format: str | None, options: list[str]) -> Any:
    """What `FingerprintIndex.build` takes: a path of Parquet files, or a DataFrame."""
    from muntin.spark.connector import with_connector
    from muntin.spark.session import session
    from muntin.spark.source import batch_source, check_source
    from muntin.spec import SourceSpec, format_of
    from muntin.spec_file import model_of

    path = {} if source == "-" else {"path": source}
    chosen = source_format or format_of(source) or ("parquet" if path else "")
    if not chosen:
        raise BadArgument("- stands for a source without files: name its --source-format")
    if chosen == "parquet" and path and not options:
        return source
    given: dict[str, str] = {}
    for one in options:
        name, equals, value = one.partition("=")
        if not (name and equals):
            raise BadArgument(f"--option {HIDDEN if is_secret(one) else repr(one)}: name=value")
        given[name] = value
    spec = check_source(model_of(SourceSpec, {"format": chosen, **path, **given}))
    return batch_source(session("muntin index", with_connector(spec, {})), spec)


def lines_of(file: str) -> Iterator[str]:
    """Lines of a file, or of standard input (-)."""
    try:
        with nullcontext(sys.stdin) if file == "-" else open(file, encoding="utf-8") as lines:
            yield from (line.rstrip("\r\n") for line in lines)
    except (OSError, UnicodeDecodeError) as problem:
        raise SourceError(f"{'standard input' if file == '-' else file}: {problem}") from None


def _batches(reader: IndexReader, keys: Iterator[str]) -> Iterator[Any]:
    """Keys of the index's type; at least one batch, so that there is a header."""
    kind, first = reader.manifest.item_type, True
    known: Any = None
    while (some := list(islice(keys, KEYS_AT_ONCE))) or first:
        found = [_key(kind, key) for key in some]
        if kind == "integers" and found:
            found = _integers(found, known)
            known = found.dtype
        yield found
        first = False


def _integers(keys: list[int], known: Any) -> Any:
    """As int64, or uint64 where one is beyond that: one type (`known`) for all that is asked."""
    import numpy as np

    least, most = min(keys), max(keys)
    if least < -(1 << 63) or most >= 1 << 64:
        outside = least if least < -(1 << 63) else most
        raise BadArgument(f"'{outside}': the keys of this index are integers, of 64 bits")
    kind = known or np.dtype("u8" if most >= 1 << 63 else "i8")
    limits = np.iinfo(kind)
    if least < limits.min or most > limits.max:
        outside = least if least < limits.min else most
        raise BadArgument(f"{outside} is not {kind}, as other keys asked here are: ask apart")
    return np.array(keys, kind)


def _key(kind: str, key: str) -> Any:
    try:
        if kind == "integers":
            return int(key)
        if kind == "dates":
            return dt.date.fromisoformat(key)
        return datetime_of(instant_us(key)) if kind == "times" else key
    except (ValueError, OverflowError):
        example = {"integers": "of 64 bits", "dates": "2026-01-31", "times": "2026-01-31T12:00"}
        raise BadArgument(f"{key!r}: the keys of this index are {kind}, {example[kind]}") from None


def _numbers(values: list[str], *, times: bool) -> Any:
    """What is asked of numbers, or of times: 2026 is a number, and no time."""
    import numpy as np

    found: list[Any] = []
    for value in values:
        try:
            found.append(instant_us(value) if times else _number(value))
        except (ValueError, OverflowError):
            what = "times, such as 2026-01-31T12:00" if times else "numbers"
            raise BadArgument(f"{value!r}: what this index ranks are {what}") from None
    return np.array(found, "M8[us]") if times else found


def _number(value: str) -> int | float:
    try:
        whole = int(value)
    except ValueError:
        return float(value)
    return whole if -(1 << 63) <= whole < 1 << 63 else float(whole)


def _print_info(index: IndexReader, format: Format) -> None:  # noqa: A002
    import pyarrow as pa

    from muntin.select.result_text import cell

    found = index.info()
    if format == "json":
        typer.echo(json.dumps(found, ensure_ascii=False))
        return
    said = cell if format == "table" else str
    values = [said(value) for value in found.values()]
    _write([pa.table({"property": list(found), "value": pa.array(values, pa.string())})], format)


def _write(tables: Iterable[pa.Table], format: Format) -> None:  # noqa: A002
    """Tables of one schema to standard output; csv and arrow as they come."""
    import pyarrow as pa
    from pyarrow import csv

    if format in ("csv", "arrow"):
        writer = None
        for table in tables:
            if writer is None:
                new = csv.CSVWriter if format == "csv" else pa.ipc.new_stream
                writer = new(sys.stdout.buffer, table.schema)
            writer.write_table(table)
        if writer is not None:
            writer.close()
        sys.stdout.flush()
        return
    print_rows(pa.concat_tables(tables), format)
