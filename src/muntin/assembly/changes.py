"""A pipeline that is changed must still fit what its ledger holds."""

from collections.abc import Callable, Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Any

from muntin.assembly.cutting import Cutting
from muntin.errors import MuntinError, SourceError, SpecError
from muntin.kinds import SegmentSpec, SummarySpec
from muntin.kinds.vector_matrix import VectorMatrixSpec
from muntin.ledger.base import Ledger
from muntin.ledger.records import Partial, PipelineInfo, Stored
from muntin.reading.extent import Layout
from muntin.reading.pieces import Pieces, SegmentCache, pieces_of
from muntin.segments.algebra import Algebra
from muntin.segments.codec import head_size, read_types
from muntin.spec import AWAY, FORMER, GONE, Pipeline
from muntin.times import duration_text, instant_text

PIECES_LOOKED_AT = 8  # at first
LOOKED_AT_BYTES = 1 << 14  # of a piece: most say within them what it holds
_ANEW = 'start over with mode="overwrite" (--reset)'


def check_changes(pipeline: Pipeline, ledger: Ledger) -> None:
    """Compare a pipeline with the one of the same name that fed the ledger until now. Raises
    SpecError: its panes have another length, its events another time, or a summary another kind,
    size or columns than what is stored of it: they would not merge, or make one summary of two
    things."""
    found = ledger.pipeline(pipeline.name)
    if found is None or not found.batches:
        return
    plain = {**found.spec, "summaries": _known(found.spec), "queries": {}}
    before = Pipeline.from_json(plain)
    if pipeline.pane != before.pane:
        raise SpecError(
            f"pane: {duration_text(before.pane)} in what is stored, now "
            f"{duration_text(pipeline.pane)}: keep the pane, use another ledger, or {_ANEW}"
        )
    was, now = _time(before), _time(pipeline)
    if was != now and found.counted:
        raise SpecError(
            f"time: {was} in what is stored, now {now}: panes would hold events of two times; name "
            f"it as before, use another ledger, or {_ANEW}"
        )
    lengths = (before.pane, *before.rungs)
    for name, summary in pipeline.summaries.items():
        old = before.summaries.get(name)
        if old is None:
            continue
        if not any(ledger.bounds(name, length) for length in lengths) and not ledger.states(name):
            continue
        _check_rollups(name, summary, pipeline, ledger)
        _check_fields(name, summary, _fields_read(found.spec, name, old), pipeline, ledger)
        is_now, was = ({"kind": each.kind, **each.stored_as()} for each in (summary, old))
        for entry in is_now | was:
            if is_now.get(entry) != was.get(entry):
                raise SpecError(
                    f"summaries.{name}.{summary.entry_of(entry)}: {_shown(was.get(entry))} in what "
                    f"is stored, now {_shown(is_now.get(entry))}: they do not merge; give the "
                    f"changed summary another name, or {_ANEW}"
                )


def _time(pipeline: Pipeline) -> str:
    column, unit = pipeline.time.column, pipeline.time.unit
    expression = pipeline.fields.get(column)
    said = column if unit is None else f"{column} in {unit}"
    return said if expression is None else f"{said}, {_expression(expression)}"


def _check_rollups(name: str, summary: SummarySpec, pipeline: Pipeline, ledger: Ledger) -> None:
    """Rollups that are made no more go; what nothing else holds must not go with them."""
    gone = [reach for reach in ledger.coverage(name) if reach.length not in pipeline.rungs]
    if not gone or not isinstance(summary, SegmentSpec):
        return
    layout = Layout(name, summary, pipeline.pane, pipeline.rungs)
    with pieces_of(ledger, SegmentCache(0)) as now:
        left = now.extent(layout).rollups
        for reach in gone:
            # from where longer ones begin, so that their first slice is whole
            begin = min([reach.start, *(start for start, _ in left.covered.values())])
            tiles = left.tiles(begin, reach.until)
            alone = [run for length, *run in tiles if length is None]
            lost = sum(_held_alone(now, layout, reach.length, *run) for run in alone)
            # longer ones that are still to be made would lack a part, even if no event was in it
            lacking = any(
                start >= until for start, _ in alone for _, until in left.covered.values()
            )
            if lost or lacking:
                start, end = alone[0][0], alone[-1][1]
                # those that reach back to all time cover it from 0 on
                since = instant_text(start) if start else "the first event"
                raise SpecError(
                    f"rollups: nothing but those of {duration_text(reach.length)} holds "
                    f"summaries.{name} from {since} to {instant_text(end)}, {lost:,} events: "
                    f"retention has dropped its panes; leave that length in the list, or {_ANEW}"
                )


def _held_alone(now: Pieces, layout: Layout, length: int, start: int, end: int) -> int:
    """Events of a time of which the slices that are left have nothing."""
    span = start // length * length, -(-end // length) * length
    tiles = now.extent(layout).rollups.tiles(*span)
    left = sum(now.slices(layout, each, *run).count for each, *run in tiles if each is not None)
    return now.slices(layout, length, *span).count - left


def _check_fields(
    name: str, summary: SummarySpec, was: Mapping[str, str | None], pipeline: Pipeline,
    ledger: Ledger,
) -> None:  # fmt: skip
    """What a summary reads by a name must be what it read by it before."""
    for column in summary.columns():
        now = pipeline.fields.get(column)
        if (
            column in was
            and _plain(was[column]) != _plain(now)
            and _holds(name, summary, column, pipeline, ledger)
        ):
            raise SpecError(
                f"fields.{column}: {_expression(was[column])} in what summaries.{name} has stored, "
                f"now {_expression(now)}: it would be a sum of two things; give the changed field "
                f"another name, or {_ANEW}"
            )


def _holds(
    name: str, summary: SummarySpec, column: str, pipeline: Pipeline, ledger: Ledger
) -> bool:
    """Whether what is stored has the column. An indicator that was added may have failed in its
    first batch, so that none has come."""
    if not isinstance(summary, VectorMatrixSpec) or column not in summary.indicators:
        return True
    layout = Layout(name, summary, pipeline.pane, pipeline.rungs)
    with pieces_of(ledger, SegmentCache(0)) as now:
        known = _stored(now, layout, {()})  # of all pieces: no column of a key has this name
    return known is None or column in dict(known.algebra.parameters()["indicators"])


def _fields_read(spec: Mapping[str, Any], name: str, summary: SummarySpec) -> dict[str, str | None]:
    """Column of what is stored of a summary -> the field's expression; None: the source's own."""
    fields = spec.get(AWAY, {}).get(name, {}).get("fields", spec.get("fields", {}))
    gone = spec.get(GONE, {}).get(name, {})
    return gone | {column: fields.get(column) for column in summary.columns()}


def _plain(expression: str | None) -> str | None:
    return None if expression is None else " ".join(expression.split())


def _expression(expression: str | None) -> str:
    plain = _plain(expression)
    return "the source's own column" if plain is None else repr(plain)


def spec_to_store(pipeline: Pipeline, before: PipelineInfo | None) -> dict[str, Any]:
    """The pipeline as its ledger keeps it, with what there was before it.

    A summary that is taken out may come back: `former` says what is stored of it, and so may a
    column of one: `gone` says what it was. One that joins a
    pipeline at work, or comes back to it, has not counted the events of the time without it: `away`
    says from which count to which that was, how far the events had come when it came, and what its
    fields were when it went.
    """
    plain = pipeline.as_json()
    if before is None or not before.batches:
        return plain
    names = pipeline.summaries.keys()
    former = {name: spec for name, spec in _known(before.spec).items() if name not in names}
    away = {name: each for name in (*names, *former) if (each := _away(name, names, before))}
    if former:
        plain[FORMER] = former
    if away:
        plain[AWAY] = away
    if gone := _gone(pipeline, before):
        plain[GONE] = gone
    return plain


def _gone(pipeline: Pipeline, before: PipelineInfo) -> dict[str, dict[str, str | None]]:
    """Columns of summaries that are stored and not in their specs any more, as `_fields_read`."""
    old = Pipeline.from_json({**before.spec, "summaries": _known(before.spec), "queries": {}})
    found = {}
    for name, summary in old.summaries.items():
        columns = pipeline.summaries.get(name, summary).columns()
        read = _fields_read(before.spec, name, summary)
        found[name] = {column: was for column, was in read.items() if column not in columns}
    return {name: columns for name, columns in found.items() if columns}


def _away(name: str, names: Collection[str], before: PipelineInfo) -> dict[str, Any] | None:
    """When one summary was away, where the pipeline has those of these names from now on."""
    stored = before.spec.get(AWAY, {}).get(name, {})
    counts, until = [*stored.get("counts", ())], stored.get("until")
    is_here, was_here = name in names, name in before.spec["summaries"]
    if is_here and not was_here:
        (since, _) = counts.pop() if counts else (0, None)
        if since < before.counted:
            counts, until = [*counts, [since, before.counted]], before.max_event_time
    elif was_here and not is_here:
        counts.append([before.counted, None])
        return {"counts": counts, "until": until, "fields": before.spec.get("fields", {})}
    if is_here or not counts:
        return {"counts": counts, "until": until} if counts else None
    return dict(stored)


Types = dict[tuple[str, ...], str]


@dataclass(slots=True)
class _KnownPieces:
    """What is known of the pieces of one summary."""

    algebra: Algebra
    types: Types
    of_all: bool  # all pieces were looked at: what is not in `types` has no type yet


class StoredTypes:
    """Types of the keys and items that a pipeline's ledger holds: what has others cannot be merged
    with it, and must not be committed.

    Pieces agree, since each was compared before it came. So the newest tell the types of most
    columns, and older ones are only looked at for a column that is new, or was null in those, or
    was taken out for a time. Of a piece the first bytes suffice.
    """

    def __init__(self, cuttings: Mapping[str, Cutting]) -> None:
        self._cuttings = cuttings
        self._of: dict[str, _KnownPieces] = {}

    def check(self, now: Pieces, layout: Layout, partials: Iterable[Partial]) -> None:
        """SourceError where what a batch brings to one summary has another type than is stored."""
        name = layout.name
        came: _KnownPieces | None = None
        for partial in partials:
            came = _with(name, came, *read_types(self._head(partial)))
        if came is None:
            return
        known = self._of.get(name)
        if known is None or not (known.of_all or came.types.keys() <= known.types.keys()):
            known = _stored(now, layout, came.types.keys())
        if known is None:
            known = replace(came, of_all=True)
        self._of[name] = _with(name, known, came.algebra, came.types)

    def _head(self, partial: Partial) -> bytes:
        payload = partial.payload
        if not isinstance(payload, Stored):
            return payload
        folder = self._cuttings[partial.summary].folder
        assert folder is not None  # noqa: S101 (who writes files has a folder)
        return _whole_head(lambda size: folder.read_part(payload.path, 0, size))


def _stored(
    now: Pieces, layout: Layout, wanted: AbstractSet[tuple[str, ...]]
) -> _KnownPieces | None:
    """What pieces tell, the newest first, until the types of these columns are known."""
    pieces = [p for length in (layout.pane, *layout.rungs) for p in now.of_length(layout, length)]
    left = sorted((piece.id for piece in pieces), reverse=True)
    known: _KnownPieces | None = None
    many = PIECES_LOOKED_AT
    while left and (known is None or not wanted <= known.types.keys()):
        some, left, many = left[:many], left[many:], 2 * many
        for number, head in now.view.heads(some, LOOKED_AT_BYTES).items():
            whole = _whole_head(lambda size: now.view.heads([number], size)[number], head)  # noqa: B023
            known = _with(layout.name, known, *read_types(whole))
    return known and replace(known, of_all=not left)


def _whole_head(read: Callable[[int], bytes], head: bytes | None = None) -> bytes:
    """As many of a segment's first bytes as tell its types."""
    found = read(LOOKED_AT_BYTES) if head is None else head
    size = head_size(found)
    return found if len(found) >= size else read(size)


def _with(name: str, known: _KnownPieces | None, algebra: Algebra, types: Types) -> _KnownPieces:
    if known is None:
        return _KnownPieces(algebra, types, of_all=False)
    for column, kind in types.items():
        was = known.types.get(column, kind)
        if was != kind:
            raise other_type(name, f"{column[-1]!r} is {kind}, and {was}")
    try:
        whole = known.algebra.united(algebra)
    except MuntinError as problem:
        raise other_type(name, f"{problem}") from None
    return _KnownPieces(whole, known.types | types, known.of_all)


def other_type(name: str, what: str) -> SourceError:
    """What a batch brings cannot be merged with what came before."""
    return SourceError(
        f"summaries.{name}: {what} in what is stored: the two do not merge, and nothing of this "
        "batch was taken; cast the column to that type (of a file: write it anew, under its name)"
    )


def _known(spec: Mapping[str, Any]) -> dict[str, Any]:
    return {**spec.get(FORMER, {}), **spec["summaries"]}


def _shown(value: object) -> str:
    return "nothing" if value is None else str(value)
