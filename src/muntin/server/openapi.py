"""GET /openapi.json: what the server's HTTP routes take and give (OpenAPI 3.1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

ARROW = "application/vnd.apache.arrow.stream"


def document(more: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The whole document; `more` are the paths that a server has beside those of every server."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Muntin",
            "version": "1",
            "description": "Answers over windows of a stream. Pushed answers: WebSocket /live.",
        },
        "paths": {**_paths(), **(more or {})},
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": _schemas(),
        },
        "security": [{}, {"token": []}],
    }


def _paths() -> dict[str, Any]:
    return {
        "/query": {
            "post": route(
                "Answer a SELECT",
                {
                    "200": {
                        "description": "Rows, and what they are true of",
                        "content": {
                            "application/json": {"schema": _ref("Result")},
                            ARROW: {"schema": {"type": "string", "format": "binary"}},
                        },
                    }
                },
                body={
                    "application/json": {"schema": _ref("Query")},
                    "text/plain": {"schema": {"type": "string", "maxLength": 4096}},
                },
            )
        },
        "/commands": {
            "post": route(
                "Ask the pipeline to slow down or resume",
                json_of("What was done, by summary", {"answer": {"type": "object"}}),
                body={"application/json": {"schema": _ref("Command")}},
            )
        },
        "/ticket": {
            "post": route(
                "A single-use ticket for /live",
                json_of(
                    "The ticket",
                    {"ticket": {"type": "string"}, "seconds": {"type": "number"}},
                ),
            )
        },
        "/windows": {
            "get": route(
                "Closed windows",
                json_of("In their newest revision", {"windows": _list("Window")}),
                [
                    _parameter("summary", {"type": "string", "maxLength": 64}),
                    _parameter("start", _TIME, "Only windows that start at or after it"),
                    _parameter("end", _TIME, "Only windows that start before it"),
                    _parameter("limit", {"type": "integer", "minimum": 1, "maximum": 10_000}),
                    _parameter("newest_first", {"type": "boolean"}),
                ],
            )
        },
        "/summaries": {
            "get": route(
                "What can be asked",
                json_of(
                    "Summaries and standing queries",
                    {
                        "summaries": _list("Summary"),
                        "queries": _list("StandingQuery"),
                        "specs": {"type": "object", "additionalProperties": {"type": "integer"}},
                    },
                ),
            )
        },
        "/history": {
            "get": route(
                "Events by event time",
                json_of(
                    "[start, events] of each point, times in microseconds since 1970 UTC",
                    {"width_us": {"type": "integer"}, "points": {"type": "array"}},
                ),
                [
                    _parameter("pipeline", {"type": "string", "maxLength": 64}, required=True),
                    _parameter("start", _TIME),
                    _parameter("end", _TIME),
                ],
            )
        },
        "/catalogue": {
            "get": route(
                "What the ledger holds of each summary",
                json_of("By pipeline", {"held": {"type": "array"}}),
            )
        },
        "/rejected": {
            "get": route(
                "Records that were not counted, and why",
                json_of("By running number", {"rejected": _list("Rejected")}),
                [
                    _parameter("pipeline", {"type": "string", "maxLength": 64}, required=True),
                    _parameter("after", {"type": "integer", "minimum": 0, "maximum": 2**62}),
                    _parameter("limit", {"type": "integer", "minimum": 1, "maximum": 1_000}),
                ],
            )
        },
        "/state": {
            "get": route(
                "What the pipelines do now",
                json_of(
                    "Times in microseconds since 1970 UTC",
                    {"now": {"type": "integer"}, "pipelines": {"type": "array"}},
                ),
            )
        },
        "/healthz": {
            "get": {
                "summary": "Whether the ledger can be read, and whether its pipelines work",
                "security": [{}],
                "responses": {
                    **json_of(
                        "It can; degraded: a pipeline is failed or stale",
                        {
                            "status": {"enum": ["ok", "degraded"]},
                            "pipelines": {
                                "description": "How many are in each state",
                                "type": "object",
                                "additionalProperties": {"type": "integer"},
                            },
                        },
                    ),
                    "503": {"description": "It cannot"},
                },
            }
        },
        "/readyz": {
            "get": {
                "summary": "Whether the ledger can be read, as it is now",
                "security": [{}],
                "responses": {
                    **json_of("It can", {"ready": {"type": "boolean"}}),
                    "503": {"description": "It cannot, or its store is away"},
                },
            }
        },
        "/events": {
            "get": route(
                "Follow one topic as Server-Sent Events, where a WebSocket cannot be had",
                {
                    "200": {
                        "description": "Messages of /live as `data`, places as `id`; does not end",
                        "content": {"text/event-stream": {"schema": {"type": "string"}}},
                    }
                },
                [
                    _parameter("select", {"type": "string", "maxLength": 4096}),
                    _parameter("query", {"type": "string", "maxLength": 64}),
                    _parameter("windows", {"type": "string"}, '"true" or the name of a summary'),
                    _parameter("state", {"const": "true"}),
                    _parameter("on", {"enum": ["window", "update"]}),
                    _parameter("after", {"type": "string"}, "Place of the last closed window"),
                ],
            )
        },
        "/metrics": {
            "get": route(
                "For Prometheus",
                {
                    "200": {
                        "description": "Text exposition format",
                        "content": {"text/plain": {"schema": {"type": "string"}}},
                    }
                },
            )
        },
    }


_TIME = {"type": "string", "examples": ["2026-01-31T10:00:00Z"]}


def _schemas() -> dict[str, Any]:
    text, integer, flag = {"type": "string"}, {"type": "integer"}, {"type": "boolean"}
    texts = {"type": "array", "items": text}
    return {
        "Query": object_of({"select": text | {"maxLength": 4096}}, closed=True),
        "Command": {
            "type": "object",
            "required": ["action"],
            "additionalProperties": False,
            "properties": {
                "action": {"enum": ["slow_down", "resume"]},
                "pipeline": text | {"maxLength": 64},
                "summary": text | {"maxLength": 64},
            },
        },
        "Result": object_of(
            {
                "columns": texts,
                "types": texts,
                "rows": {"type": "array", "items": {"type": "array"}},
                "window": {"type": ["object", "null"]},
                "windows": {"type": "array", "items": {"type": "object"}},
                "watermark": {"type": ["string", "null"]},
                "revision": integer,
                "exact": flag,
                "bounds": {"type": "object"},
                "notes": {
                    "type": "array",
                    "items": object_of({"code": text, "source": text, "message": text}),
                },
                "late": integer,
                "stale": flag,
            }
        ),
        "Window": object_of(
            {
                "summary": text,
                "start": text,
                "end": text,
                "reason": text,
                "revision": integer,
                "overflowed": flag,
                "events": integer,
                "late": integer,
                "fill": {"type": "object", "additionalProperties": integer},
                "closed_at": text,
            }
        ),
        "Summary": object_of(
            {
                "name": text,
                "kind": text,
                "pipeline": text,
                "keys": {"type": "array", "items": texts},
                "indicators": texts,
                "by": texts,
                "parts": texts,
                "sketched": flag,
                "windows": {"type": ["string", "null"]},
            }
        ),
        "StandingQuery": object_of(
            {
                "name": text,
                "select": text,
                "on": {"enum": ["window", "update"]},
                "pipeline": {"type": ["string", "null"]},
            }
        ),
        "Rejected": object_of(
            {"number": integer, "reason": text, "detail": text, "place": text, "raw": text}
        ),
        "Error": object_of(
            {
                "error": object_of(
                    {
                        "code": text,
                        "message": text,
                        "position": integer,
                        "length": integer,
                        "remedy": text,
                    }
                )
            }
        ),
    }


def route(
    summary: str,
    responses: dict[str, Any],
    parameters: list[dict[str, Any]] | None = None,
    body: dict[str, Any] | None = None,
) -> dict[str, Any]:
    refused = {
        "description": "Code, place and remedy",
        "content": {"application/json": {"schema": _ref("Error")}},
    }
    route: dict[str, Any] = {"summary": summary, "responses": responses | {"default": refused}}
    if parameters:
        route["parameters"] = parameters
    if body:
        route["requestBody"] = {"required": True, "content": body}
    return route


def json_of(description: str, properties: dict[str, Any]) -> dict[str, Any]:
    content = {"application/json": {"schema": object_of(properties)}}
    return {"200": {"description": description, "content": content}}


def object_of(properties: dict[str, Any], *, closed: bool = False) -> dict[str, Any]:
    made: dict[str, Any] = {
        "type": "object",
        "required": list(properties),
        "properties": properties,
    }
    return made | ({"additionalProperties": False} if closed else {})


def _list(name: str) -> dict[str, Any]:
    return {"type": "array", "items": _ref(name)}


def _ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


def _parameter(
    name: str, schema: dict[str, Any], description: str = "", *, required: bool = False
) -> dict[str, Any]:
    made: dict[str, Any] = {"name": name, "in": "query", "required": required, "schema": schema}
    return made | ({"description": description} if description else {})
