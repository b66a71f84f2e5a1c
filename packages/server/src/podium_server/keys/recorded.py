"""What a journal has recorded of a run, for a request that ended without a result."""

from dataclasses import dataclass

import anyio

from podium.budget import Limits
from podium.errors import RunHeld, RunUnknown
from podium.journal import Journal
from podium.resume import limits_of, result_of
from podium.types import Result

_WAIT_SECONDS = 10.0
"""How long to wait until the process of the run releases it."""
_LOOK_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """A recorded run so far."""

    result: Result
    """A call without a recorded end has the cost of its reservation."""
    limits: Limits | None


async def recorded_run(journal: Journal, run_id: str) -> RecordedRun | None:
    """Return a run so far, if possible after it has stopped; `None` if it never began.

    The run is claimed for a moment, so that a process that was only suspended cannot continue it. If another
    process executes it for longer than some seconds, the request of that process is charged the rest.

    Raises:
        JournalError: the journal cannot be read.
    """
    with anyio.move_on_after(_WAIT_SECONDS):
        while True:
            try:
                log = await journal.claim(run_id, force=True)
            except RunUnknown:
                return None
            except RunHeld:
                await anyio.sleep(_LOOK_SECONDS)
                continue
            await log.aclose()
            break
    try:
        events = [entry.event for entry in await journal.read(run_id)]
    except RunUnknown:
        return None
    if not events:
        return None
    return RecordedRun(result_of(events, await journal.nested(run_id)), limits_of(events))
