"""Users of AutoGen and of Agent Framework notice an incomplete answer, whichever face they use."""

from collections.abc import Awaitable, Callable
from typing import Any, Final

import pytest
from agent_framework import Message
from autogen_agentchat.base import TaskResult
from autogen_agentchat.messages import ModelClientStreamingChunkEvent, TextMessage
from autogen_agentchat.tools import AgentTool, TeamTool
from autogen_core import CancellationToken
from autogen_core.models import CreateResult, UserMessage
from contracts.incomplete_contract import (
    OBJECT,
    QUESTION,
    Ask,
    Face,
    Seen,
    check_noticed,
    check_passed_on,
    check_refused,
    conductor_of,
)
from pydantic import BaseModel

from autogen_podium import ConductorAgent, ConductorChatCompletionClient, ConductorTeam, as_worker
from autogen_podium.agent_framework import ConductorAgent as FrameworkConductor, ConductorChatClient
from podium import Conductor

pytestmark = pytest.mark.anyio
ASKED: Final = [UserMessage(content=QUESTION, source="user")]
ANSWERED: Final = "The conductor has answered."


class Value(BaseModel):
    """An object."""

    value: int


def tool_of(conductor: Conductor) -> AgentTool:
    return AgentTool(ConductorAgent("lead", conductor), return_value_as_last_message=True)


async def tool(conductor: Conductor) -> Seen:
    """Call an agent as a tool, which returns the last message."""
    return await _called(tool_of(conductor))


async def agent_again(conductor: Conductor) -> Seen:
    lead = ConductorAgent("lead", conductor)
    await lead.run(task=QUESTION)
    return _last(await lead.run(task=QUESTION))


async def agent_stream(conductor: Conductor) -> Seen:
    said = list[str]()
    async for message in ConductorAgent("lead", conductor, model_client_stream=True).run_stream(
        task=QUESTION
    ):
        if isinstance(message, ModelClientStreamingChunkEvent):
            said.append(message.content)
    return Seen("".join(said))


async def team(conductor: Conductor) -> Seen:
    return _last(await ConductorTeam(conductor).run(task=QUESTION))


async def client(conductor: Conductor) -> Seen:
    return _created(await ConductorChatCompletionClient(conductor).create(ASKED))


async def client_stream(conductor: Conductor) -> Seen:
    *pieces, last = [item async for item in ConductorChatCompletionClient(conductor).create_stream(ASKED)]
    assert isinstance(last, CreateResult)
    assert "".join(map(str, pieces)) == last.content
    return _created(last)


async def framework_tool(conductor: Conductor) -> Seen:
    return Seen(await _invoked(FrameworkConductor(conductor).as_tool()))


async def framework_agent(conductor: Conductor) -> Seen:
    response = await FrameworkConductor(conductor).run(QUESTION)
    return Seen(response.text, response.finish_reason)


async def framework_agent_stream(conductor: Conductor) -> Seen:
    updates = [update async for update in FrameworkConductor(conductor).run(QUESTION, stream=True)]
    return Seen("".join(update.text for update in updates), updates[-1].finish_reason)


async def framework_client(conductor: Conductor) -> Seen:
    response = await ConductorChatClient(conductor).get_response([Message("user", [QUESTION])])
    return Seen(response.text, response.finish_reason)


async def framework_client_stream(conductor: Conductor) -> Seen:
    stream = ConductorChatClient(conductor).get_response([Message("user", [QUESTION])], stream=True)
    updates = [update async for update in stream]
    return Seen("".join(update.text for update in updates), updates[-1].finish_reason)


async def _called(asking: AgentTool | TeamTool) -> Seen:
    done = await asking.run_json({"task": QUESTION}, CancellationToken())
    return Seen(asking.return_value_as_string(done))


async def _invoked(asking: Any) -> str:
    (content,) = await asking.invoke(arguments={"task": QUESTION})
    return str(content.text)


def _last(result: TaskResult) -> Seen:
    last = result.messages[-1]
    assert isinstance(last, TextMessage)
    return Seen(last.content)


def _created(result: CreateResult) -> Seen:
    assert isinstance(result.content, str)
    return Seen(result.content, result.finish_reason)


TEXT_FACES: Final = (tool, agent_again, agent_stream, team, framework_tool)
FINISH_FACES: Final = (
    *(client, client_stream, framework_agent, framework_agent_stream),
    *(framework_client, framework_client_stream),
)


@pytest.mark.parametrize("ask", TEXT_FACES, ids=lambda ask: ask.__name__)
async def test_a_user_of_text_notices(ask: Ask) -> None:
    await check_noticed(ask)


@pytest.mark.parametrize("ask", FINISH_FACES, ids=lambda ask: ask.__name__)
async def test_a_user_of_finish_reasons_notices(ask: Ask) -> None:
    await check_noticed(ask, Face(complete="stop", incomplete="length"))


async def test_the_stop_reason_of_a_team_says_it() -> None:
    whole = await ConductorTeam(conductor_of(is_complete=True)).run(task=QUESTION)
    assert whole.stop_reason == ANSWERED
    lacking = await ConductorTeam(conductor_of(is_complete=False)).run(task=QUESTION)
    assert lacking.stop_reason is not None
    assert lacking.stop_reason.startswith(f"{ANSWERED} (Not complete: ")
    assert "out of order" in lacking.stop_reason


async def created(conductor: Conductor) -> int:
    result = await ConductorChatCompletionClient(conductor).create(ASKED, json_output=Value)
    assert isinstance(result.content, str)
    return Value.model_validate_json(result.content).value


async def framework_value(conductor: Conductor) -> int:
    found: Any = await ConductorChatClient(conductor).get_response(
        [Message("user", [QUESTION])], options={"response_format": Value}
    )
    return int(found.value.value)


async def strict_team(conductor: Conductor) -> int:
    said = await ConductorTeam(conductor, partial="raise").run(task=QUESTION)
    return Value.model_validate_json(_last(said).text).value


OBJECT_FACES: Final = (created, framework_value, strict_team)


@pytest.mark.parametrize("ask", OBJECT_FACES, ids=lambda ask: ask.__name__)
async def test_an_incomplete_object_is_an_error(ask: Callable[[Conductor], Awaitable[Any]]) -> None:
    await check_refused(ask, OBJECT)


async def test_a_tool_passes_it_on() -> None:
    await check_passed_on(as_worker(tool_of(conductor_of(is_complete=False))))
