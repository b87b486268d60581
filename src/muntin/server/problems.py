"""Errors as clients see them: a code, a place in the text, a remedy."""

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


def stops() -> RefusalError:
    """What whoever waits gets when the server ends."""
    return RefusalError(503, "busy", "the server stops", "ask again later")


def needs_token(*, sent: bool = False) -> RefusalError:
    """What whoever shows no token gets, or has `sent` another one."""
    said = "the token that was sent is not one of the server's" if sent else "a token is needed"
    return RefusalError(401, "token", said, "send Authorization: Bearer …")


def plain(code: str, message: str, remedy: str = "") -> dict[str, Any]:
    """An error that has no place in a statement."""
    return {"code": code, "message": message, "position": 0, "length": 0, "remedy": remedy}


def problem(error: BaseException) -> dict[str, Any]:
    """The same object everywhere: HTTP bodies, WebSocket errors, SSE."""
    if isinstance(error, SelectError):
        place = {"position": error.position, "length": error.length}
        return plain(error.code, error.message, error.remedy) | place
    if isinstance(error, RefusalError):
        return plain(error.code, error.message, error.remedy)
    if isinstance(error, LedgerError):
        return plain("ledger", str(error))
    if isinstance(error, MuntinError):
        return plain("refused", str(error))
    return plain("internal", "the server failed on this; its log says more")


def status_of(error: BaseException) -> int:
    """The HTTP status that goes with it."""
    if isinstance(error, RefusalError):
        return error.status
    if isinstance(error, LedgerError):
        return 503
    return 400 if isinstance(error, MuntinError) else 500
