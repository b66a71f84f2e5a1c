"""Users of LangChain and LangGraph notice an incomplete answer, whichever face they use."""

from typing import Any, Final

import pytest
from contracts.incomplete_contract import (
    OBJECT,
    QUESTION,
    Ask,
    Face,
    Seen,
    calling,
    check_noticed,
    check_passed_on,
    check_refused,
    conductor_of,
)
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.output_parsers import JsonOutputParser, PydanticOutputParser, StrOutputParser
from langgraph.graph import START, StateGraph
from pydantic import BaseModel
from typing_extensions import TypedDict

from langchain_podium import ChatPodium, ConductorRunnable, as_worker
from langchain_podium.graph import conductor_node, create_conductor_agent
from podium import Conductor

pytestmark = pytest.mark.anyio
ASKED: Final[dict[str, Any]] = {"messages": [HumanMessage(QUESTION)]}


class Value(BaseModel):
    """An object."""

    value: int


class State(TypedDict, total=False):
    """A state without messages."""

    question: str
    answer: str


def graph_of(conductor: Conductor, **options: Any) -> Any:
    """Return a graph with a conductor as a node, which writes text."""
    graph = StateGraph(State)
    node = conductor_node(conductor, input="question", **options)
    graph.add_node("ask", node).add_edge(START, "ask")
    return graph.compile()


async def runnable(conductor: Conductor) -> Seen:
    """Invoke a Runnable."""
    return Seen(await ConductorRunnable(conductor).ainvoke(QUESTION))


async def runnable_stream(conductor: Conductor) -> Seen:
    """Stream a Runnable."""
    return Seen("".join([piece async for piece in ConductorRunnable(conductor).astream(QUESTION)]))


async def runnable_batch(conductor: Conductor) -> Seen:
    """Run a batch of one."""
    return Seen((await ConductorRunnable(conductor).abatch([QUESTION]))[0])


async def tool(conductor: Conductor) -> Seen:
    """Call a tool."""
    return Seen(await ConductorRunnable(conductor).as_tool(name="ask_team").ainvoke(QUESTION))


async def chat(conductor: Conductor) -> Seen:
    """Invoke a chat model."""
    return _message(await ChatPodium(conductor=conductor).ainvoke(QUESTION))


async def chat_stream(conductor: Conductor) -> Seen:
    """Stream a chat model."""
    whole: Any = None
    async for chunk in ChatPodium(conductor=conductor).astream(QUESTION):
        whole = chunk if whole is None else whole + chunk
    return _message(whole)


async def chat_text(conductor: Conductor) -> Seen:
    """Read only the text of a chat model."""
    return Seen(await (ChatPodium(conductor=conductor) | StrOutputParser()).ainvoke(QUESTION))


async def chat_again(conductor: Conductor) -> Seen:
    """Ask in a conversation in which the answer was incomplete."""
    model = ChatPodium(conductor=conductor)
    first = await model.ainvoke(QUESTION)
    return _message(await model.ainvoke([HumanMessage(QUESTION), first, HumanMessage(QUESTION)]))


async def node(conductor: Conductor) -> Seen:
    """Run a node that writes text."""
    return Seen((await graph_of(conductor).ainvoke({"question": QUESTION}))["answer"])


async def node_of_langgraph(conductor: Conductor) -> Seen:
    """Run a node whose steps are nodes."""
    return Seen((await graph_of(conductor, executor="langgraph").ainvoke({"question": QUESTION}))["answer"])


async def agent(conductor: Conductor) -> Seen:
    """Run an agent."""
    return _message((await create_conductor_agent(conductor).ainvoke(ASKED))["messages"][-1])


async def agent_stream(conductor: Conductor) -> Seen:
    """Read the messages of an agent as they are written."""
    graph = create_conductor_agent(conductor)
    return Seen("".join([chunk.text async for chunk, _ in graph.astream(ASKED, stream_mode="messages")]))


def _message(message: Any) -> Seen:
    assert isinstance(message, AIMessage)
    return Seen(message.text, message.response_metadata["finish_reason"])


TEXT_FACES: Final = (
    *(runnable, runnable_stream, runnable_batch, tool, chat_text),
    *(node, node_of_langgraph, agent_stream),
)
CHAT_FACES: Final = (chat, chat_stream, chat_again, agent)


@pytest.mark.parametrize("ask", TEXT_FACES, ids=lambda ask: ask.__name__)
async def test_a_user_of_text_notices(ask: Ask) -> None:
    """By the last sentence."""
    await check_noticed(ask)


@pytest.mark.parametrize("ask", CHAT_FACES, ids=lambda ask: ask.__name__)
async def test_a_user_of_messages_notices(ask: Ask) -> None:
    """By the finish reason, too."""
    await check_noticed(ask, Face(complete="stop", incomplete="length"))


CALL: Final = calling("Value")


@pytest.mark.parametrize("method", ["function_calling", "json_schema", "json_mode"])
@pytest.mark.parametrize("is_streamed", [False, True])
async def test_an_incomplete_object_is_an_error(method: Any, is_streamed: bool) -> None:  # noqa: FBT001
    """Of LangChain's parsers, or of the run."""

    async def ask(conductor: Conductor) -> Any:
        asks = ChatPodium(conductor=conductor).with_structured_output(Value, method=method)
        if is_streamed:
            return [found async for found in asks.astream(QUESTION)][-1].value
        return (await asks.ainvoke(QUESTION)).value

    await check_refused(ask, CALL if method == "function_calling" else OBJECT)


@pytest.mark.parametrize("face", [ConductorRunnable, ChatPodium], ids=["runnable", "chat model"])
@pytest.mark.parametrize("parser", [JsonOutputParser(), PydanticOutputParser(pydantic_object=Value)])
@pytest.mark.parametrize("is_streamed", [False, True])
async def test_partial_raise_before_a_parser(face: Any, parser: Any, is_streamed: bool) -> None:  # noqa: FBT001
    """Parsers of JSON drop the sentence after an object."""

    async def ask(conductor: Conductor) -> Any:
        chain = face(conductor=conductor, partial="raise") | parser
        found = (
            [each async for each in chain.astream(QUESTION)]
            if is_streamed
            else [await chain.ainvoke(QUESTION)]
        )
        return dict(found[-1])["value"]

    await check_refused(ask, OBJECT)


async def test_an_incomplete_object_is_beside_its_message() -> None:
    """With `include_raw`, the error is where LangChain has errors."""
    model = ChatPodium(conductor=conductor_of(OBJECT, is_complete=False))
    asks = model.with_structured_output(Value, method="json_mode", include_raw=True)
    found = await asks.ainvoke(QUESTION)
    assert found["parsed"] is None
    assert "out of order" in str(found["parsing_error"])


@pytest.mark.parametrize("answer", [CALL, OBJECT], ids=["call", "text"])
async def test_an_incomplete_response_of_an_agent_is_an_error(answer: Any) -> None:
    """Its state has no other place for it."""

    async def ask(conductor: Conductor) -> Any:
        state = await create_conductor_agent(conductor, response_format=Value).ainvoke(ASKED)
        return state["structured_response"].value

    await check_refused(ask, answer)


async def test_a_tool_passes_it_on() -> None:
    """To the run of another conductor."""
    inner = ConductorRunnable(conductor_of(is_complete=False)).as_tool(name="ask_team", description="Asks.")
    await check_passed_on(as_worker(inner))
