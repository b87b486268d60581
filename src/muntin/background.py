"""Two things at once: one in a thread beside a block of code."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager


@contextmanager
def in_background(work: Callable[[], object]) -> Iterator[None]:
    """Run `work` beside the block, whose end waits for it, and raises what it has raised."""
    with ThreadPoolExecutor(1, "muntin-background") as pool:
        working = pool.submit(work)
        yield
    working.result()
