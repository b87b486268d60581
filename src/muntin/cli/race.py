"""The global top k in a terminal."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from muntin.cli.view import bar

if TYPE_CHECKING:
    from rich.console import Group

REFRESH_SECONDS = 0.5
BAR_CHARACTERS = 30


def follow(state: Callable[[], Mapping[str, Any]], rest: Callable[[float], bool]) -> None:
    """Show what a coordinator tells of itself until `rest(seconds)` says that it is enough.

    Plain lines, one for each change of what is said, where this is no terminal.
    """
    from rich.console import Console
    from rich.live import Live

    console = Console()
    if not console.is_terminal:
        said = ""
        while not rest(REFRESH_SECONDS):
            now = line(state())
            if now != said:
                console.print(now, highlight=False, soft_wrap=True)
            said = now
        return
    with Live(console=console, auto_refresh=False, screen=False) as live:
        while not rest(REFRESH_SECONDS):
            live.update(render(state()), refresh=True)


def line(state: Mapping[str, Any]) -> str:
    """One line: who is largest, and whether it holds."""
    answer = state["answer"]
    top = ", ".join(f"{one['item']} {_value(one['value'])}" for one in answer["items"])
    return f"{_verdict(answer)[0]}: {top or 'nothing yet'}"


def render(state: Mapping[str, Any]) -> Group:
    """The race, the sites, and what it costs."""
    from rich import box
    from rich.console import Group
    from rich.panel import Panel
    from rich.table import Table

    answer = state["answer"]
    words, colour = _verdict(answer)
    race = Table(box=None, show_header=False)
    most = max((abs(one["value"] or 0) for one in answer["items"]), default=0) or 1
    for rank, one in enumerate(answer["items"], 1):
        share = abs(one["value"] or 0) / most
        race.add_row(
            str(rank), f"[bold]{one['item']}[/]", bar(share, BAR_CHARACTERS), _value(one["value"])
        )
    sites = Table(box=box.SIMPLE_HEAD)
    for name in ("site", "state", "slack", "messages", "naive", "bytes", "naive"):
        sites.add_column(name, justify="left" if name in ("site", "state") else "right")
    for site in [*state["sites"], {"name": "all", "phase": "", **state["traffic"]}]:
        sent = {what: site["up"][what] + site["down"][what] for what in ("messages", "bytes")}
        sites.add_row(
            site["name"],
            site["phase"] if site.get("connected", True) else "[red]away[/]",
            _value(site.get("slack")),
            *(f"{of[what]:,}" for what in ("messages", "bytes") for of in (sent, site["naive"])),
        )
    return Group(
        Panel(race, title=f"[{colour}]{words}[/]", title_align="left", expand=False), sites
    )


def _verdict(answer: Mapping[str, Any]) -> tuple[str, str]:
    """What may be relied on, and its colour."""
    as_of = f", as of {answer['as_of']}" if answer["as_of"] else ""
    if answer["stale"]:
        return f"stale{as_of}", "red"
    if answer["valid"]:
        return f"valid{as_of}", "green"
    missing = ", ".join(answer["missing_sites"])
    bound = "" if answer["bound"] is None else f", off by {answer['bound']:,} at most"
    return f"unsure{as_of}{bound}" + (f", missing: {missing}" if missing else ""), "yellow"


def _value(value: float | None) -> str:
    return "-" if value is None else f"{value:,}"
