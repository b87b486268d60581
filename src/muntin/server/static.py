"""The dashboard's files, as they lie in the package, and nothing else."""

from __future__ import annotations

from pathlib import Path

from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

FOLDER = Path(__file__).parent / "dashboard"


def static_routes() -> list[BaseRoute]:
    """The page at /, its files below /static, and which panels there are."""
    return [*page_routes(FOLDER, "/static"), Route("/panels", _panels)]


def page_routes(folder: Path, below: str) -> list[BaseRoute]:
    """A folder's index.html at /, its files below a path."""

    async def page(_: Request) -> Response:
        return FileResponse(folder / "index.html")

    return [
        Route("/", page),
        Mount(below, StaticFiles(directory=folder, follow_symlink=False)),
    ]


async def _panels(_: Request) -> Response:
    """A kind of summary gets its panel by a file in panels/."""
    return JSONResponse(sorted(path.name for path in (FOLDER / "panels").glob("*.js")))
