"""The coordinator's page: files of the package, beside those of the server's own page."""

from __future__ import annotations

from pathlib import Path

from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

FOLDER = Path(__file__).parent / "dashboard"


def page_routes() -> list[BaseRoute]:
    """The page at /, its files below /race. What it shares with the other lies below /static."""
    return [
        Route("/", _page),
        Mount("/race", StaticFiles(directory=FOLDER, follow_symlink=False)),
    ]


async def _page(_: Request) -> Response:
    return FileResponse(FOLDER / "index.html")
