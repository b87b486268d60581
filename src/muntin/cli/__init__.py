"""The command line: one file per command; what a command needs is imported when it runs."""

from __future__ import annotations

import sys

import typer

from muntin.cli import (
    check,
    coordinator,
    demo,
    doctor,
    held,
    index,
    init,
    ledger,
    produce,
    query,
    rejected,
    run,
    serve,
    simulate,
)

app = typer.Typer(
    name="muntin",
    help="Summaries of a stream, pane by pane: exact where memory permits, bounded where not.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
commands = (
    run,
    serve,
    coordinator,
    query,
    held,
    index,
    check,
    init,
    ledger,
    demo,
    produce,
    simulate,
    doctor,
    rejected,
)
for command in commands:
    command.register(app)


@app.callback(invoke_without_command=True)
def _version(
    version: bool = typer.Option(False, "--version", help="Print the version and stop."),
) -> None:
    if version:
        from muntin import __version__

        typer.echo(f"muntin {__version__}")
        raise typer.Exit


class _NoPandas:
    """Arrow imports pandas when it makes its first array, to know a Series if it is given one.

    That takes a third of a second, half as long as a question, which has no Series.
    """

    def find_spec(self, name: str, *_: object) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(name)


def main() -> None:
    """Run the command line; errors of ours are one short message, without a trace."""
    from muntin.errors import MuntinError

    if sys.argv[1:2] == ["query"]:
        sys.meta_path.insert(0, _NoPandas())
    try:
        app()
    except MuntinError as problem:
        sys.stdout.flush()
        typer.secho("error: ", fg="red", bold=True, err=True, nl=False)
        typer.echo(str(problem), err=True)
        sys.exit(1)
    except KeyboardInterrupt:
        typer.echo("\nstopped; what was committed stays", err=True)
        sys.exit(130)
    except BrokenPipeError:
        sys.stderr.close()  # `muntin query ... | head` is no error
        sys.exit(0)
