"""`/mcp`: the same questions for agents, by the Model Context Protocol. It only reads.

Each request stands by itself (no sessions, no streams that stay open), comes in through the same
auth as any other, and its statements take the same turns under the same limits.
"""

import json
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from importlib.metadata import version
from typing import Any

from mcp import types
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from muntin.errors import BadArgument
from muntin.select.syntax import quoted
from muntin.server.answering import JSON, Question
from muntin.server.http import Http
from muntin.server.limits import KIB, ServerLimits
from muntin.server.messages import STATEMENT_CHARACTERS_MAX
from muntin.server.problems import problem, status_of
from muntin.server.sending import client_of, while_there

ROWS, ROWS_MAX = 100, 1_000
ANSWER_BYTES_MAX = 256 * KIB  # a model reads no more
_LOG = logging.getLogger("muntin.server.agents")
_TEXT = {"type": "string", "maxLength": STATEMENT_CHARACTERS_MAX}
_SELECT = {**_TEXT, "description": "one SELECT, as docs/select.md has it"}
_ABOUT = (
    "Muntin keeps summaries of streams, pane by pane. Ask list_summaries first, then describe what "
    "you need, then query it. FROM items: orders, orders(key), quantiles(s, 0.5, 0.99), top_k(s), "
    "distinct(s), trend(query), windows(s). The window stands after the item: FOR ALL, "
    "FOR LAST '15 minutes', FOR '2026-01-01' TO '2026-01-02'; without one only the open window is "
    "read. FOR ALL EVERY '1 hour' gives rows for each hour, with window_start and window_end. Each "
    "answer says whether it is exact and what it covers: pass that on."
)
_LESS = {"query": f"add LIMIT; `rows` is {ROWS_MAX:,} at most", "explain_bounds": "add LIMIT"}
_OPEN_ALL: dict[str, Any] = {"additionalProperties": False, "type": "object"}
TOOLS: dict[str, tuple[str, dict[str, Any]]] = {
    "list_summaries": (
        "The summaries and standing queries that can be asked, with keys, indicators and kinds.",
        {**_OPEN_ALL, "properties": {}},
    ),
    "describe": (
        "The columns of one summary or standing query, and how it is asked.",
        {**_OPEN_ALL, "properties": {"name": _TEXT}, "required": ["name"]},
    ),
    "query": (
        "The rows of a SELECT, with exact, bounds, the windows that were read, and notes.",
        {
            **_OPEN_ALL,
            "properties": {
                "select": _SELECT,
                "rows": {"type": "integer", "minimum": 1, "maximum": ROWS_MAX, "default": ROWS},
            },
            "required": ["select"],
        },
    ),
    "explain_bounds": (
        "What the answer to a SELECT is true of, in sentences: error, confidence, coverage.",
        {**_OPEN_ALL, "properties": {"select": _SELECT}, "required": ["select"]},
    ),
}


class Agents:
    """One server's `/mcp`. `alongside` runs while the server does."""

    def __init__(self, http: Http, limits: ServerLimits) -> None:
        self._http = http
        self._manager = StreamableHTTPSessionManager(
            Server(
                "muntin",
                version=version("muntin"),
                instructions=_ABOUT,
                on_list_tools=self._tools,
                on_call_tool=self._call,
            ),
            stateless=True,
            json_response=True,
            max_request_body_size=limits.body_bytes_max,
        )
        self.alongside = self._manager.run
        self._asks: dict[str, Callable[[Request, dict[str, Any]], Awaitable[dict[str, Any]]]] = {
            "list_summaries": self._summaries,
            "describe": self._describe,
            "query": self._query,
            "explain_bounds": self._explain,
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """A request: through auth, and its body whole, before anything is made of it."""
        request = Request(scope, receive)
        response = await self._http.guarded(self._through)(request)
        await response(scope, receive, send)

    async def _through(self, request: Request, _: Any) -> Response:
        return _ReadBody(self._manager, await self._http.body(request))

    async def _tools(self, _: Any, __: Any) -> types.ListToolsResult:
        reads = types.ToolAnnotations(
            read_only_hint=True, destructive_hint=False, open_world_hint=False
        )
        return types.ListToolsResult(
            tools=[
                types.Tool(name=name, description=said, input_schema=schema, annotations=reads)
                for name, (said, schema) in TOOLS.items()
            ]
        )

    async def _call(self, context: Any, asked: types.CallToolRequestParams) -> types.CallToolResult:
        try:
            given = _checked(asked.name, asked.arguments or {})
            return _result(await self._asks[asked.name](context.request, given))
        except Exception as error:
            if status_of(error) == 500:
                _LOG.exception("the tool %s failed", asked.name)
            about = problem(error)
            if about["code"] == "too_large":  # there is no other form to ask for
                about["remedy"] = _LESS.get(asked.name, "")
            return _result({"error": about}, is_error=True)

    async def _summaries(self, request: Request, _: dict[str, Any]) -> dict[str, Any]:
        found = await self._answered(request, "summaries")
        return {"summaries": found["summaries"], "queries": found["queries"]}

    async def _describe(self, request: Request, given: dict[str, Any]) -> dict[str, Any]:
        found = await self._select(request, f"DESCRIBE {quoted(given['name'])}", ROWS_MAX)
        return {"columns": found["columns"], "rows": found["rows"]}

    async def _query(self, request: Request, given: dict[str, Any]) -> dict[str, Any]:
        return await self._select(request, given["select"], given.get("rows", ROWS))

    async def _explain(self, request: Request, given: dict[str, Any]) -> dict[str, Any]:
        found = await self._select(request, given["select"], ROWS_MAX)
        told = {name: found[name] for name in ("exact", "bounds")}
        return {"sentences": sentences_of(found), **told}

    async def _select(self, request: Request, text: str, rows: int) -> dict[str, Any]:
        return await self._answered(request, "sql", text=text, form=JSON, rows_max=rows)

    async def _answered(self, request: Request, name: str, **arguments: Any) -> dict[str, Any]:
        asked = Question(name, arguments, ANSWER_BYTES_MAX)
        client = client_of(request.client)
        asking = self._http.statements.whole(asked, client, asking=True)
        return json.loads(await while_there(request, asking))


class _ReadBody(Response):
    """The answer of MCP's own server, which is given a body that has been read."""

    def __init__(self, manager: StreamableHTTPSessionManager, body: bytes) -> None:
        super().__init__()
        self._manager = manager
        self._rest: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def again() -> Message:
            return self._rest.pop() if self._rest else await receive()

        await self._manager.handle_request(scope, again, send)


def _checked(name: str, given: dict[str, Any]) -> dict[str, Any]:
    if name not in TOOLS:
        raise BadArgument(f"there is no tool {name[:40]!r}: {', '.join(TOOLS)}")
    schema = TOOLS[name][1]
    # In JSON Schema 5.0 is an integer.
    given = {k: int(v) if type(v) is float and v.is_integer() else v for k, v in given.items()}
    for key, value in given.items():
        about = schema["properties"].get(key)
        if about is None:
            known = ", ".join(schema["properties"]) or "none"
            raise BadArgument(f"{name} has no argument {key[:40]!r}; there are: {known}")
        if about["type"] == "string":
            if not isinstance(value, str) or len(value) > about["maxLength"]:
                raise BadArgument(f"{key}: a text of at most {about['maxLength']:,} characters")
        elif type(value) is not int or not about["minimum"] <= value <= about["maximum"]:
            low, high = about["minimum"], about["maximum"]
            raise BadArgument(f"{key}: {value!r:.40} is no whole number from {low} to {high:,}")
    for key in schema.get("required", ()):
        if key not in given:
            raise BadArgument(f"{name} needs {key}")
    return given


def _result(found: dict[str, Any], *, is_error: bool = False) -> types.CallToolResult:
    text = json.dumps(found, ensure_ascii=False)
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=text)],
        structured_content=found,
        is_error=is_error,
    )


def sentences_of(about: Mapping[str, Any]) -> list[str]:
    """Of the particulars of an answer, as `POST /query` gives them. `about`: `exact`, `bounds`,
    `windows`, `watermark`, `late`, `stale`, `notes`."""
    said = [
        "The answer is exact."
        if about["exact"]
        else "The answer is not exact: where rows have lower and upper, the truth lies between "
        "them, with the probability that confidence says where there is one."
    ]
    for source, bounds in about["bounds"].items():
        said += [f"{source}: {part}" for part in _parts(bounds)]
    for window in about["windows"]:
        covered = window["covered"]
        source = f"{window['source']} ({window['asked']})"
        span = covered and f"{source} was read from {covered['start']} to {covered['end']}."
        said.append(span or f"Nothing was read of {source}.")
    if about["watermark"]:
        said.append(
            f"Events up to {about['watermark']} were counted when they came; later ones may come."
        )
    left_out = sum(bounds.get("left_out_late", 0) for bounds in about["bounds"].values())
    if (counted := (about["late"] or 0) - left_out) > 0:
        said.append(f"{counted:,} late events are counted in it.")
    if about["stale"]:
        said.append("It is stale: the pipeline has not been heard of for longer than it should.")
    return [*said, *(note["message"] for note in about["notes"])]


_SENTENCES = {
    "rank_error": "a rank is off by at most {v:g} of all values{sure}.",
    "tail_error": "a rank is off by at most {v:g} of the values above it{sure}, if that is less.",
    "exact_top": "the {v:,} largest values hold their places exactly.",
    "relative": "at worst the relative error is {v:g}{sure}.",
    "standard_error": "its standard error is {v:g} of the value; lower and upper say more.",
    "error": "an item's weight is off by at most {v:,}{sure}.",
    "false_positive_rate": "of items that never came, {v:g} are said to have come.",
    "keys": "{v:,} keys have answers of their own.",
    "k": "at most the {v:,} highest are named.",
    "uncounted": "events that came before a part was declared are not in it: {lack}.",
}
_IF_ANY = {
    "nulls": "{v:,} events had no value.",
    "unranked": "{v:,} events had no number to rank.",
    "other": "{v:,} events are of keys beyond the limit.",
    "left_out_late": "{v:,} late events were left out.",
    "unnamed": "items too long for their space were left out {v:,} times.",
    "confidence": "",
}
"""What there is none of needs no sentence; how sure an error is stands in that of the error."""


def _parts(bounds: Mapping[str, Any]) -> Iterator[str]:
    confidence = bounds.get("confidence")
    sure = "" if confidence is None else f" with probability {confidence:g}"
    for name, value in bounds.items():
        if isinstance(value, Mapping) and name != "uncounted":  # of what a trend's query reads
            yield from (f"{name}: {part}" for part in _parts(value))
            continue
        said = _SENTENCES.get(name, f"{name} is {{v}}.")
        if name in _IF_ANY:
            said = _IF_ANY[name] if value else ""
        missing = value.items() if name == "uncounted" else ()
        lack = ", ".join(f"{part} lacks {count:,}" for part, count in missing)
        if said:
            yield said.format(v=value, sure=sure, lack=lack)
