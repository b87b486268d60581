"""What a pipeline is refused for, before Spark starts and a ledger is made."""

from muntin.assembly.changes import check_changes
from muntin.assembly.cutting import cuttings_of
from muntin.assembly.standing import StandingQueries
from muntin.errors import LedgerMissing
from muntin.ledger.base import Ledger, Mode
from muntin.ledger.open import open_ledger
from muntin.ledger.rules import check_query
from muntin.spark.sequences import PipelineShards
from muntin.spec import Pipeline


def existing_ledger(ledger: Ledger | str) -> Ledger | None:
    """The ledger, or None: it is made only once the source was looked at."""
    if isinstance(ledger, Ledger):
        ledger.follow()
        return ledger
    try:
        return open_ledger(ledger, create=False)
    except LedgerMissing:
        return None


def check_before(pipeline: Pipeline, ledger: Ledger | None, mode: Mode, query_id: str = "") -> None:
    """All that an ingest would refuse. `query_id` is that of the checkpoint, "" where a new query
    would begin."""
    ledger = open_ledger("memory://") if ledger is None else ledger
    StandingQueries(pipeline, ledger).close()
    cuttings_of(pipeline, ledger)
    if mode == "overwrite":
        return
    info = ledger.pipeline(pipeline.name)
    if info is not None and info.batches:
        known = bool(query_id)  # whether it fed the ledger, the writer looks up
        check_query(pipeline.name, ledger.url, mode, query_id, info.query_id, known)
    check_changes(pipeline, ledger)
    PipelineShards(pipeline, ledger)
