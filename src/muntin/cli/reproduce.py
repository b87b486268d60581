"""`muntin reproduce NAME`: run one experiment of docs/evidence.md again."""

import subprocess
import sys
from pathlib import Path

import typer

EXPERIMENTS = {
    "vector-matrix": "characterize/vector_matrix.py",
    "quantiles": "characterize/quantiles.py",
    "periodic": "characterize/periodic.py",
    "fingerprint": "characterize/fingerprint.py",
    "top-k": "characterize/topk.py",
    "peers-quantiles": "peers/quantiles.py",
    "peers-frequency": "peers/frequency.py",
    "peers-distinct": "peers/distinct.py",
    "peers-filters": "peers/filters.py",
    "peers-sums": "peers/sums.py",
    "peers-by-key": "peers/by_key.py",
    "peers-sliding": "peers/sliding.py",
    "peers-streams": "peers/streams.py",
    "growth": "growth.py",
    "scale": "scale.py",
}


def register(app: typer.Typer) -> None:
    @app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
    def reproduce(
        context: typer.Context,
        name: str = typer.Argument("", help="The experiment; without it, they are listed."),
    ) -> None:
        """Run an experiment of docs/evidence.md again, from its seeds.

        What follows the name goes to the experiment: `muntin reproduce quantiles --scale 0.1`.
        """
        if not name:
            typer.echo("\n".join(EXPERIMENTS))
            return
        script = script_of(name)
        done = subprocess.run([sys.executable, str(script), *context.args], check=False)  # noqa: S603
        raise typer.Exit(done.returncode)


def script_of(name: str) -> Path:
    """Where an experiment's program is: the benchmarks come with the source, not with a wheel."""
    if name not in EXPERIMENTS:
        raise typer.BadParameter(f"{name!r}: the experiments are {', '.join(EXPERIMENTS)}")
    folder = Path(__file__).resolve().parents[3] / "benchmarks"
    if not folder.is_dir():
        raise typer.BadParameter(
            f"{name!r} is run from a checkout of the source, and this Muntin was installed from "
            "a wheel: clone the project, run `make setup`, and then `.venv/bin/muntin reproduce`"
        )
    return folder / EXPERIMENTS[name]
