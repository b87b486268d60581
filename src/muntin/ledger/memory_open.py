"""Becoming a pipeline's writer in memory: epoch, names, modes. Checks all, then changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from muntin.ledger.base import Mode
from muntin.ledger.memory_tables import Pipeline, Tables
from muntin.ledger.records import PipelineInfo
from muntin.ledger.rules import (
    ROLE_QUERY,
    ROLE_SUMMARY,
    Owned,
    check_opening,
    check_owner,
    check_query,
    kind_changed,
    pane_changed,
)


@dataclass(frozen=True, slots=True)
class Opened:
    """What a writer knows from its opening."""

    pipeline: str
    epoch: int
    query_id: str
    mode: Mode
    owned: Owned


def become_writer(
    tables: Tables,
    url: str,
    pipeline: str,
    spec: Mapping[str, Any],
    query_id: str,
    mode: Mode,
) -> Opened:
    """Take the next epoch; what is wrong is raised before anything changes."""
    owned, text = check_opening(pipeline, spec, query_id, mode)
    found = tables.pipelines.get(pipeline)
    info = found.info if found else None
    fed_by = info.query_id if info and info.batches else None
    known = found is not None and query_id in found.batches
    check_query(pipeline, url, mode, query_id, fed_by, known)
    check_spec(tables, pipeline, owned, deleted=mode == "overwrite")
    if found is None:
        found = tables.pipelines[pipeline] = Pipeline(pipeline, text, owned.pane_us)
    elif mode == "overwrite":
        _delete_data(tables, found)
    if found.info is None:
        found.info = PipelineInfo(pipeline, {}, 0, None, None, None, 0, 0, 0, 0, 0, None)
    found.epoch += 1
    store_spec(tables, found, text, owned)
    return Opened(pipeline, found.epoch, query_id, mode, owned)


def check_spec(tables: Tables, pipeline: str, owned: Owned, *, deleted: bool = False) -> None:
    """Raise where a spec does not fit to what is stored; `deleted`: as if its data were gone."""
    found = tables.pipelines.get(pipeline)
    filled = bool(found and found.info and found.info.batches) and not deleted
    if found and filled and found.pane_us != owned.pane_us:
        raise pane_changed(pipeline, found.pane_us, owned.pane_us)
    for role, name, kind in _claims(owned):
        owner, old_kind = tables.names.get((role, name), (pipeline, kind))
        check_owner(role, name, owner, pipeline)
        if old_kind != kind and not deleted and _holds_data(tables, name):
            raise kind_changed(name, old_kind, kind)


def store_spec(tables: Tables, pipeline: Pipeline, text: str, owned: Owned) -> None:
    """Write a checked spec and register its names."""
    pipeline.spec, pipeline.pane_us = text, owned.pane_us
    for role, name, kind in _claims(owned):
        tables.names[role, name] = (pipeline.name, kind)


def _claims(owned: Owned) -> list[tuple[str, str, str]]:
    return [
        *((ROLE_SUMMARY, name, kind) for name, kind in owned.kinds.items()),
        *((ROLE_QUERY, name, "") for name in owned.queries),
    ]


def _holds_data(tables: Tables, summary: str) -> bool:
    return (
        any(owner == summary and shelf.starts for (owner, _), shelf in tables.shelves.items())
        or bool(tables.states.get(summary))
        or any(owner == summary for owner, _ in tables.windows)
    )


def _delete_data(tables: Tables, pipeline: Pipeline) -> None:
    mine = {key for key, (owner, _) in tables.names.items() if owner == pipeline.name}
    summaries = {name for role, name in mine if role == ROLE_SUMMARY}
    queries = {name for role, name in mine if role == ROLE_QUERY}
    for table, owners in (
        (tables.shelves, summaries),
        (tables.windows, summaries),
        (tables.trends, queries),
    ):
        for key in [key for key in table if key[0] in owners]:
            del table[key]
    tables.drop_closings(gone=True)
    for summary in summaries:
        tables.states.pop(summary, None)
        tables.rollups.pop(summary, None)
    for key in mine:
        del tables.names[key]
    for identifier in [
        i for i, (command, _, _) in tables.commands.items() if command.pipeline == pipeline.name
    ]:
        del tables.commands[identifier]
    pipeline.info = None
    pipeline.batches, pipeline.rejected, pipeline.rejected_number = {}, {}, 0
    pipeline.assembler = pipeline.status = None
