"""A conductor as an LLM: ways to ask it, tools, agents, conversations."""

import json
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from llama_index.core.agent.workflow import FunctionAgent, ReActAgent
from llama_index.core.base.llms.types import (
    CacheControl,
    CachePoint,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
)
from llama_index.core.llms import ChatMessage
from llama_index.core.prompts import PromptTemplate
from llama_index.core.tools import FunctionTool
from llamaindex.library import Shelf
from llamaindex.speaking import Blocking, Native
from pydantic import BaseModel

from llama_index_podium import (
    ConductorLLM,
    ConductorToolSpec,
    as_worker,
)
from llama_index_podium.messages import from_llama, to_llama
from podium import Card, ChatPlanner, Conductor, Plan, ScriptedWorker, Step
from podium.errors import ConfigError, QueryError, RunFailed
from podium.execution import Retry
from podium.hosts import tool_call
from podium.plan_text import write_plan
from podium.planners import FixedPlanner
from podium.types import Completion
from podium.workers import Gather, Request, Worker

pytestmark = pytest.mark.anyio

ASKED = [ChatMessage("How warm is it?")]


def planned(*steps: tuple[int, str, tuple[int, ...]]) -> FixedPlanner:
    """Return a planner that gives these steps."""
    return FixedPlanner(write_plan(Plan(tuple(Step(*step) for step in steps)), "rows"))


async def speak(shown: str) -> str:
    """Say three words."""
    return "one two three"


@pytest.fixture
def llm() -> ConductorLLM:
    """Return an LLM over one worker."""
    return ConductorLLM(workers=[Native(speak, name="writer")], planner=planned((0, "write", ())))


async def test_a_partial_answer_can_be_refused() -> None:
    """Also where a structured LLM would hide what it lacks."""
    cut = ScriptedWorker("writer", Completion("half", "length"))
    llm = ConductorLLM(Conductor(planned((0, "write", ())), [cut]), partial="raise")
    with pytest.raises(RunFailed, match="is partial"):
        await llm.achat(ASKED)
    with pytest.raises(RunFailed, match="is partial"):
        [piece async for piece in await llm.astream_chat(ASKED)]


async def test_all_ways_to_ask_give_the_same(llm: ConductorLLM) -> None:
    """Chats and completions, whole and streamed, async and not, in a running loop."""
    whole = [
        (await llm.achat(ASKED)).message.content,
        llm.chat(ASKED).message.content,
        (await llm.acomplete("?")).text,
        llm.complete("?").text,
    ]
    assert whole == ["one two three"] * 4
    chats = [
        [piece async for piece in await llm.astream_chat(ASKED)],
        list(llm.stream_chat(ASKED)),
    ]
    for pieces in chats:
        assert [piece.delta for piece in pieces] == ["one", " two", " three", ""]
        assert [piece.message.content for piece in pieces][-2:] == ["one two three"] * 2
    texts = [[piece async for piece in await llm.astream_complete("?")], list(llm.stream_complete("?"))]
    for completions in texts:
        assert [piece.text for piece in completions] == ["one", "one two", "one two three", "one two three"]


async def test_a_response_holds_what_the_run_came_to(llm: ConductorLLM) -> None:
    """Also the last of a stream; tokens where LlamaIndex's counters look for them."""
    (*_, last) = [piece async for piece in await llm.astream_chat(ASKED)]
    for response in (await llm.achat(ASKED), last):
        assert isinstance(response.raw, dict)
        assert response.raw["podium"]["status"] == "ok"
        assert response.raw["usage"]["total_tokens"] == 242
        assert response.additional_kwargs["prompt_tokens"] == 230
        assert response.raw["podium"]["planner"]["name"] == "fixed"
        json.dumps(response.raw["podium"])


async def test_a_response_holds_the_nodes_behind_it() -> None:
    """As a chat, a completion, and the last of a stream."""
    llm = ConductorLLM(
        workers=[as_worker(Shelf("contracts"), name="contracts")], planner=planned((0, "March", ()))
    )
    (*_, last) = [piece async for piece in await llm.astream_chat(ASKED)]
    for response in (await llm.achat(ASKED), await llm.acomplete("?"), last):
        (node,) = response.raw["source_nodes"]  # type: ignore[index]
        assert (node.node_id, node.metadata["podium_steps"]) == ("c1", [0])
        type(response).model_validate_json(response.model_dump_json())  # as workflows store it


async def test_nodes_that_items_of_a_map_find_are_behind_it() -> None:
    """Under the step of the map."""
    plan = Plan((Step(0, "{{item}}", each=("March", "Acme")), Step(1, "join", access=(0,))))
    workers = [as_worker(Shelf("contracts"), name="contracts"), ScriptedWorker("joiner", "both")]
    llm = ConductorLLM(workers=workers, planner=FixedPlanner(plan))
    (*_, last) = [piece async for piece in await llm.astream_chat(ASKED)]
    for response in (await llm.achat(ASKED), last):
        found = {node.node_id: node.metadata["podium_steps"] for node in response.raw["source_nodes"]}  # type: ignore[index]
        assert len(found) > 1
        assert set(map(tuple, found.values())) == {(0,)}
        paths = [step["path"] for step in response.raw["podium"]["steps"]]  # type: ignore[index]
        assert paths == ["", "", "0[0]", "0[1]"]


async def test_the_conversation_reaches_the_workers() -> None:
    """Its system prompt, and what was said before."""
    writer = ScriptedWorker("writer", "fine")
    llm = ConductorLLM(Conductor(planned((0, "write", ())), [writer]), system_prompt="Be brief.")
    await llm.achat([ChatMessage("Hi"), ChatMessage("Hello!", role="assistant"), ChatMessage("And now?")])
    shown = writer.requests[0].messages
    assert [message.role for message in shown] == ["system", "user", "assistant", "user"]
    assert shown[0].text == "Be brief."
    assert "And now?" in shown[-1].text


async def test_how_to_write_reaches_the_last_worker() -> None:
    """What a conductor cannot do is refused."""
    first, last = ScriptedWorker("first", "a"), ScriptedWorker("last", "b")
    llm = ConductorLLM(workers=[first, last], planner=planned((0, "x", ()), (1, "y", (0,))))
    await llm.achat(ASKED, temperature=0.2, max_tokens=7, stop=["END"])
    sampling = last.requests[0].sampling
    assert (sampling.temperature, sampling.max_tokens, sampling.stop) == (0.2, 7, ("END",))
    assert first.requests[0].sampling.temperature is None
    with pytest.raises(ConfigError, match="does not accept logprobs"):
        await llm.achat(ASKED, logprobs=True)


async def test_a_failed_run_raises_with_its_result(llm: ConductorLLM) -> None:
    """From each way to ask."""
    broken = ConductorLLM(
        workers=[Blocking(lambda prompt: 1 / 0, name="a")],  # type: ignore[arg-type, return-value]
        planner=planned((0, "x", ())),
        retry=Retry(attempts=1),
    )
    with pytest.raises(RunFailed, match="division by zero") as raised:
        await broken.achat(ASKED)
    assert raised.value.result.status == "failed"
    with pytest.raises(RunFailed, match="division by zero"):
        list(broken.stream_complete("?"))


async def test_steps_are_shown_as_thoughts() -> None:
    """As pieces of a stream, and in the message; they are not a part of the conversation."""
    writer = ScriptedWorker("writer", "fine")
    llm = ConductorLLM(Conductor(planned((0, "write", ())), [writer]), show_steps=True)
    (*pieces, last) = [piece async for piece in await llm.astream_chat(ASKED)]
    thoughts = "".join(piece.additional_kwargs.get("thinking_delta", "") for piece in pieces)
    assert thoughts.startswith("Plan by fixed:\n0. writer: write\n")
    assert "".join(piece.delta or "" for piece in [*pieces, last]) == "fine"
    for message in (last.message, (await llm.achat(ASKED)).message):
        assert [block.content for block in message.blocks if isinstance(block, ThinkingBlock)] == [thoughts]
        assert message.content == "fine"
        assert from_llama([message])[0].text == "fine"
    assert (await llm.acomplete("?")).text == "fine"


async def test_images_go_to_models_that_can_see_them() -> None:
    """Which the caller says, because LlamaIndex does not know it; others are told that there are some."""
    shown: dict[str, str] = {}

    class Seeing(Native):
        async def achat(self, messages: Any, **kwargs: Any) -> Any:
            shown[self.name] = repr(messages[-1].blocks)
            return await super().achat(messages, **kwargs)

    sees, reads = (Seeing(speak, name=name) for name in ("sees", "reads"))
    workers = [as_worker(sees, parts={"image_url"}), reads]
    llm = ConductorLLM(workers=workers, planner=planned((0, "look", ()), (1, "write", (0,))))
    await llm.achat(
        [ChatMessage(blocks=[TextBlock(text="What?"), ImageBlock(url="https://example.org/a.png")])]
    )
    assert "a.png" in shown["sees"]
    assert "a.png" not in shown["reads"]
    assert "cannot be shown to you" in shown["reads"]


class Place(BaseModel):
    """What is asked for."""

    city: str


class Caller(Worker):
    """Asks for the tool it is offered, and answers with what that returned."""

    takes_tools = True

    def __init__(self) -> None:
        self.card = Card(name="caller")
        self.requests: list[Request] = []

    async def call(self, request: Request) -> AsyncGenerator[str | Completion, None]:
        """Ask or answer."""
        self.requests.append(request)
        if request.tool_messages:
            yield Completion(f"It is {request.tool_messages[-1].text}.")
        else:
            assert request.tools is not None
            name = request.tools.offered[0]["function"]["name"]
            call = {
                "id": "c1",
                "type": "function",
                "function": {"name": name, "arguments": '{"city": "Bern"}'},
            }
            yield Completion("", "tool_calls", tool_calls=(call,))


def weather(city: str) -> str:
    """Say how warm it is in a city."""
    return f"12 degrees in {city}"


async def test_tools_are_offered_and_their_calls_come_back() -> None:
    """The turn after is not planned again, and the steps before are not paid for again."""
    caller, first = Caller(), ScriptedWorker("first", "sunny")
    planner = ScriptedWorker("planner", write_plan(Plan((Step(0, "x"), Step(1, "y", (0,)))), "rows"))
    llm = ConductorLLM(workers=[first, caller], planner=ChatPlanner(planner))
    tools = [FunctionTool.from_defaults(weather)]
    assert llm.metadata.is_function_calling_model
    response = await llm.achat_with_tools(tools, chat_history=ASKED)
    (call,) = llm.get_tool_calls_from_response(response)
    assert (call.tool_name, call.tool_kwargs, call.tool_id) == ("weather", {"city": "Bern"}, "c1")
    said = ChatMessage("12 degrees", role="tool", additional_kwargs={"tool_call_id": "c1"})
    message = ChatMessage.model_validate_json(response.message.model_dump_json())  # as memory keeps it
    after = await llm.achat_with_tools(tools, chat_history=[*ASKED, message, said])
    assert after.message.content == "It is 12 degrees."
    assert (len(planner.requests), len(first.requests), len(caller.requests)) == (1, 1, 2)
    assert [turn.role for turn in caller.requests[1].tool_messages] == ["assistant", "tool"]


async def test_a_structured_answer_is_streamed_from_the_call() -> None:
    """LlamaIndex looks for it where its own models put their calls; the message can be stored."""
    llm = ConductorLLM(Conductor(planned((0, "ask", ())), [Caller()]))
    pieces = [piece async for piece in await llm.astream_structured_predict(Place, PromptTemplate("Where?"))]
    assert pieces[-1] == Place(city="Bern")
    assert list(llm.stream_structured_predict(Place, PromptTemplate("Where?")))[-1] == Place(city="Bern")
    tools = [FunctionTool.from_defaults(weather)]
    message = (await llm.achat_with_tools(tools, chat_history=ASKED)).message
    assert from_llama([ChatMessage.model_validate_json(message.model_dump_json())]) == from_llama([message])


async def test_a_call_that_must_be_made_and_is_not_is_an_error(llm: ConductorLLM) -> None:
    """The last worker takes no tools."""
    with pytest.raises(RunFailed, match="requires a tool call"):
        await llm.achat_with_tools([FunctionTool.from_defaults(weather)], "?", tool_required=True)
    assert not llm.metadata.is_function_calling_model


def agent(test: Any) -> Any:
    """Mark a test of an agent: agents themselves use what pydantic and workflows have deprecated."""
    for kind in ("PydanticDeprecatedSince20", "PydanticDeprecatedSince211"):
        test = pytest.mark.filterwarnings(f"ignore::pydantic.warnings.{kind}")(test)
    return pytest.mark.filterwarnings("ignore:is_running called:DeprecationWarning")(test)


@agent
@pytest.mark.parametrize("streaming", [False, True])
async def test_a_function_agent_thinks_with_it(streaming: bool) -> None:  # noqa: FBT001
    """LlamaIndex's agent calls the tool, and the conductor answers with what it returned."""
    caller = Caller()
    llm = ConductorLLM(workers=[caller], planner=planned((0, "x", ())))
    asked = FunctionAgent(tools=[weather], llm=llm, streaming=streaming, system_prompt="Be kind.")
    answer = await asked.run("How warm is it in Bern?")
    assert str(answer) == "It is 12 degrees in Bern."
    assert [len(request.tool_messages) for request in caller.requests] == [0, 2]


@agent
async def test_a_react_agent_thinks_with_it() -> None:
    """Each thought is a run."""

    async def think(shown: str) -> str:
        if "Observation: 12 degrees" in shown:
            return "Thought: I can answer.\nAnswer: Twelve."
        return 'Thought: I need the tool.\nAction: weather\nAction Input: {"city": "Bern"}'

    llm = ConductorLLM(workers=[Native(think, name="thinker")], planner=planned((0, "think", ())))
    answer = await ReActAgent(tools=[weather], llm=llm).run("How warm is it in Bern?")
    assert str(answer) == "Twelve."


async def test_an_agent_can_ask_a_conductor_by_tools() -> None:
    """A team as a tool: the answer, or only the plan."""
    workers = [as_worker(Shelf("contracts"), name="contracts"), Gather()]
    conductor = Conductor(planned((0, "Acme", ()), (1, "all", (0,))), workers)
    tools = {tool.metadata.name: tool for tool in ConductorToolSpec(conductor).to_tool_list()}
    answer = await tools["ask_team"].acall(question="?")
    assert "ends in March" in answer.content
    assert {node.node_id for node in answer.raw_output.source_nodes} == {"c1", "shared"}
    assert answer.raw_output.metadata["status"] == "ok"
    assert "ends in March" in str(tools["ask_team"].call(question="?"))
    assert str(await tools["plan_for_team"].acall(question="?")) == (
        "0. contracts: Acme\n1. gather: all (shown step 0)"
    )
    assert str(tools["plan_for_team"].call(question="?")).startswith("0. contracts")
    assert "team of specialists" in tools["ask_team"].metadata.description
    assert list(tools["ask_team"].metadata.get_parameters_dict()["properties"]) == ["question"]


def test_messages_are_read_and_written() -> None:
    """Text, images, calls of tools; what a model thought for itself is left out."""
    call = ToolCallBlock(tool_call_id="1", tool_name="weather", tool_kwargs={"city": "Bern"})
    messages = [
        ChatMessage("Be brief.", role="system"),
        ChatMessage(blocks=[TextBlock(text="What is it?"), ImageBlock(url="https://example.org/a.png")]),
        ChatMessage(role="assistant", blocks=[ThinkingBlock(content="hm"), TextBlock(text="Wait."), call]),
        ChatMessage("12", role="tool", additional_kwargs={"tool_call_id": "1"}),
    ]
    read = from_llama(messages)
    assert [message.to_wire() for message in read] == [
        {"role": "system", "content": "Be brief."},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "What is it?"},
                {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
            ],
        },
        {
            "role": "assistant",
            "content": "Wait.",
            "tool_calls": [tool_call("1", "weather", '{"city": "Bern"}')],
        },
        {"role": "tool", "content": "12", "tool_call_id": "1"},
    ]
    assert from_llama(to_llama(read)) == read
    image = ChatMessage(blocks=[ImageBlock(image=b"abc", image_mimetype="image/png")])
    (shown,) = from_llama([image])
    assert shown.content[0]["image_url"]["url"] == "data:image/png;base64,YWJj"  # type: ignore[index]
    assert from_llama(to_llama([shown])) == (shown,)


def test_a_block_that_no_worker_can_be_shown_is_refused() -> None:
    """By name."""
    point = CachePoint(cache_control=CacheControl(type="ephemeral"))
    with pytest.raises(QueryError, match="CachePoint"):
        from_llama([ChatMessage(blocks=[TextBlock(text="x"), point])])


@pytest.mark.parametrize("role", ["assistant", "system"])
async def test_a_conversation_may_end_in_any_message(role: str) -> None:
    """The user's last message is the question; workers are shown the whole conversation."""
    worker = ScriptedWorker("writer", "It is 20 degrees.")
    llm = ConductorLLM(Conductor(planned((0, "write", ())), [worker]))
    answer = await llm.achat([*ASKED, ChatMessage("It is cold.", role=role)])
    assert answer.message.content == "It is 20 degrees."
    shown = worker.requests[0].messages
    assert "It is cold." in [message.text for message in shown[:-1]]
    assert "How warm is it?" in shown[-1].text


@pytest.mark.parametrize(
    "before",
    [
        [ChatMessage("Say how warm it is.", role="system")],
        ASKED,
        [*ASKED, ChatMessage("Where?", role="assistant")],
        [ChatMessage("Hi"), *ASKED, ChatMessage("Say.", role="developer")],
    ],
)
async def test_a_conversation_may_end_in_a_message_without_text(before: list[ChatMessage]) -> None:
    """What was said before is the question."""
    worker = ScriptedWorker("writer", "It is 20 degrees.")
    llm = ConductorLLM(Conductor(planned((0, "write", ())), [worker]))
    assert (await llm.achat([*before, ChatMessage(" ")])).message.content == "It is 20 degrees."
    assert "warm" in worker.requests[0].messages[-1].text
    with pytest.raises(QueryError, match="empty"):
        await llm.achat([ChatMessage("")])


async def test_its_own_sampling_reaches_the_last_worker() -> None:
    """A call may say otherwise."""
    worker = ScriptedWorker("writer", "x")
    llm = ConductorLLM(
        Conductor(FixedPlanner(Plan((Step(0, "x"),))), [worker]), temperature=0.2, max_tokens=9
    )
    await llm.acomplete("Write.")
    await llm.acomplete("Write.", temperature=0.7)
    said = [(each.sampling.temperature, each.sampling.max_tokens) for each in worker.requests]
    assert said == [(0.2, 9), (0.7, 9)]
