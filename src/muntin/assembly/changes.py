"""A pipeline that is changed must still fit what its ledger holds."""

from __future__ import annotations

from muntin.errors import SpecError
from muntin.ledger.base import Ledger
from muntin.spec import Pipeline


def check_changes(pipeline: Pipeline, ledger: Ledger) -> None:
    """Compare a pipeline with the one of the same name that fed the ledger until now.

    Raises
    ------
    SpecError
        A summary has another kind or size than what is stored of it: they would not merge.
    """
    found = next((p for p in ledger.pipelines() if p.name == pipeline.name), None)
    if found is None:
        return
    before = Pipeline.from_json(found.spec)
    lengths = (before.pane, *before.rungs)
    for name, summary in pipeline.summaries.items():
        old = before.summaries.get(name)
        if old is None or not any(ledger.bounds(name, length) for length in lengths):
            continue
        is_now, was = ({"kind": each.kind, **each.stored_as()} for each in (summary, old))
        for entry in is_now | was:
            if is_now.get(entry) != was.get(entry):
                raise SpecError(
                    f"summaries.{name}.{entry}: {_shown(was.get(entry))} in what is stored, now "
                    f"{_shown(is_now.get(entry))}: they do not merge; give the changed summary "
                    f"another name, or start over with --reset"
                )


def _shown(value: object) -> str:
    return "nothing" if value is None else str(value)
