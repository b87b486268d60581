"""What a ledger checks and counts, apart from how it stores: pure functions."""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import index
from typing import Any

import numpy as np

from muntin.errors import BadArgument, LedgerConflict, UnknownName
from muntin.ledger.records import (
    PAYLOAD_BYTES_MAX,
    RAW_BYTES_MAX,
    REJECTED_KEPT_MAX,
    Batch,
    ClosedWindow,
    Mode,
    Partial,
    Payload,
    Rejected,
    State,
    Stored,
    TrendPoint,
    check_name,
)
from muntin.ledger.slices import Slices, added_up, check_slices

INT64_MIN, INT64_MAX = -(1 << 63), (1 << 63) - 1
JSON_BYTES_MAX = {
    "spec": 1 << 20,
    "assembler's state": 16 << 20,
    "status": 1 << 20,
    "state of the alerts": 16 << 20,
    "arguments of a command": 64 << 10,
    "answer to a command": 64 << 10,
    "fill of a window": 64 << 10,
}
QUERY_ID_CHARACTERS_MAX = 200
REASON_CHARACTERS_MAX = 64
DETAIL_CHARACTERS_MAX = 1000
CLIENT_CHARACTERS_MAX = 200
ROLE_SUMMARY, ROLE_QUERY = "summary", "query"


@dataclass(frozen=True, slots=True)
class Owned:
    """What a spec says that matters to a ledger."""

    pane_us: int
    kinds: Mapping[str, str]  # kind of each summary, "" where the spec names none
    queries: tuple[str, ...]


def read_spec(spec: Mapping[str, Any]) -> tuple[Owned, str]:
    """The pane length and the names that a spec lays claim to; and the spec as JSON."""
    if not isinstance(spec, Mapping):
        raise BadArgument(f"the spec must be a mapping, not {type(spec).__name__}")
    pane_us = whole(spec.get("pane_us"), 'spec["pane_us"]', least=1)
    summaries, queries = spec.get("summaries") or {}, spec.get("queries") or {}
    kinds = {}
    for name in summaries:
        entry = summaries[name] if isinstance(summaries, Mapping) else None
        kind = entry.get("kind", "") if isinstance(entry, Mapping) else ""
        kinds[check_name(name, ROLE_SUMMARY)] = str(kind)
    owned = Owned(pane_us, kinds, tuple(check_name(name, ROLE_QUERY) for name in queries))
    return owned, dump(spec, "spec")


def whole(value: object, what: str, *, least: int = INT64_MIN, most: int = INT64_MAX) -> int:
    """`value` as an int within limits (int64, unless given)."""
    try:
        number = index(None if isinstance(value, bool) else value)  # pyright: ignore[reportArgumentType]
    except TypeError:
        raise BadArgument(f"{what} must be a whole number, not {ascii(value)[:80]}") from None
    if not least <= number <= most:
        raise BadArgument(f"{what} is {number}; it must lie in [{least}, {most}]")
    return number


def blob(payload: object, what: str) -> bytes:
    """`payload` as bytes of an allowed size, never the caller's buffer."""
    if not isinstance(payload, bytes | bytearray | memoryview):
        raise BadArgument(f"{what} must be bytes, not {type(payload).__name__}")
    size = payload.nbytes if isinstance(payload, memoryview) else len(payload)
    _check_size(size, what)
    return bytes(payload)


def payload_of_piece(payload: object, what: str) -> Payload:
    """As `blob`, or what a file holds of it."""
    if not isinstance(payload, Stored):
        return blob(payload, what)
    _check_size(whole(payload.nbytes, f"the size of {what}", least=1), what)
    whole(payload.crc, f"the checksum of {what}", least=0, most=(1 << 32) - 1)
    return payload


def _check_size(size: int, what: str) -> None:
    if size > PAYLOAD_BYTES_MAX:
        raise BadArgument(
            f"{what} has {size:,} bytes; at most {PAYLOAD_BYTES_MAX:,}: give the summary more "
            "`shards:`, a smaller capacity, or shorter panes"
        )


def check_query_id(query_id: object) -> str:
    if (
        isinstance(query_id, str)
        and 0 < len(query_id) <= QUERY_ID_CHARACTERS_MAX
        and query_id.isprintable()
    ):
        return query_id
    raise BadArgument(
        f"query_id {ascii(query_id)[:80]} must be 1 to {QUERY_ID_CHARACTERS_MAX} printable "
        "characters"
    )


def dump(document: Mapping[str, Any], what: str) -> str:
    """ASCII JSON of an object; `BadArgument` where it is none, or longer than `JSON_BYTES_MAX`."""
    if not isinstance(document, Mapping):
        raise BadArgument(f"the {what} must be a mapping, not {type(document).__name__}")
    try:
        text = json.dumps(dict(document), allow_nan=False, ensure_ascii=True, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as problem:
        raise BadArgument(
            f"the {what} cannot be written as JSON ({problem}); use strings, finite numbers, "
            "booleans, None, lists and mappings"
        ) from None
    if len(text) > JSON_BYTES_MAX[what]:
        raise BadArgument(
            f"the {what} takes {len(text):,} bytes of JSON; at most {JSON_BYTES_MAX[what]:,}"
        )
    return text


def clean_text(text: str, characters_max: int) -> str:
    """Text cut to a length, with lone surrogates escaped, so that UTF-8 can hold it."""
    return str(text)[:characters_max].encode("utf-8", "backslashreplace").decode("utf-8")


# Who may write


def check_query(
    pipeline: str, url: str, mode: Mode, query_id: str, fed_by: str | None, known: bool
) -> None:
    """May this query ("" for a new one) feed the pipeline? `fed_by` is the last one that did, None
    without data."""
    if fed_by is None or mode in ("append", "overwrite"):
        return
    if mode == "error":
        raise LedgerConflict(
            f'pipeline "{pipeline}" has data in {url} already (query {fed_by} fed it); pass '
            'mode="append" to add to them, mode="overwrite" to delete them first, or another ledger'
        )
    if not known:
        asks = f"query {query_id}" if query_id else "a new query"
        raise LedgerConflict(
            f'pipeline "{pipeline}" in {url} was fed by query {fed_by}; {asks} would read the '
            f"source again and count it twice. Start from the checkpoint of {fed_by}; or let it "
            "begin behind what was counted (Kafka: startingOffsets; files: a path where only newer "
            'ones lie) and pass mode="append" (--append); or start over with mode="overwrite" '
            "(--reset)"
        )


def newest_of(ranges: Iterable[tuple[int, int]]) -> int | None:
    """The newest batch that is there, or was accepted as missing."""
    newest = max((last for _, last in ranges), default=-1)
    return None if newest < 0 else newest


def missing_of(ranges: Iterable[tuple[int, int]]) -> int:
    """Batches of a query that are not there, before and between those that are."""
    missing = end = 0
    for first, last in sorted(ranges):
        missing, end = missing + first - end, last + 1
    return missing


def check_sequence(pipeline: str, mode: Mode, batch: Batch, newest: int | None) -> None:
    """In mode "continue" no batch may be missing before this one, which is not there yet."""
    expected = 0 if newest is None else newest + 1
    if mode == "continue" and batch.batch_id > expected:
        there = "no batch" if newest is None else f"batches up to {newest}"
        raise LedgerConflict(
            f'pipeline "{pipeline}" has {there} of query {batch.query_id}, and batch '
            f"{batch.batch_id} comes next: what lies between is lost to this ledger (was it "
            "deleted, or restored from a backup?). Delete the checkpoint as well and start over "
            'with mode="overwrite" (--reset), or accept the gap with mode="append" (--append)'
        )


# What a batch may hold


def check_batch(batch: Batch, owned: Owned, pipeline: str) -> Batch:
    """The batch in plain ints and bytes; one that loses or invents events is refused."""
    query_id = check_query_id(batch.query_id)
    batch_id = whole(batch.batch_id, "batch_id", least=0, most=INT64_MAX - 1)
    read = whole(batch.read, "read", least=0)
    counted = whole(batch.counted, "counted", least=0)
    refused = whole(batch.rejected_count, "rejected_count", least=0)
    where = f"batch {batch_id} of query {query_id}"
    if read != counted + refused:
        raise BadArgument(
            f"{where}: {read} events were read, but {counted} counted and {refused} rejected; "
            "every event must be one or the other"
        )
    if len(batch.rejected) > refused:
        raise BadArgument(
            f"{where}: {len(batch.rejected)} rejected records for rejected_count {refused}"
        )
    partials = [_check_partial(partial, owned, pipeline) for partial in batch.partials]
    for summary, panes in panes_of(partials, owned.pane_us).items():
        if panes.count > counted:
            raise BadArgument(
                f'{where}: the partials of "{summary}" hold {panes.count} events of {counted} '
                "counted"
            )
    states = []
    for state in batch.states:
        check_summary(state.summary, owned, pipeline)
        shard = whole(state.shard, "shard", least=0)
        states.append(State(state.summary, shard, blob(state.payload, "a state")))
    late = whole(batch.late, "late", least=0)
    if late > counted:
        raise BadArgument(f"{where}: {late} events are late of {counted} counted")
    newest, watermark = (
        None if moment is None else whole(moment, what)
        for moment, what in (
            (batch.max_event_time, "max_event_time"),
            (batch.watermark, "watermark"),
        )
    )
    return Batch(
        query_id, batch_id, partials, states, batch.rejected, read, counted, refused, newest,
        watermark, late,
    )  # fmt: skip


def _check_partial(partial: Partial, owned: Owned, pipeline: str) -> Partial:
    check_summary(partial.summary, owned, pipeline)
    length = owned.pane_us if partial.length is None else whole(partial.length, "length", least=1)
    slices = check_slices(f'a partial of "{partial.summary}"', partial.slices, length)
    shard = whole(partial.shard, "shard", least=0)
    payload = payload_of_piece(partial.payload, f'a partial of "{partial.summary}"')
    return Partial(partial.summary, slices, payload, length, shard)


def check_summary(name: str, owned: Owned, pipeline: str) -> None:
    _check_known("summary", name, owned.kinds, pipeline)


def _check_known(what: str, name: str, known: Collection[str], pipeline: str) -> None:
    if name not in known:
        raise UnknownName(
            f'pipeline "{pipeline}" has no {what} {name!r}; its spec has '
            + (", ".join(sorted(known)) or "none")
        )


def panes_of(partials: Sequence[Partial], pane_us: int) -> dict[str, Slices]:
    """Summary -> what a batch adds to its panes; `late` means nothing."""
    found: dict[str, list[Slices]] = {}
    for partial in partials:
        if partial.length in (None, pane_us):
            found.setdefault(partial.summary, []).append(partial.slices)
    return {summary: added_up(parts) for summary, parts in found.items()}


def with_late(slices: Slices, length: int, watermark: int | None) -> Slices:
    """The slices with all events of those late that a watermark has sealed."""
    sealed = (
        np.zeros(len(slices), bool) if watermark is None else slices.starts + length <= watermark
    )
    return Slices(slices.starts, slices.events, np.where(sealed, slices.events, 0))


def count_late(
    panes: Mapping[str, Slices], pane_us: int, watermark: int | None, counted: int
) -> int:
    """Late events of a batch, whose panes are given by summary. Each summary counts the same events
    again: of a pane, the batch takes the summary that counted most."""
    late = [with_late(slices, pane_us, watermark) for slices in panes.values()]
    if not any(slices.late_count for slices in late):
        return 0
    starts, place = np.unique(np.concatenate([s.starts for s in late]), return_inverse=True)
    most = np.zeros(len(starts), np.int64)
    np.maximum.at(most, place, np.concatenate([s.late for s in late]))
    return min(counted, int(most.sum()))


def newer(old: int | None, new: int | None) -> int | None:
    """The maximum of two times, of which either may be missing."""
    return max((time for time in (old, new) if time is not None), default=None)


def kept_rejected(rejected: Sequence[Rejected]) -> list[Rejected]:
    """The newest that a ledger keeps, cut to their limits."""
    return [
        Rejected(
            clean_text(record.reason, REASON_CHARACTERS_MAX),
            clean_text(record.detail, DETAIL_CHARACTERS_MAX),
            clean_text(record.place, DETAIL_CHARACTERS_MAX),
            bytes(record.raw[:RAW_BYTES_MAX]),
        )
        for record in rejected[-REJECTED_KEPT_MAX:]
    ]


def check_windows(
    windows: Sequence[ClosedWindow], trends: Sequence[TrendPoint], owned: Owned, pipeline: str
) -> tuple[list[ClosedWindow], list[TrendPoint]]:
    """Windows and trend points in plain ints and bytes; impossible ones are refused."""
    closed = []
    for window in windows:
        check_summary(window.summary, owned, pipeline)
        closed.append(
            ClosedWindow(
                window.summary,
                *_check_span("window", window.start, window.end),
                check_name(window.reason, "reason for closing"),
                whole(window.revision, "revision", least=0),
                bool(window.overflowed),
                whole(window.events, "events", least=0),
                whole(window.late, "late", least=0),
                window.fill,
                whole(window.closed_at, "closed_at"),
            )
        )
    points = []
    for point in trends:
        _check_known("standing query", point.query, owned.queries, pipeline)
        points.append(
            TrendPoint(
                point.query,
                *_check_span("trend point", point.start, point.end),
                whole(point.revision, "revision", least=0),
                blob(point.result, "a trend point's result"),
            )
        )
    return closed, points


def _check_span(what: str, start: object, end: object) -> tuple[int, int]:
    span = whole(start, f"{what} start"), whole(end, f"{what} end")
    if span[0] >= span[1]:
        raise BadArgument(f"a {what} from {start} to {end} is empty")
    return span


def time_range(start: int | None, end: int | None) -> tuple[int, int]:
    """[start, end) in microseconds; None is without an end."""
    low = INT64_MIN if start is None else whole(start, "start")
    return low, INT64_MAX if end is None else whole(end, "end")
