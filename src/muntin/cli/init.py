"""`muntin init`: write a commented pipeline file by looking at a data file."""

from __future__ import annotations

from pathlib import Path

import typer


def register(app: typer.Typer) -> None:
    @app.command()
    def init(
        data: Path = typer.Argument(help="A Parquet, CSV or JSON file, or a folder of them."),
        output: Path = typer.Option(Path("pipeline.yaml"), "--output", "-o"),
        force: bool = typer.Option(False, "--force", help="Overwrite the output."),
    ) -> None:
        """Write a commented pipeline file by looking at DATA."""
        from muntin.cli.inspect_data import inspect, pipeline_text
        from muntin.errors import SpecError
        from muntin.spec import Pipeline

        if output.exists() and not force:
            raise SpecError(f"{output} is there already: choose --output, or --force")
        found = inspect(data)
        output.write_text(pipeline_text(found), encoding="utf-8")
        for warning in found.warnings:
            typer.secho("note: ", fg="yellow", err=True, nl=False)
            typer.echo(warning, err=True)
        Pipeline.of(output)
        typer.echo(f"{output}: written. Read it, then:  muntin run {output} --once")
