"""Users of AutoGen and of Agent Framework notice an incomplete answer, whichever face they use."""

from collections.abc import Awaitable, Callable
from typing import Any, Final

import pytest
from agent_framework import Message
from autogen_agentchat.base import TaskResult
from autogen_agentchat.messages import ModelClientStreamingChunkEvent
from autogen_agentchat.tools import AgentTool
from autogen_core import CancellationToken
from autogen_core.models import UserMessage
from contracts import incomplete_contract as contract

from autogen_podium import ConductorAgent, ConductorChatCompletionClient, ConductorTeam, as_worker
from autogen_podium.agent_framework import ConductorAgent as FrameworkConductor, ConductorChatClient
from podium import Conductor

pytestmark = pytest.mark.anyio
ASKED: Final = [UserMessage(content=contract.QUESTION, source="user")]
MESSAGES: Final = [Message("user", [contract.QUESTION])]
ANSWERED: Final = "The conductor has answered."
Read = Callable[[Conductor], Awaitable[Any]]


def tool_of(conductor: Conductor) -> AgentTool:
    return AgentTool(ConductorAgent("lead", conductor), return_value_as_last_message=True)


async def tool(conductor: Conductor) -> str:
    """Call an agent as a tool, which returns the last message."""
    asking = tool_of(conductor)
    answer = await asking.run_json({"task": contract.QUESTION}, CancellationToken())
    return asking.return_value_as_string(answer)


async def agent_again(conductor: Conductor) -> str:
    lead = ConductorAgent("lead", conductor)
    await lead.run(task=contract.QUESTION)
    return _last(await lead.run(task=contract.QUESTION))


async def agent_stream(conductor: Conductor) -> str:
    stream = ConductorAgent("lead", conductor, model_client_stream=True).run_stream(task=contract.QUESTION)
    return "".join([m.content async for m in stream if isinstance(m, ModelClientStreamingChunkEvent)])


async def team(conductor: Conductor) -> str:
    return _last(await ConductorTeam(conductor).run(task=contract.QUESTION))


async def framework_tool(conductor: Conductor) -> str:
    (content,) = await FrameworkConductor(conductor).as_tool().invoke(arguments={"task": contract.QUESTION})
    return str(content.text)


def _last(result: TaskResult) -> str:
    return result.messages[-1].content


@pytest.mark.parametrize("read", [tool, agent_again, agent_stream, team, framework_tool])
async def test_a_user_of_text_notices(read: Read) -> None:
    async def ask(conductor: Conductor) -> contract.Seen:
        return contract.Seen(await read(conductor))

    await contract.check_noticed(ask)


async def client_stream(conductor: Conductor) -> Any:
    *pieces, last = [item async for item in ConductorChatCompletionClient(conductor).create_stream(ASKED)]
    assert "".join(map(str, pieces)) == last.content
    return last


async def _streamed(stream: Any) -> contract.Seen:
    updates = [update async for update in stream]
    return contract.Seen("".join(update.text for update in updates), updates[-1].finish_reason)


FINISH_FACES: Final[dict[str, Read]] = {
    "client": lambda made: ConductorChatCompletionClient(made).create(ASKED),
    "client's stream": client_stream,
    "framework agent": lambda made: FrameworkConductor(made).run(contract.QUESTION),
    "its stream": lambda made: _streamed(FrameworkConductor(made).run(contract.QUESTION, stream=True)),
    "framework client": lambda made: ConductorChatClient(made).get_response(MESSAGES),
    "client stream": lambda made: _streamed(ConductorChatClient(made).get_response(MESSAGES, stream=True)),
}


@pytest.mark.parametrize("read", FINISH_FACES.values(), ids=FINISH_FACES)
async def test_a_user_of_finish_reasons_notices(read: Read) -> None:
    async def ask(conductor: Conductor) -> contract.Seen:
        said = await read(conductor)
        text = said.content if hasattr(said, "content") else said.text
        return said if isinstance(said, contract.Seen) else contract.Seen(text, said.finish_reason)

    await contract.check_noticed(ask, contract.Face(complete="stop", incomplete="length"))


async def test_the_stop_reason_of_a_team_says_it() -> None:
    whole = await ConductorTeam(contract.conductor_of(is_complete=True)).run(task=contract.QUESTION)
    assert whole.stop_reason == ANSWERED
    lacking = await ConductorTeam(contract.conductor_of(is_complete=False)).run(task=contract.QUESTION)
    assert lacking.stop_reason.startswith(f"{ANSWERED} (Not complete: ")
    assert "out of order" in lacking.stop_reason


async def created(conductor: Conductor) -> int:
    result = await ConductorChatCompletionClient(conductor).create(ASKED, json_output=contract.Value)
    return contract.Value.model_validate_json(result.content).value


async def framework_value(conductor: Conductor) -> int:
    asked: Any = {"options": {"response_format": contract.Value}}
    return (await ConductorChatClient(conductor).get_response(MESSAGES, **asked)).value.value


async def strict_team(conductor: Conductor) -> int:
    said = await ConductorTeam(conductor, partial="raise").run(task=contract.QUESTION)
    return contract.Value.model_validate_json(_last(said)).value


@pytest.mark.parametrize("ask", [created, framework_value, strict_team])
async def test_an_incomplete_object_is_an_error(ask: Read) -> None:
    await contract.check_refused(ask, contract.OBJECT)


async def test_a_tool_passes_it_on() -> None:
    await contract.check_passed_on(as_worker(tool_of(contract.conductor_of(is_complete=False))))
