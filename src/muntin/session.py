"""`muntin.open`: ask a ledger."""

import weakref
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NoReturn

from muntin.errors import BadArgument
from muntin.ledger.base import Ledger
from muntin.ledger.open import open_ledger
from muntin.ledger.records import ClosedWindow
from muntin.progress import Progress
from muntin.reading.catalog import LedgerCatalog
from muntin.select.engine import Engine
from muntin.select.result import Result


class Session(AbstractContextManager["Session"]):
    """Answers questions from a ledger. Thread-safe; close it, or use it in a `with` statement.

    Attributes
    ----------
    ledger : Ledger
    progress : Progress or None
        What the run did that returned this session.
    """

    def __init__(self, ledger: Ledger, progress: Progress | None = None) -> None:
        if not hasattr(ledger, "pipelines"):
            of = type(ledger).__name__
            raise BadArgument(f"a session is of a ledger, not of {of}: muntin.open takes its URL")
        self.ledger = ledger
        self.progress = progress
        self._catalog = LedgerCatalog(ledger)
        self._engine = Engine(self._catalog)
        self._finish = weakref.finalize(self, self._engine.close)  # also where nobody closes it

    def sql(self, statement: str) -> Result:
        """Answer a SELECT, or `SHOW TABLES`, which lists what there is; see docs/select.md.

        Raises
        ------
        SelectError
            The statement is wrong; points at the place and says what would be right.
        """
        return self._engine.sql(statement)

    def windows(self, summary: str | None = None, *, limit: int = 1000) -> list[ClosedWindow]:
        """Closed windows, oldest first, in their newest revision."""
        return self.ledger.windows(summary, limit=limit)

    def __repr__(self) -> str:
        return f"<muntin.Session of {self.ledger.url}>"

    def __reduce__(self) -> NoReturn:
        """What a task of a scheduler returns, and what a function of Spark's workers uses, is
        pickled."""
        raise TypeError(
            "a session is of one process and is not pickled: hand on its results, or the ledger's "
            "URL, for muntin.open"
        )

    def close(self) -> None:
        """Let go of the ledger."""
        self._finish()
        self.ledger.close()

    def __exit__(self, *_: object) -> None:
        self.close()


def open(ledger: str | Path | Ledger) -> Session:  # noqa: A001 (muntin.open, as pa.ipc.open or dbm.open)
    """Open a ledger for questions.

    Parameters
    ----------
    ledger : str, Path or Ledger
        "sqlite:///flights.db" (relative), "sqlite:////var/flights.db", "memory://name",
        "postgresql://user@host/database", "redis://host:6379/0".

    Raises
    ------
    LedgerError
        There is no such ledger, or it cannot be read.
    """
    if isinstance(ledger, str | Path):
        ledger = open_ledger(str(ledger), create=False)
    return Session(ledger)
