"""`muntin demo --sites 3`: flights at several sites, and who is largest over all of them."""

from __future__ import annotations

from pathlib import Path

import typer


def run_sites(sites: int, speed: str, seconds: float, port: int, folder: Path, show: bool) -> None:
    """Sites in processes of their own and a coordinator in this one, until Ctrl-C."""
    import logging
    import time

    import yaml

    from muntin.cli.race import follow
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

            def rest(pause: float) -> bool:
                """Also starts the replay once all sites are there, so that none is behind."""
                if not replay.started and len(server.keeper.sessions) == len(names):
                    replay.start()
                processes.check()
                over = seconds and time.monotonic() - began > seconds
                return bool(over) or stop.wait(pause)

            follow(lambda: server.keeper.picture.state, rest)
    finally:
        replay.stop()
        if processes:
            processes.stop()
        server.stop()
        _say_costs(server.keeper.picture.state["traffic"])


def _say_costs(traffic: dict) -> None:
    sent, naive = traffic["sent"], traffic["naive"]
    for what in ("messages", "bytes"):
        typer.echo(f"{what:>10}  {sent[what]:,} sent; pushing every change: {naive[what]:,}")
