"""Structured answers of a conductor as an LLM: read, or an error."""

from typing import Any

import pytest
from llama_index.core.llms import ChatMessage
from llama_index.core.program import LLMTextCompletionProgram
from llama_index.core.prompts import PromptTemplate
from pydantic import BaseModel

from llama_index_podium import ConductorLLM
from podium import Conductor, Plan, ScriptedWorker, Step
from podium.errors import RunFailed
from podium.hosts import tool_call
from podium.planners import FixedPlanner
from podium.types import Completion
from podium.workers import StepInput, Worker
from podium.workers.simple import FunctionWorker

pytestmark = pytest.mark.anyio

ASKED = [ChatMessage("How warm is it?")]
WHERE = PromptTemplate("Where?")
STREAMS_TEXT = "stream_call" in vars(LLMTextCompletionProgram)
"""Whether this version of LlamaIndex streams objects that are read from text."""
CUT = '{"days": 2, "city": "Ber'


class Trip(BaseModel):
    """A place, and for how long."""

    city: str
    days: int


class Choice(BaseModel):
    """All of it may be left out."""

    city: str = "Rome"


class Calling(ScriptedWorker):
    """Calls tools."""

    takes_tools = True


def over(worker: Worker) -> ConductorLLM:
    """Return an LLM over one worker."""
    return ConductorLLM(Conductor(FixedPlanner(Plan((Step(0, "write"),))), [worker]))


def calling(arguments: str, name: str = "Trip") -> ConductorLLM:
    """Return an LLM whose worker calls the tool with these arguments."""
    call = {"id": "c1", "type": "function", "function": {"name": name, "arguments": arguments}}
    return over(Calling("caller", Completion("", "tool_calls", tool_calls=(call,))))


@pytest.mark.parametrize(
    "llm",
    [
        over(ScriptedWorker("writer", 'Here it is: {"city": "Bern", "days": 2}')),
        calling('{"city": "Bern", "days": 2}'),
    ],
    ids=["text", "call"],
)
async def test_an_object_is_read(llm: ConductorLLM) -> None:
    """From text or from a call, however it is asked for; a stream has it once, and last."""
    chat, trip = llm.as_structured_llm(Trip), Trip(city="Bern", days=2)
    found = [
        await llm.astructured_predict(Trip, WHERE),
        llm.structured_predict(Trip, WHERE),
        (await chat.achat(ASKED)).raw,
        chat.chat(ASKED).raw,
    ]
    assert found == [trip] * 4
    if STREAMS_TEXT or llm.metadata.is_function_calling_model:
        pieces = [piece async for piece in await llm.astream_structured_predict(Trip, WHERE)]
        assert (pieces[-1], list(llm.stream_structured_predict(Trip, WHERE))[-1]) == (trip, trip)


@pytest.mark.parametrize("text", ["I do not know.", '{"city": "Bern"}', '{"city": "Bern", "days": "x"}', CUT])
async def test_an_answer_that_is_no_object_raises(text: str) -> None:
    """With the run's result, however it is asked for; nothing is made up, and nothing blank is streamed."""
    llm = over(ScriptedWorker("writer", text))
    chat, pieces = llm.as_structured_llm(Trip), list[Any]()

    async def stream() -> None:
        async for piece in await llm.astream_structured_predict(Trip, WHERE):
            pieces.append(piece)

    def stream_sync() -> None:
        for piece in llm.stream_structured_predict(Trip, WHERE):
            pieces.append(piece)

    sync = [lambda: llm.structured_predict(Trip, WHERE), lambda: chat.chat(ASKED)]
    for ask in [*sync, stream_sync] if STREAMS_TEXT else sync:
        with pytest.raises(RunFailed, match="cannot be read as Trip") as raised:
            ask()
        assert raised.value.result.answer == text
    others = [lambda: llm.astructured_predict(Trip, WHERE), lambda: chat.achat(ASKED)]
    for ask_async in [*others, stream] if STREAMS_TEXT else others:
        with pytest.raises(RunFailed, match="cannot be read as Trip"):
            await ask_async()
    assert all(piece.model_dump(exclude_none=True) for piece in pieces)


@pytest.mark.parametrize(
    "end",
    [
        Completion('{"city": "Bern", "days": 2}', "length"),
        Completion("", "length", tool_calls=(tool_call("c1", "Trip", {"city": "Bern", "days": 2}),)),
    ],
    ids=["text", "call"],
)
async def test_an_object_that_was_cut_raises(end: Completion) -> None:
    """It could be read, but its end is missing."""
    llm = over(Calling("caller", end) if end.tool_calls else ScriptedWorker("writer", end))
    chat = llm.as_structured_llm(Trip)
    with pytest.raises(RunFailed):
        await llm.astructured_predict(Trip, WHERE)
    with pytest.raises(RunFailed):
        chat.chat(ASKED)


@pytest.mark.parametrize(
    ("arguments", "name"), [(CUT, "Choice"), ("Bern", "Choice"), ('{"city": 3}', "Choice"), ("{}", "Other")]
)
async def test_arguments_that_are_no_object_raise(arguments: str, name: str) -> None:
    """They are not completed, nor are defaults taken in their place, nor the call of another tool."""
    llm = calling(arguments, name)

    async def stream() -> None:
        [piece async for piece in await llm.astream_structured_predict(Choice, WHERE)]

    for ask in (lambda: llm.astructured_predict(Choice, WHERE), stream):
        with pytest.raises(RunFailed, match="cannot be read as Choice"):
            await ask()


async def test_a_mistake_in_the_users_own_code_stays_as_it_is() -> None:
    """It is no answer that could not be read."""

    def mistaken(step_input: StepInput) -> str:
        raise TypeError("a mistake")

    with pytest.raises(TypeError, match="a mistake"):
        await over(FunctionWorker(mistaken)).astructured_predict(Trip, WHERE)
