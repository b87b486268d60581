"""`muntin demo --sites 3`: flights at several sites, and who is largest over all of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import typer


def run_sites(sites: int, speed: str, seconds: float, port: int, folder: Path, show: bool) -> None:
    """Sites in processes of their own and a coordinator in this one, until Ctrl-C."""
    import logging
    import time

    import yaml

    from muntin.cli.serve import open_page
    from muntin.cli.stopping import stopping
    from muntin.demo import sites as demo
    from muntin.demo.flights import flights
    from muntin.demo.replay import TICK_SECONDS, slices_of
    from muntin.sites import CoordinatorServer
    from muntin.times import duration_us

    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.ERROR)
    event_seconds = duration_us(speed or demo.SPEED) / 1e6
    table, names = demo.at_sites(flights(), sites)
    replay = demo.SplitReplay(
        slices_of(table, event_seconds * TICK_SECONDS), folder / "events", names
    )
    replay.write_first()
    entries = demo.coordinator_entries(names, folder, port, event_seconds)
    server = CoordinatorServer(entries)
    (folder / "coordinator.yaml").write_text(yaml.safe_dump(entries, sort_keys=False), "utf-8")
    processes = None
    began = time.monotonic()
    try:
        with stopping() as stop:
            stop.begun()
            server.start()
            typer.echo(f"the race:  {server.url}\nfiles and logs:  {folder}")
            files = {
                name: demo.site_entries(name, server.address, folder, event_seconds)
                for name in names
            }
            processes = demo.SiteProcesses(files, folder)
            typer.echo(f"starting Spark at {len(names)} sites: {', '.join(names)}")
            open_page(server.url, show=show)

            said = ""
            while not (seconds and time.monotonic() - began > seconds) and not stop.wait(0.5):
                if not replay.started and len(server.keeper.sessions) == len(names):
                    replay.start()  # once all sites are there, so that none is behind
                processes.check()
                now = line(server.keeper.picture.state)
                if now != said:
                    typer.echo(now)
                said = now
    finally:
        replay.stop()
        if processes:
            processes.stop()
        server.stop()
        _say_costs(server.keeper.picture.state["traffic"])


def line(state: Mapping[str, Any]) -> str:
    """Who is largest, and whether it holds; the page shows the race."""
    answer = state["answer"]
    top = ", ".join(f"{one['item']} {_value(one['value'])}" for one in answer["items"])
    return f"{_verdict(answer)}: {top or 'nothing yet'}"


def _verdict(answer: Mapping[str, Any]) -> str:
    as_of = f", as of {answer['as_of']}" if answer["as_of"] else ""
    if answer["stale"] or answer["valid"]:
        return f"{'stale' if answer['stale'] else 'valid'}{as_of}"
    missing = ", ".join(answer["missing_sites"])
    bound = "" if answer["bound"] is None else f", off by {answer['bound']:,} at most"
    return f"unsure{as_of}{bound}" + (f", missing: {missing}" if missing else "")


def _value(value: float | None) -> str:
    return "-" if value is None else f"{value:,}"


def _say_costs(traffic: dict) -> None:
    sent, naive = traffic["sent"], traffic["naive"]
    for what in ("messages", "bytes"):
        typer.echo(f"{what:>10}  {sent[what]:,} sent; pushing every change: {naive[what]:,}")
