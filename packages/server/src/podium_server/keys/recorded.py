"""The result of a run that a journal has recorded, for a request that ended without one."""

import anyio

from podium.errors import JournalError, RunHeld, RunUnknown
from podium.journal import Journal
from podium.resume import result_of
from podium.types import Result

_WAIT_SECONDS = 10.0
"""How long to wait until the process of the run releases it."""
_LOOK_SECONDS = 0.2


async def recorded_result(journal: Journal, run_id: str) -> Result | None:
    """Return the recorded result of a run so far, after it has stopped; `None` if it never began.

    A call without a recorded end has the cost of its reservation. The run is claimed for a moment, so that a
    process that was only suspended cannot continue it.

    Raises:
        JournalError: the journal cannot be read, or a process still executes the run.
    """
    with anyio.move_on_after(_WAIT_SECONDS):
        while True:
            try:
                log = await journal.claim(run_id)
            except RunUnknown:
                return None
            except RunHeld:
                await anyio.sleep(_LOOK_SECONDS)
                continue
            events = [entry.event for entry in log.entries]
            await log.aclose()
            return result_of(events) if events else None
    raise JournalError(f"run {run_id} is still executed")
