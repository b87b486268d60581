"""Errors and notices as PostgreSQL's clients read them."""

from collections.abc import Sequence

from muntin.errors import SelectError
from muntin.server.problems import problem

ERROR, FATAL = "ERROR", "FATAL"
_STATES = {
    code: state
    for state, codes in (
        ("42601", "syntax unterminated character"), ("0A000", "statement not_allowed"),
        ("42P01", "unknown_name from_item"), ("42703", "unknown_column"),
        ("42883", "unknown_function"), ("42702", "ambiguous"), ("42804", "type"),
        ("42803", "group_by sums"), ("22023", "value refused window"), ("22003", "overflow"),
        ("02000", "no_window dropped"), ("57014", "timeout"), ("54000", "limit too_large"),
        ("53300", "busy"), ("58030", "ledger load"), ("38000", "standing"),
    )
    for code in codes.split()
}  # fmt: skip


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
