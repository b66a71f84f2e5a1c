"""Users of LangChain and LangGraph notice an incomplete answer, whichever face they use."""

from collections.abc import AsyncIterator, Callable
from operator import itemgetter
from typing import Any, Final

import pytest
from contracts.incomplete_contract import (
    OBJECT,
    QUESTION,
    Face,
    Seen,
    calling,
    check_noticed,
    check_passed_on,
    check_refused,
    conductor_of,
)
from langchain_core.messages import HumanMessage
from langchain_core.output_parsers import JsonOutputParser, StrOutputParser
from langchain_core.runnables import RunnableLambda
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


def _node(conductor: Conductor, **options: Any) -> Any:
    """Return what asks a graph with a conductor as a node, which writes text."""
    node = conductor_node(conductor, input="question", **options)
    graph = StateGraph(State).add_node("ask", node).add_edge(START, "ask").compile()
    return (RunnableLambda(lambda asked: {"question": asked}) | graph | itemgetter("answer")).ainvoke(
        QUESTION
    )


async def _joined(stream: AsyncIterator[Any]) -> str:
    return "".join([piece if isinstance(piece, str) else piece[0].text async for piece in stream])


async def _added(stream: AsyncIterator[Any]) -> Any:
    first, *others = [chunk async for chunk in stream]
    return sum(others, first)


async def _again(conductor: Conductor) -> Any:
    model = ChatPodium(conductor=conductor)
    first = await model.ainvoke(QUESTION)
    return await model.ainvoke([HumanMessage(QUESTION), first, HumanMessage(QUESTION)])


async def _agent(conductor: Conductor) -> Any:
    return (await create_conductor_agent(conductor).ainvoke(ASKED))["messages"][-1]


TEXTS: Final[dict[str, Callable[[Conductor], Any]]] = {
    "runnable": lambda made: ConductorRunnable(made).ainvoke(QUESTION),
    "stream": lambda made: _joined(ConductorRunnable(made).astream(QUESTION)),
    "tool": lambda made: ConductorRunnable(made).as_tool(name="ask_team").ainvoke(QUESTION),
    "text of a chat model": lambda made: (ChatPodium(conductor=made) | StrOutputParser()).ainvoke(QUESTION),
    "node": _node,
    "nodes": lambda made: _node(made, executor="langgraph"),
    "messages": lambda made: _joined(create_conductor_agent(made).astream(ASKED, stream_mode="messages")),
}
MESSAGES: Final[dict[str, Callable[[Conductor], Any]]] = {
    "chat model": lambda made: ChatPodium(conductor=made).ainvoke(QUESTION),
    "stream": lambda made: _added(ChatPodium(conductor=made).astream(QUESTION)),
    "conversation": _again,
    "agent": _agent,
}


@pytest.mark.parametrize("face", TEXTS)
async def test_a_user_of_text_notices(face: str) -> None:
    async def ask(conductor: Conductor) -> Seen:
        return Seen(await TEXTS[face](conductor))

    await check_noticed(ask)


@pytest.mark.parametrize("face", MESSAGES)
async def test_a_user_of_messages_notices(face: str) -> None:
    async def ask(conductor: Conductor) -> Seen:
        message = await MESSAGES[face](conductor)
        return Seen(message.text, message.response_metadata["finish_reason"])

    await check_noticed(ask, Face(complete="stop", incomplete="length"))


CALL: Final = calling("Value")


@pytest.mark.parametrize(
    ("method", "is_streamed"), [("function_calling", False), ("json_schema", True), ("json_mode", True)]
)
async def test_an_incomplete_object_is_an_error(method: Any, *, is_streamed: bool) -> None:
    async def ask(conductor: Conductor) -> Any:
        asks = ChatPodium(conductor=conductor).with_structured_output(Value, method=method)
        if is_streamed:
            return [found async for found in asks.astream(QUESTION)][-1].value
        return (await asks.ainvoke(QUESTION)).value

    await check_refused(ask, CALL if method == "function_calling" else OBJECT)


@pytest.mark.parametrize("face", [ConductorRunnable, ChatPodium], ids=["runnable", "chat model"])
async def test_partial_raise_before_a_parser(face: Any) -> None:
    async def ask(conductor: Conductor) -> Any:
        chain = face(conductor=conductor, partial="raise") | JsonOutputParser()
        return (await chain.ainvoke(QUESTION))["value"]

    await check_refused(ask, OBJECT)


async def test_an_incomplete_response_of_an_agent_is_an_error() -> None:
    async def ask(conductor: Conductor) -> Any:
        state = await create_conductor_agent(conductor, response_format=Value).ainvoke(ASKED)
        return state["structured_response"].value

    await check_refused(ask, CALL)


async def test_a_tool_passes_it_on() -> None:
    inner = ConductorRunnable(conductor_of(is_complete=False)).as_tool(name="ask_team", description="Asks.")
    await check_passed_on(as_worker(inner))
