"""Errors and notices as PostgreSQL's clients read them."""

from collections.abc import Sequence

from muntin.errors import SelectError
from muntin.server.problems import problem

ERROR, FATAL = "ERROR", "FATAL"
_STATES = {
    "syntax": "42601",
    "unterminated": "42601",
    "character": "42601",
    "statement": "0A000",
    "unknown_name": "42P01",
    "from_item": "42P01",
    "unknown_column": "42703",
    "unknown_function": "42883",
    "ambiguous": "42702",
    "not_allowed": "0A000",
    "type": "42804",
    "group_by": "42803",
    "sums": "42803",
    "value": "22023",
    "overflow": "22003",
    "refused": "22023",
    "window": "22023",
    "no_window": "02000",
    "dropped": "02000",
    "timeout": "57014",
    "limit": "54000",
    "too_large": "54000",
    "busy": "53300",
    "ledger": "58030",
    "load": "58030",
    "standing": "38000",
}


class Refusal(Exception):  # noqa: N818 (it is sent to the client)
    """An error with PostgreSQL's own code."""

    def __init__(self, state: str, message: str, remedy: str = "", *, fatal: bool = False) -> None:
        super().__init__(message)
        self.state = state
        self.message = message
        self.remedy = remedy
        self.fatal = fatal


def error_fields(error: BaseException) -> dict[str, str]:
    """The fields of an ErrorResponse: code, message, hint and place."""
    if isinstance(error, Refusal):
        return _fields(ERROR, error.state, error.message, hint=error.remedy)
    about = problem(error)
    state = _STATES.get(about["code"], "XX000")
    fields = _fields(ERROR, state, about["message"], hint=about["remedy"])
    if isinstance(error, SelectError) and error.length:
        fields["P"] = str(error.position + 1)
    return fields


def notice_fields(said: Sequence[str]) -> dict[str, str]:
    """Of a notice: the first sentence, the others as its detail."""
    return _fields("NOTICE", "00000", said[0], detail="\n".join(said[1:]))


def _fields(
    severity: str, state: str, message: str, detail: str = "", hint: str = ""
) -> dict[str, str]:
    fields = {"S": severity, "V": severity, "C": state, "M": message, "D": detail, "H": hint}
    return {name: value.replace("\0", "") for name, value in fields.items() if value}
