"""A live view of a subscription in Jupyter: a table that replaces itself as answers come."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from html import escape
from typing import Any

from muntin.client import Update
from muntin.errors import MuntinError

__all__ = ["watch"]


def watch(updates: Iterator[Update]) -> Any:
    """Show updates as they come, in a widget with a button that stops it.

    Needs ipywidgets: `pip install muntin[notebook]`.

    Parameters
    ----------
    updates : iterator of Update
        For example `muntin.connect(url).subscribe("SELECT ...")`.
    """
    import ipywidgets as widgets

    shown = widgets.HTML("waiting for the first answer")
    button = widgets.Button(description="stop")
    stopped = threading.Event()
    button.on_click(lambda _: stopped.set())

    def follow() -> None:
        try:
            for update in updates:
                if stopped.is_set():
                    break
                shown.value = _html(update)
        except MuntinError as problem:
            shown.value += f"<pre>{escape(str(problem))}</pre>"
        button.description = "stopped"
        button.disabled = True

    threading.Thread(target=follow, name="muntin-watch", daemon=True).start()
    return widgets.VBox([shown, button])


def _html(update: Update) -> str:
    if update.result is not None:
        return update.result._repr_html_()
    about = update.error or update.gap or {}
    return f"<pre>{escape(str(dict(about)))}</pre>"
