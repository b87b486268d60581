"""A writer that freezes itself within a commit, again and again, and says how each one ended."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable

from ledger_helpers import batch, partial

from muntin.errors import LedgerConflict
from muntin.ledger import open_ledger


class Calls:
    """Counts the calls of Muntin's own functions; freezes the process at one of them."""

    def __init__(self, freeze_at: int = 0) -> None:
        self.count = 0
        self.freeze_at = freeze_at

    def __call__(self, frame, event: str, _: object) -> None:
        if event in ("call", "return") and "/muntin/ledger/" in frame.f_code.co_filename:
            self.count += 1
            if self.count == self.freeze_at:
                os.kill(os.getpid(), signal.SIGSTOP)

    def during(self, work: Callable[[], object]) -> None:
        sys.setprofile(self)
        try:
            work()
        finally:
            sys.setprofile(None)


def main(url: str, points: int) -> None:
    ledger = open_ledger(url)
    total = 0
    for point in range(points + 1):
        name = f"p{point}"
        spec = {"pane_us": 10, "summaries": {f"s{point}": {}}}
        writer = ledger.open_writer(name, spec, query_id="A")
        writer.commit(batch(0, partial(f"s{point}", 0, [1])))
        calls = Calls(0 if point == 0 else 1 + total * (point - 1) // points)
        one = batch(1, partial(f"s{point}", 0, [2]))
        try:
            calls.during(lambda: writer.commit(one))  # noqa: B023
            print(point, "committed", flush=True)  # noqa: T201
        except LedgerConflict:
            print(point, "refused", flush=True)  # noqa: T201
        total = total or calls.count


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
