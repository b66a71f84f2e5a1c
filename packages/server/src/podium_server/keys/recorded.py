"""What a journal has recorded of a run, for a request that ended without a result."""

from dataclasses import dataclass
from statistics import fmean

import anyio

from podium.budget import Limits
from podium.errors import JournalError, RunHeld, RunUnknown
from podium.journal import Journal
from podium.run_state import fold
from podium.run_state.round_state import UNKNOWN
from podium.types import Action, Result
from podium.types.outcome import Call, Outcome, Proposal

_LOOK_SECONDS = 0.2
_LATEST, _READ = 200, 16
"""Among how many of the latest runs those are that tell what a call of a worker costs, and their number."""


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """A recorded run so far."""

    result: Result
    """A call without a recorded end has its reservation as its cost."""
    limits: Limits | None
    excess: float
    """See `excess_of`."""


async def recorded_run(journal: Journal, run_id: str, seconds: float = 0.0) -> RecordedRun | None:
    """Return a run that has stopped; `None` if it never began.

    The run is claimed for a moment, so that a process that was only suspended cannot continue it. If another
    process executes it for longer than `seconds`, it is `RunHeld`, because its costs are not known yet.
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
    result = fold(events, await journal.nested(run_id)).result()
    return RecordedRun(result, fold(events).limits, await excess_of(journal, result))


async def excess_of(journal: Journal, result: Result) -> float:
    """Return by how many USD a result costs more than its calls without an end usually do.

    The cost of a result has the reservation of a call whose process was killed: the longest answer that it
    allowed. Here such a call costs as much as its worker's answers in the latest runs of the journal do on
    average; if there are none, its reservation.
    """
    lost = [each for each in result.bills if each.problem == UNKNOWN and each.cost]
    if not lost:
        return 0.0
    known: dict[str, list[float]] = {}
    ended = [row.run_id for row in await journal.runs(limit=_LATEST) if row.state == "ok"]
    for run_id in ended[:_READ]:
        events = [entry.event for entry in await journal.read(run_id)]
        for bill in fold(events).result().bills:
            if bill.problem is None and bill.cost is not None:
                known.setdefault(_name(bill), []).append(bill.cost)
    usual = {name: fmean(costs) for name, costs in known.items()}
    return sum(max(cost - usual.get(_name(each), cost), 0.0) for each in lost if (cost := each.cost))


def _name(bill: Proposal | Call | Outcome) -> str:
    return f"planner {bill.planner}" if isinstance(bill, Proposal) else bill.worker


async def recorded_actions(journal: Journal | None, run_id: str) -> tuple[Action, ...] | None:
    """Return the actions of a run that has stopped; `None` if they are not known."""
    if journal is None:
        return None
    try:
        events = [entry.event for entry in await journal.read(run_id)]
        return fold(events, await journal.nested(run_id)).result().actions
    except RunUnknown:  # it never began
        return ()
    except JournalError:
        return None
