"""The exception behind the error of a team, which its runtime passes on as text with a traceback."""

import re
from typing import Final

_TRACEBACK: Final = "\nTraceback:\n"
_NAMED: Final = re.compile(r"(?:RuntimeError: )*(\w+): (.*)", re.DOTALL)
_STATUS: Final = re.compile(r"Error code: (\d{3})\b")
"""How the clients of OpenAI's and Anthropic's begin the message of a server's error."""


def error_in_team(error: Exception, known: Exception | None) -> Exception:
    """Return the exception that a member of a team raised; the error itself where it is no such error.

    Args:
        error: what the team raised.
        known: the latest exception of a model client in the team. It is returned if the error
            names it; else an exception with the class name, the message and the HTTP status
            that the text states.
    """
    text, separator, _ = str(error).partition(_TRACEBACK)
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
