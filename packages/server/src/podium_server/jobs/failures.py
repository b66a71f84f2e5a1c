"""Says after which failures a job is tried again."""

from podium.errors import JournalBroken, JournalError, RunDead, RunExists, RunUnknown
from podium_server.api.errors import fault_of

RETRY_SECONDS = 15.0
"""How long a job waits before it is tried again."""
_LASTING = (JournalBroken, RunDead, RunExists, RunUnknown)
"""Errors of the journal that another attempt would have, too."""


def is_temporary(error: Exception, *, is_admitted: bool) -> bool:
    """Return whether a later attempt may succeed without paying again.

    Args:
        error: the failure.
        is_admitted: whether the work had been admitted, so that it may have been paid for. What the journal
            has recorded is never paid for again, so that failures of the journal are tried again anyway.
    """
    if isinstance(error, JournalError):
        return not isinstance(error, _LASTING)
    return not is_admitted and fault_of(error).status in (429, 503)
