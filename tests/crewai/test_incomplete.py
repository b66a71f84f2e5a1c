"""Users of CrewAI notice an incomplete answer, whichever face they use."""

from collections.abc import Awaitable, Callable
from typing import Any, Final

import pytest
from contracts.incomplete_contract import (
    OBJECT,
    QUESTION,
    Ask,
    Face,
    Seen,
    check_noticed,
    check_refused,
    conductor_of,
)
from crewai import Agent, Crew, Process, Task
from crewai.events.event_bus import crewai_event_bus
from crewai.events.types.llm_events import LLMCallCompletedEvent, LLMStreamChunkEvent
from pydantic import BaseModel

from crewai_podium import ConductorLLM, ConductorManager
from podium import Conductor
from podium.execution import Retry

pytestmark = pytest.mark.anyio


class Value(BaseModel):
    """An object."""

    value: int


def crew_of(conductor: Conductor, **task: Any) -> Crew:
    manager = ConductorManager(
        planner=conductor.planner, workers=conductor.pool.workers, retry=Retry(attempts=1)
    )
    tasks = [Task(description=QUESTION, expected_output="an answer", **task)]
    return Crew(agents=[], tasks=tasks, process=Process.hierarchical, manager_agent=manager)


async def task_output(conductor: Conductor) -> Seen:
    return Seen(str((await crew_of(conductor).akickoff()).tasks_output[0]))


async def llm(conductor: Conductor) -> Seen:
    heard = list[Any]()
    with crewai_event_bus.scoped_handlers():

        def hear(_: Any, event: LLMCallCompletedEvent) -> None:
            heard.append(event.finish_reason)

        crewai_event_bus.on(LLMCallCompletedEvent)(hear)
        text = await ConductorLLM(conductor).acall(QUESTION)
        crewai_event_bus.flush()
    return Seen(text, heard[0])


async def llm_stream(conductor: Conductor) -> Seen:
    heard = list[str]()
    with crewai_event_bus.scoped_handlers():

        def hear(_: Any, event: LLMStreamChunkEvent) -> None:
            heard.append(event.chunk)

        crewai_event_bus.on(LLMStreamChunkEvent)(hear)
        await ConductorLLM(conductor, stream=True).acall(QUESTION)
        crewai_event_bus.flush()
    return Seen("".join(heard))


async def agent(conductor: Conductor) -> Seen:
    guide = Agent(role="Guide", goal="Answer.", backstory="Old hand.", llm=ConductorLLM(conductor))
    found = await guide.kickoff_async(QUESTION)
    return Seen(found.raw)


@pytest.mark.parametrize("ask", [task_output, llm_stream, agent], ids=lambda ask: ask.__name__)
async def test_a_user_notices(ask: Ask) -> None:
    await check_noticed(ask)


async def test_a_user_of_an_llm_notices() -> None:
    await check_noticed(llm, Face(complete="stop", incomplete="length"))


async def test_the_arguments_of_a_tool_in_text_are_unchanged() -> None:
    """An agent that reads tool calls from text would take the sentence for a part of them."""
    asked = 'Thought: I need a tool.\nAction: look\nAction Input: {"at": "it"}'
    assert await ConductorLLM(conductor_of(asked, is_complete=False)).acall(QUESTION) == asked


async def model_of_task(conductor: Conductor) -> int:
    found = await crew_of(conductor, output_pydantic=Value).akickoff()
    assert isinstance(found.pydantic, Value)
    return found.pydantic.value


async def model_of_llm(conductor: Conductor) -> int:
    return Value.model_validate_json(
        await ConductorLLM(conductor).acall(QUESTION, response_model=Value)
    ).value


OBJECT_FACES: Final = (model_of_task, model_of_llm)


@pytest.mark.parametrize("ask", OBJECT_FACES, ids=lambda ask: ask.__name__)
async def test_an_incomplete_object_is_an_error(ask: Callable[[Conductor], Awaitable[Any]]) -> None:
    await check_refused(ask, OBJECT)
