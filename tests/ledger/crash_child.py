"""A process to be killed: commits batches for ever and says which are committed."""

from __future__ import annotations

import sys

from ledger_helpers import PANE, SPEC, batch, compacted, partial, roll

from muntin.ledger import open_ledger


def main(url: str) -> None:
    ledger = open_ledger(url)
    writer = ledger.open_writer("p", SPEC, query_id="A")
    newest = writer.last_batch("A")
    number = 0 if newest is None else newest + 1
    while True:
        pane = number % 40 * PANE
        one = partial("s", pane, [2 * number, 2 * number + 1])
        writer.commit(batch(number, one, into=ledger, watermark=400))
        print(number, flush=True)  # noqa: T201
        if number % 5 == 0:
            pieces = ledger.pieces("s", PANE)[:4]
            writer.compact(pieces, [compacted(ledger, pieces)])
        if number % 7 == 0:
            reach = [cover.until for cover in ledger.coverage("s")]
            if not reach or reach[0] < 400:
                roll(ledger, writer, "s", 100, reach[0] if reach else 0)
        number += 1


if __name__ == "__main__":
    main(sys.argv[1])
