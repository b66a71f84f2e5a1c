"""Conductors behind agents of the SDK, as workers of another conductor."""

from typing import Any

import pytest
from agents import Agent, Runner, function_tool
from agents_speaking import CALL_TOKENS, READ, WRITTEN, ModelServer, SpeakingModel, speaker
from contracts.adapter_contract import failing, planner_of, saying
from servers.capable import capable

from openai_agents_podium import ConductorModel, podium_metadata
from openai_agents_podium.workers import as_worker
from podium import Conductor, Limits, Price
from podium.execution import Retry
from podium.journal import MemoryJournal

pytestmark = pytest.mark.anyio

TWICE = planner_of((0, "Do it.", ()), (0, "Do it again.", (0,)))
ONE = planner_of((0, "Have it done.", ()))


def manager(model: ConductorModel, **options: Any) -> Agent[Any]:
    """Return an agent whose model is a conductor."""
    return Agent[Any](name="manager", instructions="Manage well.", model=model, **options)


@pytest.mark.parametrize("stream", [False, True])
async def test_its_calls_are_booked_in_the_outer_ledger_once(*, stream: bool) -> None:
    """With streaming or without."""
    inner = SpeakingModel(saying("done"))
    agent = manager(ConductorModel(workers=[Agent[Any](name="hand", model=inner)], planner=TWICE))
    options: Any = {"on_event": lambda event: None} if stream else {}
    result = await Conductor(ONE, [as_worker(agent)]).run("?", **options)
    assert (result.answer, result.status) == ("done", "ok")
    assert result.usage.total_tokens == 2 * (READ + WRITTEN)
    assert all("Manage well." not in asked or "Have it done." in asked for asked in inner.asked)
    assert len(inner.asked) == 2


async def test_the_limits_of_the_outer_run_hold_inside() -> None:
    """Not one call more is made."""
    inner = SpeakingModel(saying("done"))
    agent = manager(ConductorModel(workers=[Agent[Any](name="hand", model=inner)], planner=TWICE))
    outer = Conductor(ONE, [as_worker(agent)], limits=Limits(calls=1), retry=Retry(attempts=1))
    result = await outer.run("?")
    assert result.status == "failed"
    assert len(inner.asked) <= 1
    deep = Conductor(ONE, [as_worker(agent)], limits=Limits(depth=1))
    result = await deep.run("?")
    assert result.problem is not None
    assert "Limits.depth" in result.problem.message


async def test_the_labels_of_the_pool_are_on_its_card_and_its_price_is_the_steps() -> None:
    """What is inside an agent cannot be hidden from a policy."""
    hand = as_worker(
        speaker("hand", saying("done")), labels=["write-tools"], price=Price(input=1.0, output=1.0)
    )
    worker = as_worker(manager(ConductorModel(workers=[hand], planner=TWICE)), name="boss", labels=["eu"])
    assert worker.card.labels == {"eu", "write-tools"}
    result = await Conductor(ONE, [worker]).run("?")
    assert result.cost == pytest.approx(2 * (READ + WRITTEN) / 1e6)


async def test_what_its_answer_lacks_is_told_outside() -> None:
    """Though the SDK's runner stands between."""
    plan = planner_of((0, "a", ()), (1, "b", ()), (1, "c", (0, 1)))
    workers = [speaker("bad", failing), speaker("good", saying("fine"))]
    agent = manager(ConductorModel(workers=workers, planner=plan, retry=Retry(attempts=1)))
    result = await Conductor(ONE, [as_worker(agent)]).run("?")
    assert result.answer.startswith("fine\n\n(Not complete: ")
    assert result.status == "partial"


async def test_what_an_agent_with_a_conductor_did_is_recorded() -> None:
    """As the output of its step, which a resumed run reuses."""
    calls = list[str]()

    async def counted(text: str) -> str:
        calls.append(text)
        return "done"

    agent = manager(ConductorModel(workers=[speaker("hand", counted)], planner=TWICE))
    plan = planner_of((0, "Have it done.", ()), (1, "Say it.", (0,)))
    fails = True

    async def fail_once(text: str) -> str:
        if fails:
            raise ValueError("not yet")
        return "said"

    async with MemoryJournal() as journal:
        pool = [as_worker(agent), as_worker(speaker("sayer", fail_once))]
        conductor = Conductor(plan, pool, journal=journal, retry=Retry(attempts=1))
        result = await conductor.run("?")
        assert (result.status, len(calls)) == ("failed", 2)
        fails = False
        assert (await conductor.resume(result.run_id)).answer == "said"
    assert len(calls) == 2


async def test_its_own_tools_are_called_inside_the_step() -> None:
    """By the SDK's runner."""

    @function_tool
    def look(place: str) -> str:
        """Look at a place."""
        return f"rain in {place}"

    async with ModelServer(capable) as server:
        model = ConductorModel(workers=[server.model()], planner=planner_of((0, "Answer.", ())))
        outer = Conductor(ONE, [as_worker(manager(model, tools=[look]))])
        result = await outer.run("How is it in 'Bern'?")
        assert len(server.calls) == 2
    assert result.answer == "The tools say rain in Bern."
    assert result.usage.total_tokens == 2 * CALL_TOKENS


async def test_a_conductor_model_itself_is_its_conductor() -> None:
    """And an agent with one, run by the runner alone, has a run of its own."""
    model = ConductorModel(workers=[speaker("hand", saying("done"))], planner=TWICE)
    assert as_worker(model) is model.conductor
    result = await Runner.run(manager(model), "?")
    assert podium_metadata(result)["status"] == "ok"
