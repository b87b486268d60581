"""A live view of a subscription in Jupyter: a table that replaces itself as answers come."""

import threading
from collections.abc import Iterator
from html import escape
from typing import Any

from muntin.client import Subscription, Update
from muntin.errors import MuntinError, needs

__all__ = ["watch"]


def watch(updates: Iterator[Update]) -> Any:
    """Show updates as they come, in a widget with a button that stops it.

    Needs ipywidgets: `pip install 'muntin[notebook]'`.

    Parameters
    ----------
    updates : iterator of Update
        For example `muntin.connect(url).subscribe("SELECT ...")`.
    """
    needs("notebook", "watch", "ipywidgets")
    import ipywidgets as widgets

    shown = widgets.HTML("waiting for the first answer")
    button = widgets.Button(description="stop")
    stopped = threading.Event()

    def stop(_: Any) -> None:
        stopped.set()
        if isinstance(updates, Subscription):
            updates.close()  # ends the wait for the next one

    def follow() -> None:
        try:
            for update in updates:
                if stopped.is_set():
                    break
                shown.value = update._repr_html_()
        except Exception as problem:  # of the caller's iterator, too: nobody sees a thread's trace
            said = str(problem) if isinstance(problem, MuntinError) else repr(problem)
            shown.value += f"<pre>{escape(said)}</pre>"
        button.description = "stopped"
        button.disabled = True

    button.on_click(stop)
    threading.Thread(target=follow, name="muntin-watch", daemon=True).start()
    return widgets.VBox([shown, button])
