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
from servers.chat_server import ChatServer, Reply, chunk, events, whole

from langchain_podium import ChatPodium, ConductorRunnable, as_worker
from langchain_podium.graph import create_conductor_agent
from podium import Conductor, Limits, Plan, ScriptedWorker, Step
from podium.errors import ConfigError, ToolFailed, WorkerBroken, WorkerError, WorkerFailed
from podium.execution import Retry
from podium.planners import FixedPlanner
from podium.types import Message
from podium.workers import ChatWorker, Endpoint, Request, Worker, complete

pytestmark = pytest.mark.anyio

TEXT = {"type": "text", "text": "It is a chart."}
IMAGE = {"type": "image", "base64": "AAAA", "mime_type": "image/png"}
LINK = {"type": "file", "url": "https://example.org/a.pdf"}
HINTS = [({}, 1), ({"idempotentHint": True}, 2), ({"readOnlyHint": True}, 2)]
STATED = "not passed on, since the output of a step is text: an image (image/png)"


def tool(returned: Any, *, artifact: Any = None, **facts: Any) -> StructuredTool:
    """Return a tool as the adapters of MCP make them: content blocks, and an artifact."""

    async def look(name: str) -> Any:
        del name
        return returned, artifact

    return StructuredTool.from_function(
        coroutine=look, name="look", description="Looks.", response_format="content_and_artifact", **facts
    )


def asked(*, stream: bool = False) -> Request:
    """Return a request of one word."""
    return Request(messages=(Message("user", "chart"),), stream=stream)


@pytest.mark.parametrize(
    ("returned", "artifact", "text"),
    [
        ([TEXT], None, "It is a chart."),
        ([TEXT, LINK], None, "It is a chart.\n\nfile: https://example.org/a.pdf"),
        ([], {"structured_content": {"n": 1}}, '{"structured_content": {"n": 1}}'),
        ([], None, "The tool succeeded and returned nothing."),
        ("plain", {"n": 1}, "plain"),
    ],
)
async def test_content_blocks_become_text(returned: Any, artifact: Any, text: str) -> None:
    """The planner's other steps are shown what a tool says, and not how its host writes that."""
    answer = await complete(as_worker(tool(returned, artifact=artifact)), asked())
    assert (answer.text, answer.missing) == (text, None)


async def test_what_is_no_text_is_stated() -> None:
    """An image is a gap in the output, and the run is partial; alone it is an error."""
    worker = as_worker(tool([TEXT, IMAGE]))
    answer = await complete(worker, asked())
    assert (answer.text, answer.missing) == (f"It is a chart.\n\n[{STATED}]", STATED)
    result = await Conductor(FixedPlanner(Plan((Step(0, "chart"),))), [worker]).run("Q?")
    assert result.status == "partial"
    with pytest.raises(WorkerFailed, match="an image"):
        await complete(as_worker(tool([IMAGE])), asked())


async def test_an_image_of_a_model_is_stated() -> None:
    """A model that draws beside its words has not said all of it in words."""
    message = AIMessage([TEXT, IMAGE], response_metadata={"finish_reason": "stop"})
    model = GenericFakeChatModel(messages=iter([message]))
    answer = await complete(as_worker(model, name="artist"), asked())
    assert (answer.text, answer.missing) == ("It is a chart.", STATED)


async def test_a_list_of_plain_values_is_json() -> None:
    """Only content blocks are read as such."""

    def names() -> list[Any]:
        """List names."""
        return ["a", {"b": 1}]

    answer = await complete(as_worker(StructuredTool.from_function(names)), asked())
    assert answer.text == '["a", {"b": 1}]'


@pytest.mark.parametrize("form", ["content", "content_and_artifact"])
async def test_an_error_that_a_tool_handles_itself_is_no_answer(form: Any) -> None:
    """What tools of MCP servers do with `handle_tool_error` is told as a failure."""

    async def fails(name: str) -> Any:
        raise ToolException(f"no {name}")

    failing = StructuredTool.from_function(
        coroutine=fails,
        name="f",
        description="F.",
        response_format=form,
        handle_tool_error=True,
    )
    with pytest.raises(ToolFailed, match="no chart"):
        await complete(as_worker(failing), asked())


class Form(BaseModel):
    """An answer in a form."""

    value: int


def agent(name: str | None, **state: Any) -> Any:
    """Return a graph that answers at once, as an agent does at its end."""

    class State(MessagesState):
        structured_response: Any

    graph = StateGraph(State)
    graph.add_node("model", lambda _: {"messages": [AIMessage("Returning a structured response")], **state})
    graph.add_edge(START, "model")
    return graph.compile(name=name)


async def test_an_agents_structured_response_is_its_answer() -> None:
    """Its last message only says that there is one."""
    answer = await complete(as_worker(agent("counter", structured_response=Form(value=42))), asked())
    assert answer.text == '{"value": 42}'
    assert (await complete(as_worker(agent("plain")), asked())).text == "Returning a structured response"


def test_an_unnamed_agent_is_refused() -> None:
    """All of them would be called the same; the error says how to name one."""
    with pytest.raises(ConfigError, match=r"name='\.\.\.'"):
        as_worker(agent(None))
    assert as_worker(agent(None), name="counter").card.name == "counter"
    assert as_worker(agent("counter")).card.name == "counter"


@pytest.mark.parametrize(("metadata", "calls"), HINTS)
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
    limits, retry = Limits(attempt_seconds=0.2), Retry(attempts=2)
    conductor = Conductor(FixedPlanner(Plan((Step(0, "x"),))), [as_worker(mail)], limits=limits, retry=retry)
    result = await conductor.run("Q?")
    assert (result.status, made) == ("failed", calls)
    assert result.outcomes[0].maybe_paid


async def _error(worker: Worker, *, stream: bool) -> tuple[str, bool]:
    with pytest.raises(WorkerError) as caught:
        await complete(worker, asked(stream=stream))
    return caught.value.code, caught.value.maybe_paid


def _late(error: dict[str, Any]) -> Reply:
    return events(chunk({"content": "Hi"}), chunk({}, finish_reason="stop"), {"error": error})


@pytest.mark.parametrize("stream", [False, True])
async def test_a_text_in_place_of_json_is_a_broken_answer(*, stream: bool) -> None:
    """As for Podium's own workers, however the model is asked."""
    async with ChatServer(lambda _: whole("hello", content_type="text/plain")) as server:
        model = ChatOpenAI(model="m", base_url=server.url, api_key="none", max_retries=0)
        own = await _error(ChatWorker("m", endpoint=Endpoint(server.url)), stream=stream)
        assert await _error(as_worker(model), stream=stream) == own == (WorkerBroken.code, True)


@pytest.mark.parametrize(
    "error",
    [
        {"message": "server melted", "type": "server_error", "code": 500},
        {"message": "odd"},
        {"message": "too many requests", "code": "rate_limit_exceeded"},
        {"message": "no", "type": "content_filter"},
    ],
)
async def test_an_error_after_the_finish_reason_is_told_as_core_tells_it(error: dict[str, Any]) -> None:
    """A server that reports an error has not ended well, whatever it said before."""
    async with ChatServer(lambda _: _late(error)) as server:
        model = ChatOpenAI(model="m", base_url=server.url, api_key="none", max_retries=0)
        own = await _error(ChatWorker("m", endpoint=Endpoint(server.url)), stream=True)
        assert await _error(as_worker(model), stream=True) == own


def _wrapped(conductor: Conductor) -> dict[str, Any]:
    chat = ChatPodium(conductor=conductor)
    return {
        "bound": chat.bind(stop=["never"]),
        "retried": chat.with_retry(),
        "chain": ConductorRunnable(conductor) | str,
        "agent": create_conductor_agent(conductor, name="team"),
        "agent-langgraph": create_conductor_agent(conductor, name="team", executor="langgraph"),
        "graph": _graph(chat),
    }


def _graph(chat: ChatPodium) -> Any:
    graph = StateGraph(MessagesState)
    graph.add_node("model", lambda state: {"messages": [chat.invoke(state["messages"])]})
    graph.add_edge(START, "model")
    return graph.compile(name="around")


@pytest.mark.parametrize("kind", ["bound", "retried", "chain", "agent", "agent-langgraph", "graph"])
async def test_a_wrapped_conductor_stays_within_the_limits_of_the_run_around_it(kind: str) -> None:
    """However it is wrapped, its calls count; and its step is billed for them."""
    plan = Plan((Step(0, "one"), Step(0, "two", (0,)), Step(0, "three", (1,))))
    writer = ScriptedWorker("writer", "written")
    inner = Conductor(FixedPlanner(plan), [writer])
    worker = as_worker(_wrapped(inner)[kind], name="inner")
    steps = Plan((Step(0, "first"), Step(0, "then", (0,))))
    enough = await Conductor(FixedPlanner(steps), [worker], limits=Limits(calls=8)).run("Q?")
    assert (enough.status, enough.answer, len(writer.requests)) == ("ok", "written", 6)
    assert enough.usage.total_tokens > 0
    few = await Conductor(FixedPlanner(steps), [worker], limits=Limits(calls=4)).run("Q?")
    assert few.status != "ok"
    assert len(writer.requests) - 6 <= 4
