"""What a coordinator adds to GET /openapi.json: /top_k and /sites, in the words of OpenAPI."""

from __future__ import annotations

from typing import Any

from muntin.server.openapi import json_of, object_of, route

_TEXT, _FLAG, _OBJECT = {"type": "string"}, {"type": "boolean"}, {"type": "object"}
_COUNT = {"type": "integer", "minimum": 0}
_WHOLE_OR_NOT = {"type": ["integer", "null"]}
_NUMBER_OR_NOT = {"type": ["number", "null"]}
_TEXT_OR_NOT = {"type": ["string", "null"]}
_TEXTS = {"type": "array", "items": _TEXT}
_COSTS = object_of({"messages": _COUNT, "entries": _COUNT, "bytes": _COUNT})
_DIRECTIONS = ("up", "down", "reports", "naive")

_ANSWER: dict[str, Any] = {
    "k": _COUNT,
    "epsilon": {"type": "number"},
    "valid": _FLAG,
    "as_of": _TEXT_OR_NOT,
    "unit": _WHOLE_OR_NOT,
    "window": {"anyOf": [object_of({"start": _TEXT, "end": _TEXT}), {"type": "null"}]},
    "missing_sites": _TEXTS,
    "bound": _NUMBER_OR_NOT,
    "stale": _FLAG,
    "items": {
        "type": "array",
        "items": object_of({"item": {"type": ["string", "integer"]}, "value": _NUMBER_OR_NOT}),
    },
}

_SITE: dict[str, Any] = {
    "name": _TEXT,
    "connected": _FLAG,
    "connected_since": _TEXT_OR_NOT,
    "missing": _FLAG,
    "phase": {"enum": ["missing", "joining", "calm", "alerted", "watching"]},
    "unit": _WHOLE_OR_NOT,
    "slack": _WHOLE_OR_NOT,
    "objects": _WHOLE_OR_NOT,
    **dict.fromkeys(_DIRECTIONS, _COSTS),
}

_STATE: dict[str, Any] = {
    "name": _TEXT,
    "run": _TEXT,
    "started": _TEXT,
    "ranking": _OBJECT,
    "phase": {"enum": ["idle", "survey", "calm", "polling", "watching"]},
    "epoch": _COUNT,
    "surveys": _COUNT,
    "resolutions": object_of({"partial": _COUNT, "full": _COUNT}),
    "changes": _COUNT,
    "hybrid": {"type": ["object", "null"]},
    "answer": object_of(_ANSWER),
    "sites": {"type": "array", "items": object_of(_SITE)},
    "traffic": object_of(dict.fromkeys((*_DIRECTIONS, "sent"), _COSTS)),
    "pace": {"type": "array", "items": _OBJECT},
    "history": {
        "type": "array",
        "items": object_of(
            {
                "at": _TEXT,
                "unit": _WHOLE_OR_NOT,
                "entered": {"type": "array"},
                "left": {"type": "array"},
            }
        ),
    },
    "refused": {"type": "object", "additionalProperties": _COUNT},
}

PATHS: dict[str, Any] = {
    "/top_k": {"get": route("The top k over all sites", json_of("And how far it holds", _ANSWER))},
    "/sites": {"get": route("What the coordinator's page shows", json_of("The state", _STATE))},
}
