"""`muntin check`: validate a pipeline file without running it."""

from __future__ import annotations

from pathlib import Path

import typer


def register(app: typer.Typer) -> None:
    @app.command()
    def check(
        pipeline: Path | None = typer.Argument(None, help="The pipeline file."),
        schema: bool = typer.Option(
            False, "--schema", help="Print the JSON schema of pipeline files, for editors."
        ),
    ) -> None:
        """Validate a pipeline file: entries, names, queries, and the source's columns."""
        import json

        from muntin.assembly.standing import StandingQueries
        from muntin.ledger.open import open_ledger
        from muntin.spec import Pipeline

        if schema:
            typer.echo(json.dumps(Pipeline.model_json_schema(), indent=2))
            return
        if pipeline is None:
            raise typer.BadParameter("name a pipeline file, such as pipeline.yaml")
        checked = Pipeline.of(pipeline)
        StandingQueries(checked, open_ledger("memory://check"))
        columns = _check_columns(checked)
        typer.echo(
            f"{pipeline}: good: {len(checked.summaries)} summaries, {len(checked.queries)} queries"
            + (f", {columns} columns found in the source" if columns else "")
        )


def _check_columns(pipeline) -> int:
    """Columns against local Parquet files; other sources are looked at when Spark runs."""
    from muntin.errors import SourceError
    from muntin.spark.parquet import check_files, parquet_files

    source = pipeline.source
    if source is None or not source.path or "://" in source.path:
        return 0
    if not any(c in source.path for c in "*?[{") and not Path(source.path).exists():
        raise SourceError(f"source.path: {source.path}: no such file or folder")
    if not source.is_plain_parquet or pipeline.fields:
        return 0
    columns = list(dict.fromkeys([pipeline.time.column, *pipeline.columns()]))
    check_files(parquet_files(source.path), pipeline, columns)
    return len(columns)
