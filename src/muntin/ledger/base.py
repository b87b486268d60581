"""What a ledger promises, and the classes that keep it (`records`: the words).

A ledger knows bytes and keys only; what the bytes mean is for those who read it. One ledger may
serve several pipelines; names of summaries and standing queries are unique in a ledger.

Promises, kept wherever it is stored, and by the same tests:

1. `commit` is one transaction: all of a `Batch`, or nothing.
2. Exactly once: a batch `(query_id, batch_id)` that is already there is ignored (returns False).
3. Fenced: each `open_writer` takes a higher epoch; any write with an older one is refused with
   `LedgerConflict`, whatever it would have written.
4. A commit from a query that never fed the pipeline is refused (`LedgerConflict`, naming the
   remedies) unless the writer was opened with `mode="append"` or `"overwrite"`.
5. What was committed survives kill -9.
6. Readers see whole transactions only, and never block the writer.
7. No silent gap: in `mode="continue"` a query's batches follow each other, from 0, or from where
   `mode="append"` has accepted that some are missing. One that skips some (the ledger is older than
   the checkpoint: restored from a backup, or deleted) is refused.
8. Events are conserved: `read == counted + rejected_count`, and what a rollup or a compacted piece
   holds of each slice is the sum of what it was made from.
9. Damage is seen: each row carries a checksum; a row that does not match is refused
   (`LedgerError`), never returned.
10. A payload may lie in a file (`Stored`) that executors have written (`files`): a commit names it
    with size and checksum, readers get its bytes or `LedgerError`, and what no row names any more,
    or never did, is deleted by `Writer.sweep`, by age, never sooner.

All times are int64 microseconds since 1970-01-01 UTC.
"""

from muntin.ledger.records import Mode
from muntin.ledger.sqlite import SqliteLedger as Ledger
from muntin.ledger.sqlite_view import View
from muntin.ledger.sqlite_writer import Writer

__all__ = ["Ledger", "Mode", "View", "Writer"]
