"""uvicorn's private parts that the server builds on: a version that moved them says so here.

pyproject.toml names the versions that were tried; the bound is raised together with this file.
"""

from __future__ import annotations

import asyncio
import inspect
import tomllib
from importlib.metadata import version
from pathlib import Path

import h11
import pytest
import uvicorn
from packaging.requirements import Requirement
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import ServerState

from muntin.server.limits import ServerLimits
from muntin.server.sockets import GuardedHttp, UvicornSocket, protocols

WEBSOCKET = """close_sent close_timer conn curr_msg_data_type disconnected frames
    handshake_complete initial_response keepalive_timeout loop queue read_paused run_asgi app
    send_receive_event_to_app shutdown stop_keepalive transport writable handle_events
    handle_parser_exception data_received connection_lost connection_made resume_writing"""
HTTP = """app conn connections handle_events logger loop scope send_400_response transport
    ws_protocol_class data_received connection_made connection_lost cycle
    _unsupported_upgrade_warning"""
CONNECTION = "data_to_send events events_received max_message_size receive_data send_close"
NOT_OVERRIDDEN = {"__init__", "__module__", "__doc__", "__annotations__", "__qualname__"}


def made(kind):
    async def make():
        config = uvicorn.Config(lambda *_: None, log_config=None)
        config.load()
        return kind(config, ServerState(), {}, asyncio.get_running_loop())

    return asyncio.run(make())


@pytest.mark.parametrize(("kind", "names"), [(1, WEBSOCKET), (0, HTTP)], ids=["websocket", "http"])
def test_what_is_built_on_is_there(kind, names):
    part = made(protocols(ServerLimits())[kind])
    gone = [name for name in names.split() if not hasattr(part, name)]
    assert not gone, f"uvicorn {version('uvicorn')} has moved {gone}: see server/sockets.py"
    if kind == 1:
        gone = [name for name in CONNECTION.split() if not hasattr(part.conn, name)]
        assert not gone, f"websockets {version('websockets')} has moved {gone}: see sockets.py"


@pytest.mark.parametrize(("ours", "theirs"), [
    (UvicornSocket, WebSocketsSansIOProtocol), (GuardedHttp, H11Protocol),
], ids=["websocket", "http"])  # fmt: skip
def test_what_is_overridden_is_still_called_so(ours, theirs):
    """A method that uvicorn calls by another name would be ours alone, and never run."""
    overridden = [
        name for name in vars(ours) if hasattr(theirs, name) and callable(getattr(ours, name))
    ]
    for name in set(overridden) - NOT_OVERRIDDEN:
        there = inspect.signature(getattr(theirs, name)).parameters
        here = inspect.signature(getattr(ours, name)).parameters
        assert len(there) == len(here), f"uvicorn {version('uvicorn')}: {name}{tuple(there)}"
    expected = {
        UvicornSocket: {"data_received", "handle_events", "run_asgi", "connection_lost",
                        "connection_made", "resume_writing", "send_receive_event_to_app",
                        "keepalive_timeout", "shutdown"},
        GuardedHttp: {"data_received", "handle_events", "connection_made", "connection_lost",
                      "send_400_response", "_unsupported_upgrade_warning"},
    }[ours]  # fmt: skip
    assert expected <= set(overridden), f"uvicorn {version('uvicorn')} has no {expected}"


def test_the_parser_of_requests_is_h11s():
    part = made(protocols(ServerLimits())[0])
    assert isinstance(part.conn, h11.Connection)
    assert part.conn.their_state is h11.IDLE
    assert part.conn.trailing_data == (b"", False)


def test_the_versions_that_are_allowed_are_those_that_were_tried():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    wanted = {Requirement(line).name: Requirement(line) for line in project["dependencies"]}
    allowed = wanted["uvicorn"].specifier
    assert version("uvicorn") in allowed
    assert "0.52.0" not in allowed  # has no `disconnected`: the first connection fails
    assert all(bound.operator in (">=", "<") for bound in allowed)
    assert len(allowed) == 2
