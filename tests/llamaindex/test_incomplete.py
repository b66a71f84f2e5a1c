"""Users of LlamaIndex notice an incomplete answer, whichever face they use."""

from collections.abc import Awaitable, Callable
from typing import Any, Final

import pytest
from contracts import incomplete_contract as contract
from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.llms import ChatMessage
from llama_index.core.prompts import PromptTemplate
from llama_index.core.tools import BaseTool

from llama_index_podium import (
    ConductorLLM,
    ConductorQueryEngine,
    ConductorRetriever,
    ConductorToolSpec,
    as_worker,
)
from podium import Conductor

pytestmark = pytest.mark.anyio
ASKED: Final = [ChatMessage(contract.QUESTION)]


def _tool_of(conductor: Conductor) -> BaseTool:
    return ConductorToolSpec(conductor).to_tool_list()[0]


async def _engine_stream(conductor: Conductor) -> str:
    response: Any = await ConductorQueryEngine(conductor, streaming=True).aquery(contract.QUESTION)
    return "".join([piece async for piece in response.async_response_gen()])


async def _chat_stream(conductor: Conductor) -> str:
    pieces = [piece async for piece in await ConductorLLM(conductor).astream_chat(ASKED)]
    text = "".join(piece.delta or "" for piece in pieces)
    assert pieces[-1].message.content == text
    return text


async def _chat_engine(conductor: Conductor) -> str:
    talk = SimpleChatEngine.from_defaults(llm=ConductorLLM(conductor))
    await talk.achat(contract.QUESTION)  # the first answer is in the second conversation
    return str(await talk.achat(contract.QUESTION))


async def _retriever(conductor: Conductor) -> str:
    return (await ConductorRetriever(conductor, answer=True).aretrieve(contract.QUESTION))[0].text


FACES: Final[dict[str, Callable[[Conductor], Awaitable[Any]]]] = {
    "tool": lambda made: _tool_of(made).acall(question=contract.QUESTION),
    "engine": lambda made: ConductorQueryEngine(made).aquery(contract.QUESTION),
    "engine's stream": _engine_stream,
    "retriever": _retriever,
    "chat engine": _chat_engine,
    "chat's stream": _chat_stream,
    "completion": lambda made: ConductorLLM(made).acomplete(contract.QUESTION),
}


@pytest.mark.parametrize("face", FACES)
async def test_a_user_notices(face: str) -> None:
    """By the last sentence, because LlamaIndex has no finish reason."""

    async def ask(conductor: Conductor) -> contract.Seen:
        return contract.Seen(str(await FACES[face](conductor)))

    await contract.check_noticed(ask)


async def _predicted_stream(conductor: Conductor) -> Any:
    asked = PromptTemplate(contract.QUESTION)
    stream = await ConductorLLM(conductor).astream_structured_predict(contract.Value, asked)
    return [piece async for piece in stream][-1].value


async def _structured_chat(conductor: Conductor) -> Any:
    return (await ConductorLLM(conductor).as_structured_llm(contract.Value).achat(ASKED)).raw.value


async def _json(conductor: Conductor) -> int:
    form = {"type": "json_schema", "json_schema": {"name": "v", "schema": contract.Value.model_json_schema()}}
    llm = ConductorLLM(conductor, response_format=form)
    return contract.Value.model_validate_json((await llm.acomplete(contract.QUESTION)).text).value


CALL: Final = contract.calling("Value")
OBJECTS: Final = [(_predicted_stream, CALL), (_structured_chat, CALL), (_json, contract.OBJECT)]


@pytest.mark.parametrize(("ask", "answer"), OBJECTS)
async def test_an_incomplete_object_is_an_error(ask: Any, answer: Any) -> None:
    await contract.check_refused(ask, answer)


async def test_the_arguments_of_a_tool_in_text_are_unchanged() -> None:
    """Agents that read tool calls from text would take the sentence for a part of them."""
    asked = 'Thought: I need a tool.\nAction: look\nAction Input: {"at": "it"}'
    llm = ConductorLLM(contract.conductor_of(asked, is_complete=False))
    assert (await llm.acomplete(contract.QUESTION)).text == asked


async def test_a_tool_passes_it_on() -> None:
    await contract.check_passed_on(as_worker(_tool_of(contract.conductor_of(is_complete=False))))
