"""A conductor as an LLM: ways to ask it, tools, agents, conversations."""

import json
from typing import Any

import pytest
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ImageBlock, TextBlock, ThinkingBlock
from llama_index.core.llms import ChatMessage
from llama_index.core.program import LLMTextCompletionProgram
from llama_index.core.prompts import PromptTemplate
from llama_index.core.tools import FunctionTool
from llamaindex.library import AGENTS, Shelf, planned
from llamaindex.speaking import Native
from pydantic import BaseModel

from llama_index_podium import ConductorLLM, ConductorToolSpec, as_worker
from llama_index_podium.messages import from_llama
from podium import ChatPlanner, Conductor, Plan, ScriptedWorker, Step
from podium.errors import ConfigError, RunFailed
from podium.hosts import tool_call
from podium.plan_text import write_plan
from podium.planners import FixedPlanner
from podium.types import Completion
from podium.workers import Gather, Request, Worker

pytestmark = pytest.mark.anyio

ASKED = [ChatMessage("How warm is it?")]


async def _speak(shown: str) -> str:
    return "one two three"


@pytest.fixture
def llm() -> ConductorLLM:
    return ConductorLLM(workers=[Native(_speak, name="writer")], planner=planned((0, "write", ())))


async def test_all_ways_to_ask_give_the_same(llm: ConductorLLM) -> None:
    """Chats and completions, whole and streamed, async and not, in a running loop."""
    whole = [(await llm.achat(ASKED)).message.content, llm.chat(ASKED).message.content]
    assert [*whole, (await llm.acomplete("?")).text, llm.complete("?").text] == ["one two three"] * 4
    chats = [[piece async for piece in await llm.astream_chat(ASKED)], list(llm.stream_chat(ASKED))]
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
        assert (response.raw["podium"]["status"], response.raw["usage"]["total_tokens"]) == ("ok", 242)
        assert response.additional_kwargs["prompt_tokens"] == 230
        assert response.raw["podium"]["planner"]["name"] == "fixed"
        json.dumps(response.raw["podium"])


async def test_how_to_write_reaches_the_last_worker() -> None:
    first, last = ScriptedWorker("first", "a"), ScriptedWorker("last", "b")
    llm = ConductorLLM(workers=[first, last], planner=planned((0, "x", ()), (1, "y", (0,))))
    llm = ConductorLLM(llm.conductor, temperature=0.7, max_tokens=7)
    await llm.achat(ASKED, temperature=0.2, stop=["END"])
    sampling = last.requests[0].sampling
    assert (sampling.temperature, sampling.max_tokens, sampling.stop) == (0.2, 7, ("END",))
    assert first.requests[0].sampling.temperature is None
    with pytest.raises(ConfigError, match="does not accept logprobs"):
        await llm.achat(ASKED, logprobs=True)


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
        assert (message.content, from_llama([message])[0].text) == ("fine", "fine")
    assert (await llm.acomplete("?")).text == "fine"


async def test_images_go_to_models_that_can_see_them() -> None:
    """Which the caller says, because LlamaIndex does not know it; others are told that there are some."""
    shown: dict[str, str] = {}

    class Seeing(Native):
        async def achat(self, messages: Any, **kwargs: Any) -> Any:
            shown[self.name] = repr(messages[-1].blocks)
            return await super().achat(messages, **kwargs)

    sees, reads = (Seeing(_speak, name=name) for name in ("sees", "reads"))
    workers = [as_worker(sees, parts={"image_url"}), reads]
    llm = ConductorLLM(workers=workers, planner=planned((0, "look", ()), (1, "write", (0,))))
    asked = [TextBlock(text="What?"), ImageBlock(url="https://example.org/a.png")]
    await llm.achat([ChatMessage(blocks=asked)])
    assert [("a.png" in shown[name]) for name in ("sees", "reads")] == [True, False]
    assert "cannot be shown to you" in shown["reads"]


class _Calling(ScriptedWorker):
    takes_tools = True


def _uses_tools(request: Request) -> Completion:
    """Ask for the tool that is offered, and answer with what that returned."""
    if request.tool_messages:
        return Completion(f"It is {request.tool_messages[-1].text}.")
    name = request.tools.offered[0]["function"]["name"]
    return Completion("", "tool_calls", tool_calls=(tool_call("c1", name, {"city": "Bern"}),))


def weather(city: str) -> str:
    """Say how warm it is in a city."""
    return f"12 degrees in {city}"


async def test_tools_are_offered_and_their_calls_come_back() -> None:
    """The turn after is not planned again, and the steps before are not paid for again."""
    caller, first = _Calling("caller", _uses_tools), ScriptedWorker("first", "sunny")
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


@AGENTS
@pytest.mark.parametrize("streaming", [False, True])
async def test_a_function_agent_thinks_with_it(*, streaming: bool) -> None:
    """LlamaIndex's agent calls the tool, and the conductor answers with what it returned."""
    caller = _Calling("caller", _uses_tools)
    llm = ConductorLLM(workers=[caller], planner=planned((0, "x", ())))
    asked = FunctionAgent(tools=[weather], llm=llm, streaming=streaming, system_prompt="Be kind.")
    answer = await asked.run("How warm is it in Bern?")
    assert str(answer) == "It is 12 degrees in Bern."
    assert [len(request.tool_messages) for request in caller.requests] == [0, 2]


async def test_an_agent_can_ask_a_conductor_by_tools() -> None:
    workers = [as_worker(Shelf("contracts"), name="contracts"), Gather()]
    conductor = Conductor(planned((0, "Acme", ()), (1, "all", (0,))), workers)
    tools = {tool.metadata.name: tool for tool in ConductorToolSpec(conductor).to_tool_list()}
    answer = await tools["ask_team"].acall(question="?")
    assert "ends in March" in answer.content
    assert {node.node_id for node in answer.raw_output.source_nodes} == {"c1", "shared"}
    assert answer.raw_output.metadata["status"] == "ok"
    assert "ends in March" in str(tools["ask_team"].call(question="?"))
    plan = "0. contracts: Acme\n1. gather: all (shown step 0)"
    assert str(await tools["plan_for_team"].acall(question="?")) == plan
    assert str(tools["plan_for_team"].call(question="?")).startswith("0. contracts")
    assert "team of specialists" in tools["ask_team"].metadata.description
    assert list(tools["ask_team"].metadata.get_parameters_dict()["properties"]) == ["question"]


WHERE = PromptTemplate("Where?")
STREAMS_TEXT = "stream_call" in vars(LLMTextCompletionProgram)
"""Whether this version of LlamaIndex streams objects that are read from text."""
CUT = '{"days": 2, "city": "Ber'


class Trip(BaseModel):
    city: str
    days: int


class Choice(BaseModel):
    """All of it may be left out."""

    city: str = "Rome"


def _over(worker: Worker) -> ConductorLLM:
    return ConductorLLM(Conductor(FixedPlanner(Plan((Step(0, "write"),))), [worker]))


def _calling(arguments: str, name: str = "Trip") -> ConductorLLM:
    """Return an LLM whose worker calls the tool with these arguments."""
    call = tool_call("c1", name, arguments)
    return _over(_Calling("caller", Completion("", "tool_calls", tool_calls=(call,))))


BERN = '{"city": "Bern", "days": 2}'
LLMS = {"text": _over(ScriptedWorker("writer", f"Here it is: {BERN}")), "call": _calling(BERN)}


@pytest.mark.parametrize("llm", LLMS.values(), ids=LLMS)
async def test_an_object_is_read(llm: ConductorLLM) -> None:
    """From text or from a call, however it is asked for; a stream has it once, and last."""
    chat, trip = llm.as_structured_llm(Trip), Trip(city="Bern", days=2)
    found = [await llm.astructured_predict(Trip, WHERE), llm.structured_predict(Trip, WHERE)]
    assert [*found, (await chat.achat(ASKED)).raw, chat.chat(ASKED).raw] == [trip] * 4
    if STREAMS_TEXT or llm.metadata.is_function_calling_model:
        pieces = [piece async for piece in await llm.astream_structured_predict(Trip, WHERE)]
        assert (pieces[-1], list(llm.stream_structured_predict(Trip, WHERE))[-1]) == (trip, trip)


@pytest.mark.parametrize("text", ['{"city": "Bern", "days": "x"}', CUT])
async def test_an_answer_that_is_no_object_raises(text: str) -> None:
    """With the run's result, however it is asked for; nothing is made up, and nothing blank is streamed."""
    llm = _over(ScriptedWorker("writer", text))
    chat, pieces = llm.as_structured_llm(Trip), list[Any]()

    async def stream() -> None:
        async for piece in await llm.astream_structured_predict(Trip, WHERE):
            pieces.append(piece)

    with pytest.raises(RunFailed, match="cannot be read as Trip") as raised:
        chat.chat(ASKED)
    assert raised.value.result.answer == text
    asks = [lambda: llm.astructured_predict(Trip, WHERE), lambda: chat.achat(ASKED)]
    for ask in [*asks, stream] if STREAMS_TEXT else asks:
        with pytest.raises(RunFailed, match="cannot be read as Trip"):
            await ask()
    assert all(piece.model_dump(exclude_none=True) for piece in pieces)


@pytest.mark.parametrize(("arguments", "name"), [(CUT, "Choice"), ("{}", "Other")])
async def test_arguments_that_are_no_object_raise(arguments: str, name: str) -> None:
    """They are not completed, nor are defaults taken in their place, nor the call of another tool."""
    llm = _calling(arguments, name)

    async def stream() -> None:
        [piece async for piece in await llm.astream_structured_predict(Choice, WHERE)]

    for ask in (lambda: llm.astructured_predict(Choice, WHERE), stream):
        with pytest.raises(RunFailed, match="cannot be read as Choice"):
            await ask()
