"""Restore the exception that caused a team's error; AutoGen's runtime has only the text of its traceback."""

import re
from typing import Final

_TRACEBACK: Final = "\nTraceback:\n"
_NAMED: Final = re.compile(r"(?:RuntimeError: )*(\w+): (.*)", re.DOTALL)
_STATUS: Final = re.compile(r"Error code: (\d{3})\b")
"""The beginning of server errors in the clients of OpenAI and Anthropic."""
_OTHER_LOOP: Final = "is bound to a different event loop"
_ONE_LOOP: Final = (
    "a team of AutoGen runs in the event loop of its first run only: use one event loop, or run_sync, "
    "or make a new team for each event loop"
)


def error_in_team(error: Exception, known: Exception | None) -> Exception:
    """Return the exception that a member of a team raised; other errors are returned unchanged.

    Args:
        error: the exception that the team raised.
        known: the latest exception of a model client in the team. This exception is returned if the error
            text has its message. Otherwise a new exception is returned, with the class name, the message and
            the HTTP status in the text.
    """
    text, separator, _ = str(error).partition(_TRACEBACK)
    if not separator and text.endswith(_OTHER_LOOP):
        return RuntimeError(_ONE_LOOP)
    if not separator:
        return error
    if known is not None and f"{type(known).__name__}: {known}" in str(error):
        return known
    named = _NAMED.fullmatch(text)
    if named is None:
        return RuntimeError(text)
    name, message = named.groups()
    made: Exception = type(name, (RuntimeError,), {})(message)
    if status := _STATUS.match(message):
        made.__dict__["status_code"] = int(status[1])
    return made
