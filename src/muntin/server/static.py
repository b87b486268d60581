"""The dashboard's files, as they lie in the package, and nothing else."""

from __future__ import annotations

from pathlib import Path

from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

FOLDER = Path(__file__).parent / "dashboard"


def static_routes() -> list[Route | Mount]:
    """The page at /, its files below /static, and which panels there are."""
    return [
        Route("/", _page),
        Route("/panels", _panels),
        Mount("/static", StaticFiles(directory=FOLDER, follow_symlink=False)),
    ]


async def _page(_: Request) -> Response:
    return FileResponse(FOLDER / "index.html")


async def _panels(_: Request) -> Response:
    """A kind of summary gets its panel by a file in panels/."""
    return JSONResponse(sorted(path.name for path in (FOLDER / "panels").glob("*.js")))
