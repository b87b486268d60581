"""Words in colour."""

from __future__ import annotations

import os

import typer


def coloured(text: str, colour: str) -> str:
    """In colour, unless NO_COLOR (no-color.org) or the terminal wants none. Where this is no
    terminal, `typer.echo` takes it away."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return text if plain else typer.style(text, fg=colour)
