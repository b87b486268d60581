"""`muntin simulate top-k`: what the distributed protocol would cost, without network or Spark."""

import json
from collections.abc import Mapping
from pathlib import Path

import typer

from muntin.cli.counting import check_counting
from muntin.cli.tables import print_table
from muntin.errors import BadArgument

POLICIES = "resolution, even, lsa, gsa, hybrid, naive"


def register(app: typer.Typer) -> None:
    group = typer.Typer(help="Try a top k over sites, without sites.", no_args_is_help=True)
    app.add_typer(group, name="simulate")

    @group.command("top-k")
    def top_k(
        context: typer.Context,
        stream: str = typer.Option(
            "zipf", "--stream", "-s", help="zipf, traffic, or a .csv, .parquet or .npy file."
        ),
        policy: list[str] = typer.Option(
            [],
            "--policy",
            "-p",
            help=f"One of {POLICIES}; can be repeated. All but even are shown by default.",
        ),
        k: int = typer.Option(10, help="Members of the answer."),
        epsilon: int = typer.Option(0, help="Tolerance, in units of the values."),
        sites: int | None = typer.Option(
            None, help="Of a made stream, or of a file that names none; by default 10."
        ),
        objects: int = typer.Option(1000, help="Of a made stream."),
        rate: float = typer.Option(267.0, help="Records a second, of a made stream."),
        exponent: float = typer.Option(2.0, help="Of Zipf's law."),
        affinity: float | None = typer.Option(
            None, help="Dirichlet parameter: small is most of an object at few sites (zipf)."
        ),
        window: str = typer.Option("15 minutes", help="Length of the window."),
        unit: str = typer.Option("10 seconds", help="By how much it slides."),
        windows: int = typer.Option(100, help="Slides that are counted."),
        objective: str = typer.Option("bytes", help="What hybrid saves: bytes or messages."),
        overhead: int = typer.Option(8, help="Bytes a message costs beyond its own."),
        seed: int = typer.Option(0, help="The same seed is the same run."),
        runs: int = typer.Option(1, help="Runs, seeds from the given one on; means are shown."),
        time_column: str | None = typer.Option(None, help="Of a file: event times. Else: time."),
        object_column: str | None = typer.Option(None, help="Of a file. Else: object."),
        site_column: str | None = typer.Option(
            None, help="Of a file. Else: site, if there is one."
        ),
        value_column: str | None = typer.Option(
            None, help="Integers to sum. Else: value, if there is one; or 1."
        ),
        plot: Path | None = typer.Option(None, help="Draw the costs into this PNG or SVG."),
        as_json: bool = typer.Option(False, "--json", help="Print JSON instead of a table."),
    ) -> None:
        """Compare what policies send per 100 windows: messages, entries, bytes."""
        from muntin.topk import compare
        from muntin.topk import plot as draw
        from muntin.topk.simulation import POLICIES as ALL

        made = stream in ("zipf", "traffic")
        of_file = ("time_column", "object_column", "site_column", "value_column")
        policies = policy or ALL
        check_counting(
            context,
            objects=(made, "with a made stream"),
            rate=(made, "with a made stream"),
            exponent=(stream == "zipf", "with --stream zipf"),
            affinity=(stream == "zipf", "with --stream zipf"),
            **dict.fromkeys(of_file, (not made, "with a file as --stream")),
            objective=("hybrid" in policies, "with --policy hybrid"),
        )
        if runs < 1:
            raise BadArgument(f"{runs} runs: give at least 1")
        if plot is not None and plot.suffix not in (".png", ".svg"):
            raise BadArgument(f"plot {plot}: a name that ends in .png or .svg")
        named = {
            "time": time_column, "object": object_column, "site": site_column,
            "value": value_column,
        }  # fmt: skip
        options = {
            "k": k, "epsilon": epsilon, "sites": sites, "objects": objects, "rate": rate,
            "exponent": exponent, "affinity": affinity, "window": window, "unit": unit,
            "windows": windows, "objective": objective, "overhead": overhead,
            "columns": {ours: theirs for ours, theirs in named.items() if theirs is not None},
        }  # fmt: skip
        table = compare(stream, policies=policies, runs=runs, seed=seed, **options)
        if plot is not None:
            draw(table, plot)
        if as_json:
            given = {"stream": stream, **options, "seed": seed, "runs": runs}
            typer.echo(json.dumps({"options": given, "per_100_windows": table}, indent=2))
            return
        _print(table)
        if plot is not None:
            typer.echo(f"drawn into {plot}")


def _print(table: Mapping[str, Mapping[str, float]]) -> None:
    import pyarrow as pa

    from muntin.topk.simulation import COSTS

    naive = table.get("naive", {}).get("bytes")
    rows = table.values()
    columns = {
        "policy": list(table),
        **{name: [round(row[name], 1) for row in rows] for name in COSTS},
        "of naive": [round(row["bytes"] / naive, 3) if naive else None for row in rows],
        **{name: [row[name] for row in rows] for name in ("changes", "invalid")},
    }
    said = "Means per 100 windows; of naive: bytes against pushing every change."
    print_table(pa.table(columns), said)
