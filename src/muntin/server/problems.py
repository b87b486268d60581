"""Errors as clients see them: a code, a place in the text, a remedy."""

from __future__ import annotations

from typing import Any

from muntin.errors import LedgerError, MuntinError, SelectError


class RefusalError(MuntinError):
    """The server says no."""

    def __init__(self, status: int, code: str, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.remedy = remedy


def problem(error: BaseException) -> dict[str, Any]:
    """The same object everywhere: HTTP bodies, WebSocket errors, SSE."""
    if isinstance(error, SelectError):
        return {
            "code": error.code,
            "message": error.message,
            "position": error.position,
            "length": error.length,
            "remedy": error.remedy,
        }
    if isinstance(error, RefusalError):
        return _plain(error.code, error.message, error.remedy)
    if isinstance(error, LedgerError):
        return _plain("ledger", str(error), "")
    if isinstance(error, MuntinError):
        return _plain("refused", str(error), "")
    return _plain("internal", "the server failed on this; its log says more", "")


def status_of(error: BaseException) -> int:
    """The HTTP status that goes with it."""
    if isinstance(error, RefusalError):
        return error.status
    if isinstance(error, LedgerError):
        return 503
    return 400 if isinstance(error, MuntinError) else 500


def _plain(code: str, message: str, remedy: str) -> dict[str, Any]:
    return {"code": code, "message": message, "position": 0, "length": 0, "remedy": remedy}
