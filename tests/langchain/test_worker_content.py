"""What tools and agents return besides plain text, tools that may not be called twice, and odd servers."""

import asyncio
from typing import Any

import pytest
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.tools import StructuredTool, ToolException
from langchain_openai import ChatOpenAI
from langgraph.graph import START, MessagesState, StateGraph
from pydantic import BaseModel
from servers.chat_server import ChatServer, chunk, events

from langchain_podium import as_worker
from podium import Conductor, Limits, Plan, Step
from podium.errors import ConfigError, ToolFailed, WorkerError, WorkerFailed
from podium.execution import Retry
from podium.planners import FixedPlanner
from podium.types import Message
from podium.workers import ChatWorker, Endpoint, Request, Worker, complete

pytestmark = pytest.mark.anyio

TEXT = {"type": "text", "text": "It is a chart."}
IMAGE = {"type": "image", "base64": "AAAA", "mime_type": "image/png"}
LINK = {"type": "file", "url": "https://example.org/a.pdf"}
STATED = "not passed on, since the output of a step is text: an image (image/png)"


def _tool(returned: Any, *, artifact: Any = None, **facts: Any) -> StructuredTool:
    """Return a tool as the adapters of MCP make them: content blocks, and an artifact."""

    async def look(name: str) -> Any:
        del name
        return returned, artifact

    return StructuredTool.from_function(
        coroutine=look, name="look", description="Looks.", response_format="content_and_artifact", **facts
    )


def _asked(*, stream: bool = False) -> Request:
    return Request(messages=(Message("user", "chart"),), stream=stream)


async def test_what_a_tool_returns_becomes_text() -> None:
    """Content blocks are read as such; a list of plain values, and an artifact alone, are JSON."""

    def names() -> list[Any]:
        """List names."""
        return ["a", {"b": 1}]

    told = {
        "It is a chart.\n\nfile: https://example.org/a.pdf": _tool([TEXT, LINK]),
        '{"structured_content": {"n": 1}}': _tool([], artifact={"structured_content": {"n": 1}}),
        "The tool succeeded and returned nothing.": _tool([]),
        "plain": _tool("plain", artifact={"n": 1}),
        '["a", {"b": 1}]': StructuredTool.from_function(names),
    }
    answers = [await complete(as_worker(each), _asked()) for each in told.values()]
    assert [(answer.text, answer.missing) for answer in answers] == [(text, None) for text in told]


async def test_what_is_no_text_is_stated() -> None:
    """An image is a gap in the output, and the run is partial; alone it is an error."""
    worker = as_worker(_tool([TEXT, IMAGE]))
    answer = await complete(worker, _asked())
    assert (answer.text, answer.missing) == (f"It is a chart.\n\n[{STATED}]", STATED)
    result = await Conductor(FixedPlanner(Plan((Step(0, "chart"),))), [worker]).run("Q?")
    assert result.status == "partial"
    with pytest.raises(WorkerFailed, match="an image"):
        await complete(as_worker(_tool([IMAGE])), _asked())
    message = AIMessage([TEXT, IMAGE], response_metadata={"finish_reason": "stop"})
    model = GenericFakeChatModel(messages=iter([message]))
    answer = await complete(as_worker(model, name="artist"), _asked())
    assert (answer.text, answer.missing) == ("It is a chart.", STATED)


async def test_an_error_that_a_tool_handles_itself_is_no_answer() -> None:
    """What tools of MCP servers do with `handle_tool_error` is told as a failure."""

    async def fails(name: str) -> Any:
        raise ToolException(f"no {name}")

    failing = StructuredTool.from_function(
        coroutine=fails, name="f", description="F.", handle_tool_error=True
    )
    with pytest.raises(ToolFailed, match="no chart"):
        await complete(as_worker(failing), _asked())


class Form(BaseModel):
    """An answer in a form."""

    value: int


def _agent(name: str | None, **state: Any) -> Any:
    """Return a graph that answers at once, as an agent does at its end."""

    class State(MessagesState):
        structured_response: Any

    graph = StateGraph(State)
    graph.add_node("model", lambda _: {"messages": [AIMessage("Returning a structured response")], **state})
    graph.add_edge(START, "model")
    return graph.compile(name=name)


async def test_an_agents_structured_response_is_its_answer() -> None:
    answer = await complete(as_worker(_agent("counter", structured_response=Form(value=42))), _asked())
    assert answer.text == '{"value": 42}'
    assert (await complete(as_worker(_agent("plain")), _asked())).text == "Returning a structured response"


def test_an_unnamed_agent_is_refused() -> None:
    """All of them would be called the same; the error says how to name one."""
    with pytest.raises(ConfigError, match=r"name='\.\.\.'"):
        as_worker(_agent(None))
    assert as_worker(_agent(None), name="counter").card.name == "counter"
    assert as_worker(_agent("counter")).card.name == "counter"


@pytest.mark.parametrize(("metadata", "calls"), [({}, 1), ({"idempotentHint": True}, 2)])
async def test_a_tool_that_times_out_may_have_done_its_work(metadata: dict[str, Any], calls: int) -> None:
    """It is not called again, unless its annotations say that this does no harm."""
    made = 0

    async def send(name: str) -> str:
        """Send mail."""
        nonlocal made
        made += 1
        await asyncio.sleep(30)
        return name

    mail = StructuredTool.from_function(coroutine=send, name="mail", description="Mails.", metadata=metadata)
    limits, retry = Limits(attempt_seconds=0.05), Retry(attempts=2, first_wait=0.001)
    conductor = Conductor(FixedPlanner(Plan((Step(0, "x"),))), [as_worker(mail)], limits=limits, retry=retry)
    result = await conductor.run("Q?")
    assert (result.status, made) == ("failed", calls)
    assert result.outcomes[0].maybe_paid


async def _error(worker: Worker, *, stream: bool) -> tuple[str, bool]:
    with pytest.raises(WorkerError) as caught:
        await complete(worker, _asked(stream=stream))
    return caught.value.code, caught.value.maybe_paid


async def test_an_error_after_the_finish_reason_is_told_as_core_tells_it() -> None:
    """A server that reports an error has not ended well, whatever it said before."""
    error = {"message": "too many requests", "code": "rate_limit_exceeded"}
    late = events(chunk({"content": "Hi"}), chunk({}, finish_reason="stop"), {"error": error})
    async with ChatServer(lambda _: late) as server:
        model = ChatOpenAI(model="m", base_url=server.url, api_key="none", max_retries=0)
        own = await _error(ChatWorker("m", endpoint=Endpoint(server.url)), stream=True)
        assert await _error(as_worker(model), stream=True) == own
