"""A hosted conductor behind the query engine and the LLM."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from llama_index.core.base.response.schema import AsyncStreamingResponse
from llama_index.core.llms import ChatMessage
from llama_index.core.prompts import PromptTemplate
from llama_index.core.tools import FunctionTool
from pydantic import BaseModel
from servers.capable import capable
from servers.chat_server import ChatServer, says

from llama_index_podium import ConductorLLM, ConductorQueryEngine, as_worker
from podium import Endpoint, HostedConductor
from podium.errors import ConfigError, RunFailed

pytestmark = pytest.mark.anyio


@pytest.fixture
async def server() -> AsyncIterator[ChatServer]:
    """Yield a server that answers like a capable model."""
    async with ChatServer(capable) as serving:
        yield serving


def hosted(server: ChatServer) -> HostedConductor:
    """Return a conductor that `server` hosts."""
    return HostedConductor("fugu", endpoint=Endpoint(server.url, api_key="key"), api="chat")


async def test_the_engine_answers(server: ChatServer) -> None:
    """Whole, streamed and in code that is not async; it has no nodes, no plan and no prompts."""
    engine = ConductorQueryEngine(hosted(server))
    response = await engine.aquery("What of Acme?")
    assert str(response) == str(await asyncio.to_thread(engine.query, "What of Acme?"))
    assert "Acme" in server.calls[0].body["messages"][0]["content"]
    assert response.metadata is not None
    assert (response.metadata["status"], response.metadata["plan"], response.source_nodes) == ("ok", None, [])
    assert response.metadata["usage"]["total_tokens"] > 0
    streamed = await ConductorQueryEngine(hosted(server), streaming=True).aquery("What of Acme?")
    assert isinstance(streamed, AsyncStreamingResponse)
    assert "".join([piece async for piece in streamed.async_response_gen()]) == str(response)
    assert streamed.metadata is not None
    assert streamed.metadata["status"] == "ok"
    assert engine.get_prompts() == {}


class Place(BaseModel):
    """A place."""

    city: str


async def test_the_llm_answers_and_calls_tools(server: ChatServer) -> None:
    """It is a function-calling model, and structured answers are its tool calls."""

    def weather(city: str) -> str:
        """Say how warm it is in a city."""
        return f"12 degrees in {city}"

    llm = ConductorLLM(hosted(server))
    assert (llm.metadata.model_name, llm.metadata.is_function_calling_model) == ("fugu", True)
    response = await llm.achat([ChatMessage("What?")])
    pieces = [piece async for piece in await llm.astream_chat([ChatMessage("What?")])]
    assert response.message.content == pieces[-1].message.content
    assert response.raw["podium"]["steps"] == response.raw["source_nodes"] == []  # type: ignore[index]
    asked = await llm.achat_with_tools([FunctionTool.from_defaults(weather)], "Bern?", tool_required=True)
    assert [call.tool_name for call in llm.get_tool_calls_from_response(asked)] == ["weather"]
    assert isinstance(await llm.astructured_predict(Place, PromptTemplate("Where?")), Place)


async def test_a_refusal_of_the_server_raises() -> None:
    """With the result, as for a conductor that runs here."""
    async with ChatServer(lambda call: says(call, "", finish_reason="content_filter")) as server:
        with pytest.raises(RunFailed) as raised:
            await ConductorQueryEngine(hosted(server)).aquery("?")
    assert raised.value.result.status == "failed"


def test_as_a_worker_it_is_refused() -> None:
    """With what to write instead."""
    endpoint = Endpoint("http://127.0.0.1:9/v1", api_key="key")
    engine = ConductorQueryEngine(HostedConductor("fugu", endpoint=endpoint))
    with pytest.raises(ConfigError, match="ChatWorker"):
        as_worker(engine)
