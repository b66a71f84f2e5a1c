"""Users of CrewAI notice an incomplete answer, whichever face they use."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from contracts import incomplete_contract as contract
from crewai import Agent, Crew, Process, Task
from crewai.events.types.llm_events import LLMCallCompletedEvent, LLMStreamChunkEvent
from servers.crew_scene import heard

from crewai_podium import ConductorLLM, ConductorManager
from podium import Conductor, Retry

pytestmark = pytest.mark.anyio


def crew_of(made: Conductor, **task: Any) -> Crew:
    manager = ConductorManager(planner=made.planner, workers=made.pool.workers, retry=Retry(attempts=1))
    tasks = [Task(description=contract.QUESTION, expected_output="an answer", **task)]
    return Crew(agents=[], tasks=tasks, process=Process.hierarchical, manager_agent=manager)


async def task_output(conductor: Conductor) -> contract.Seen:
    return contract.Seen(str((await crew_of(conductor).akickoff()).tasks_output[0]))


async def llm(conductor: Conductor) -> contract.Seen:
    with heard(LLMCallCompletedEvent) as told:
        text = await ConductorLLM(conductor).acall(contract.QUESTION)
    return contract.Seen(text, told[0].finish_reason)


async def llm_stream(conductor: Conductor) -> contract.Seen:
    with heard(LLMStreamChunkEvent) as told:
        await ConductorLLM(conductor, stream=True).acall(contract.QUESTION)
    return contract.Seen("".join(event.chunk for event in told))


async def agent(conductor: Conductor) -> contract.Seen:
    guide = Agent(role="Guide", goal="Answer.", backstory="Old hand.", llm=ConductorLLM(conductor))
    found = await guide.kickoff_async(contract.QUESTION)
    return contract.Seen(found.raw)


@pytest.mark.parametrize("ask", [task_output, llm_stream, agent], ids=lambda ask: ask.__name__)
async def test_a_user_notices(ask: contract.Ask) -> None:
    await contract.check_noticed(ask)


async def test_a_user_of_an_llm_notices() -> None:
    await contract.check_noticed(llm, contract.Face(complete="stop", incomplete="length"))


async def test_the_arguments_of_a_tool_in_text_are_unchanged() -> None:
    """An agent that reads tool calls from text would take the sentence for a part of them."""
    asked = 'Thought: I need a tool.\nAction: look\nAction Input: {"at": "it"}'
    model = ConductorLLM(contract.conductor_of(asked, is_complete=False))
    assert await model.acall(contract.QUESTION) == asked


async def model_of_task(conductor: Conductor) -> int:
    return (await crew_of(conductor, output_pydantic=contract.Value).akickoff()).pydantic.value


async def model_of_llm(conductor: Conductor) -> int:
    text = await ConductorLLM(conductor).acall(contract.QUESTION, response_model=contract.Value)
    return contract.Value.model_validate_json(text).value


@pytest.mark.parametrize("ask", [model_of_task, model_of_llm])
async def test_an_incomplete_object_is_an_error(ask: Callable[[Conductor], Awaitable[Any]]) -> None:
    await contract.check_refused(ask, contract.OBJECT)
