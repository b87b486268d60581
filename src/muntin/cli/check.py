"""`muntin check`: validate a pipeline file without running it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from muntin.cli.counting import check_counting
from muntin.cli.stopping import stopping
from muntin.errors import LedgerError, LedgerMissing, SourceError, SpecError, needs

if TYPE_CHECKING:
    from muntin.spec import Pipeline


def register(app: typer.Typer) -> None:
    @app.command()
    def check(
        context: typer.Context,
        pipeline: Path | None = typer.Argument(None, help="The pipeline file."),
        schema: bool = typer.Option(
            False, "--schema", help="Print the JSON schema of pipeline files, for editors."
        ),
        spark: bool = typer.Option(
            False, "--spark", help="Let Spark open the source and type the fields, too."
        ),
    ) -> None:
        """Validate a pipeline file: entries, names, queries, source, columns, times, fields."""
        from muntin import spec_file
        from muntin.spec import Pipeline
        from muntin.yaml_file import read

        whole = not schema, "without --schema"
        check_counting(context, pipeline=whole, spark=whole)
        if schema:
            typer.echo(json.dumps(Pipeline.model_json_schema(), indent=2))
            return
        if pipeline is None:
            raise typer.BadParameter("name a pipeline file, such as pipeline.yaml")
        checked = Pipeline.of(pipeline)
        document = read(pipeline, spec_file.PIPELINE_REMEDY)
        problems = list(_problems(checked)) or (list(_by_spark(checked)) if spark else [])
        if problems:
            lines = [f"{document.at(spec_file.named_place(line))}: {line}" for line in problems]
            raise SpecError("\n".join(lines))
        summaries, queries = len(checked.summaries), len(checked.queries)
        typer.echo(
            f"{pipeline}: good: {summaries} {'summary' if summaries == 1 else 'summaries'}, "
            f"{queries} {'query' if queries == 1 else 'queries'}"
        )
        for line in _fetched(checked):
            typer.echo(line)
        if checked.fields and not spark:
            typer.echo("types of fields are Spark's to know:  muntin check --spark asks it")


def _problems(pipeline: Pipeline) -> Iterator[str]:
    from muntin.assembly.changes import check_changes
    from muntin.assembly.standing import StandingQueries
    from muntin.cli.check_source import wrong_in, wrong_packages
    from muntin.ledger.open import open_ledger

    yield from wrong_in(pipeline)
    yield from wrong_packages(pipeline)
    try:
        with closing(open_ledger(pipeline.ledger_url, create=False)) as ledger:
            check_changes(pipeline, ledger)
    except LedgerMissing:
        pass
    except LedgerError as problem:
        yield f"ledger: {problem}"
    except SpecError as problem:  # of what was stored by an earlier file
        yield str(problem)
    try:
        StandingQueries(pipeline, open_ledger("memory://check")).close()
    except SpecError as problem:
        yield str(problem)


def _fetched(pipeline: Pipeline) -> Iterator[str]:
    from muntin.spark.connector import cache_folder, is_to_be_fetched

    if find_spec("pyspark") is not None and is_to_be_fetched(pipeline):
        yield (
            "the first run fetches Spark's connector to Kafka from Maven Central, or the mirror "
            f"of spark.jars.ivySettings, into {cache_folder()}"
        )


def _by_spark(pipeline: Pipeline) -> Iterator[str]:
    from muntin.spark.connector import with_connector
    from muntin.spark.frame_columns import needed
    from muntin.spark.session import session
    from muntin.spark.source import stream_source

    if pipeline.source is None:
        return
    needs("spark", "muntin check --spark")
    try:
        with stopping():
            spark = session("muntin-check", with_connector(pipeline.source, pipeline.spark))
            needed(stream_source(spark, pipeline.source, pipeline), pipeline)
    except SourceError as problem:
        yield str(problem)
