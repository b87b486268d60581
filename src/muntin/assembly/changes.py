"""A pipeline that is changed must still fit what its ledger holds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from muntin.errors import MuntinError, SourceError, SpecError
from muntin.ledger.base import Ledger
from muntin.ledger.records import Partial, PipelineInfo
from muntin.reading.extent import Layout
from muntin.reading.pieces import Pieces
from muntin.segments.algebra import Algebra, merged_algebra
from muntin.segments.codec import read_types
from muntin.spec import FORMER, LATER, Pipeline

PIECES_LOOKED_AT = 8
LOOKED_AT_BYTES_MAX = 1 << 20  # larger ones may lie in files


def check_changes(pipeline: Pipeline, ledger: Ledger) -> None:
    """Compare a pipeline with the one of the same name that fed the ledger until now.

    Raises
    ------
    SpecError
        A summary has another kind, size or columns than what is stored of it: they would not
        merge, or make one summary of two things.
    """
    found = _fed(pipeline, ledger)
    if found is None:
        return
    plain = {**found.spec, "summaries": _known(found.spec), "queries": {}}
    before = Pipeline.from_json(plain)
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


def spec_to_store(pipeline: Pipeline, ledger: Ledger) -> dict[str, Any]:
    """The pipeline as its ledger keeps it, with what there was before it.

    A summary that is taken out may come back: `former` says what is stored of it. One that joins a
    pipeline at work, or comes back to it, has not counted the events of the time without it: it is
    named in `later`.
    """
    plain = pipeline.as_json()
    found = _fed(pipeline, ledger)
    if found is None:
        return plain
    names = pipeline.summaries.keys()
    former = {name: spec for name, spec in _known(found.spec).items() if name not in names}
    later = {*names - found.spec["summaries"].keys(), *found.spec.get(LATER, ())} & names
    if former:
        plain[FORMER] = former
    if later:
        plain[LATER] = sorted(later)
    return plain


class StoredTypes:
    """Types of the keys and items that a pipeline's ledger holds: what has others cannot be merged
    with it, and must not be committed."""

    def __init__(self) -> None:
        self._of: dict[str, tuple[Algebra, dict[tuple[str, ...], str]]] = {}

    def check(self, now: Pieces, layout: Layout, partials: Iterable[Partial]) -> None:
        """Compare what a batch brings to one summary with what came before.

        Raises
        ------
        SourceError
            A column has another type than what is stored of it.
        """
        name = layout.name
        heads = [read_types(p.payload) for p in partials if isinstance(p.payload, bytes)]
        if name not in self._of:
            heads = [*_newest(now, layout), *heads]
        elif heads:
            heads = [self._of[name], *heads]
        known: dict[tuple[str, ...], str] = {}
        for _, types in heads:
            for column, kind in types.items():
                if known.setdefault(column, kind) != kind:
                    raise _other_type(name, f"{column[-1]!r} is {kind}, and {known[column]}")
        try:
            algebra = merged_algebra([algebra for algebra, _ in heads]) if heads else None
        except MuntinError as problem:
            raise _other_type(name, f"{problem}") from None
        if algebra is not None:
            self._of[name] = algebra, known


def _newest(now: Pieces, layout: Layout) -> list[tuple[Algebra, dict[tuple[str, ...], str]]]:
    """Of the small pieces that were stored last: a column may have had only nulls in some."""
    pieces = [p for length in (layout.pane, *layout.rungs) for p in now.of_length(layout, length)]
    small = sorted(piece.id for piece in pieces if piece.nbytes <= LOOKED_AT_BYTES_MAX)
    newest = small[-PIECES_LOOKED_AT:]
    return [read_types(payload) for payload in now.view.payloads(newest).values()]


def _other_type(name: str, what: str) -> SourceError:
    return SourceError(
        f"summaries.{name}: {what} in what is stored: the two do not merge, and nothing of this "
        "batch was taken; cast the column to one type"
    )


def _fed(pipeline: Pipeline, ledger: Ledger) -> PipelineInfo | None:
    """The pipeline of the same name, if it has taken anything."""
    found = ledger.pipeline(pipeline.name)
    return found if found is not None and found.batches else None


def _known(spec: Mapping[str, Any]) -> dict[str, Any]:
    """All summaries that a stored spec tells of."""
    return {**spec.get(FORMER, {}), **spec["summaries"]}


def _shown(value: object) -> str:
    return "nothing" if value is None else str(value)
