"""The times of a run that was resumed are those for which it was carried out, on one clock."""

from collections.abc import AsyncGenerator

import anyio
import pytest
from core.actors import Actor
from core.run_state.test_resume import recorded
from core.virtual_clock import anyio_backend  # noqa: F401 - a fixture

from podium import Conductor, Plan, ScriptedWorker, Step
from podium.errors import WorkerRefused
from podium.journal import MemoryJournal
from podium.planners import FixedPlanner
from podium.policy import Policy
from podium.run_state.state import fold
from podium.types import Completion, RunEnded
from podium.workers import Request

pytestmark = pytest.mark.anyio
PLAN = Plan((Step(0, "one"), Step(1, "two", (0,))))


def _second() -> Actor:
    """Return a worker that refuses after 1 second, and answers its second call after 3."""
    calls: list[Request] = []

    async def act(request: Request) -> AsyncGenerator[str | Completion, None]:
        calls.append(request)
        if len(calls) == 1:
            await anyio.sleep(1.0)
            raise WorkerRefused("not now")
        await anyio.sleep(3.0)
        yield Completion("done", uses_tokens=False)

    return Actor("second", act)


async def test_a_resumed_run_goes_on_in_time_where_it_ended() -> None:
    journal = MemoryJournal()
    workers = [ScriptedWorker("first", "said", latency=2.0), _second()]
    conductor = Conductor(FixedPlanner(""), workers, journal=journal)
    result = await conductor.run(PLAN, run_id="r")
    assert (result.status, result.seconds) == ("failed", 3.0)
    await anyio.sleep(1_000.0)
    result = await conductor.resume("r")
    assert (result.status, result.seconds) == ("ok", 6.0)
    first, second = result.outcomes
    assert (first.started, first.ended, second.started, second.ended) == (0.0, 2.0, 3.0, 6.0)
    assert "answered after 6.00 s" in result.explain()
    assert "3.00 to 6.00 s" in result.explain()
    times = [event.at for event in await recorded(journal, "r")]
    assert times == sorted(times)
    ended = [event for event in await recorded(journal, "r") if isinstance(event, RunEnded)]
    assert [event.result.seconds for event in ended] == [3.0, 6.0]
    assert fold(await recorded(journal, "r")).result() == result


async def test_the_wait_for_an_approval_is_no_time_of_the_run() -> None:
    journal = MemoryJournal()
    conductor = Conductor(
        FixedPlanner('{"worker": 0, "subtask": "one", "access": []}'),
        [ScriptedWorker("first", "said", latency=2.0)],
        journal=journal,
        policy=Policy(approve="later"),
    )
    assert (await conductor.run("What?", run_id="r")).status == "waiting"
    await anyio.sleep(86_400.0)
    await conductor.decide("r", approved=True)
    result = await conductor.resume("r")
    assert (result.status, result.seconds, result.outcomes[0].seconds) == ("ok", 2.0, 2.0)
