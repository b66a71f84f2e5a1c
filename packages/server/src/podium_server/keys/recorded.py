"""What a journal has recorded of a run, for a request that ended without a result."""

from dataclasses import dataclass

import anyio

from podium.budget import Limits
from podium.errors import JournalError, RunHeld, RunUnknown
from podium.journal import Journal
from podium.run_state import fold
from podium.types import Action, Result

_LOOK_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """A recorded run so far."""

    result: Result
    """A call without a recorded end has the cost of its reservation."""
    limits: Limits | None


async def recorded_run(journal: Journal, run_id: str, seconds: float = 0.0) -> RecordedRun | None:
    """Return a run that has stopped; `None` if it never began.

    The run is claimed for a moment, so that a process that was only suspended cannot continue it.

    Args:
        journal: the journal.
        run_id: the run.
        seconds: how long to wait while a process executes the run.

    Raises:
        RunHeld: a process still executes the run, so that the costs of its calls are not known yet.
        JournalError: the journal cannot be read.
    """
    end = anyio.current_time() + seconds
    while True:
        try:
            log = await journal.claim(run_id, force=True)
        except RunUnknown:
            return None
        except RunHeld:
            if anyio.current_time() >= end:
                raise
            await anyio.sleep(_LOOK_SECONDS)
        else:
            break
    events = [entry.event for entry in log.entries]
    await log.aclose()
    if not events:
        return None
    return RecordedRun(fold(events, await journal.nested(run_id)).result(), fold(events).limits)


async def recorded_actions(journal: Journal | None, run_id: str) -> tuple[Action, ...] | None:
    """Return the actions of a run that has stopped; `None` if they are not known.

    Args:
        journal: the journal; `None` if it has no record of the run.
        run_id: the run.
    """
    if journal is None:
        return None
    try:
        events = [entry.event for entry in await journal.read(run_id)]
        return fold(events, await journal.nested(run_id)).result().actions
    except RunUnknown:  # it never began
        return ()
    except JournalError:
        return None
