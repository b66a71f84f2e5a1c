"""Users of LangChain and LangGraph notice an incomplete answer, whichever face they use."""

from collections.abc import AsyncIterator, Callable
from functools import partial
from operator import itemgetter
from typing import Any, Final

import pytest
from contracts import incomplete_contract as contract
from langchain_core.messages import HumanMessage
from langchain_core.output_parsers import JsonOutputParser, StrOutputParser
from langchain_core.runnables import RunnableLambda
from langgraph.graph import START, StateGraph
from typing_extensions import TypedDict

from langchain_podium import ChatPodium, ConductorRunnable, as_worker, conductor_node, create_conductor_agent
from podium import Conductor

pytestmark = pytest.mark.anyio
ASKED: Final[dict[str, Any]] = {"messages": [HumanMessage(contract.QUESTION)]}


class State(TypedDict, total=False):
    question: str
    answer: str


def _node(conductor: Conductor, **options: Any) -> Any:
    """Return what asks a graph with a conductor as a node, which writes text."""
    node = conductor_node(conductor, input="question", **options)
    graph = StateGraph(State).add_node("ask", node).add_edge(START, "ask").compile()
    asking = RunnableLambda(lambda asked: {"question": asked}) | graph | itemgetter("answer")
    return asking.ainvoke(contract.QUESTION)


async def _joined(stream: AsyncIterator[Any]) -> str:
    return "".join([piece if isinstance(piece, str) else piece[0].text async for piece in stream])


async def _added(stream: AsyncIterator[Any]) -> Any:
    first, *others = [chunk async for chunk in stream]
    return sum(others, first)


async def _again(conductor: Conductor) -> Any:
    model = ChatPodium(conductor=conductor)
    first = await model.ainvoke(contract.QUESTION)
    return await model.ainvoke([HumanMessage(contract.QUESTION), first, HumanMessage(contract.QUESTION)])


async def _agent(conductor: Conductor) -> Any:
    return (await create_conductor_agent(conductor).ainvoke(ASKED))["messages"][-1]


TEXTS: Final[dict[str, Callable[[Conductor], Any]]] = {
    "runnable": lambda made: ConductorRunnable(made).ainvoke(contract.QUESTION),
    "stream": lambda made: _joined(ConductorRunnable(made).astream(contract.QUESTION)),
    "tool": lambda made: ConductorRunnable(made).as_tool(name="ask_team").ainvoke(contract.QUESTION),
    "chat's text": lambda made: (ChatPodium(conductor=made) | StrOutputParser()).ainvoke(contract.QUESTION),
    "node": _node,
    "nodes": lambda made: _node(made, executor="langgraph"),
    "messages": lambda made: _joined(create_conductor_agent(made).astream(ASKED, stream_mode="messages")),
}
MESSAGES: Final[dict[str, Callable[[Conductor], Any]]] = {
    "chat model": lambda made: ChatPodium(conductor=made).ainvoke(contract.QUESTION),
    "stream": lambda made: _added(ChatPodium(conductor=made).astream(contract.QUESTION)),
    "conversation": _again,
    "agent": _agent,
}


@pytest.mark.parametrize("face", TEXTS)
async def test_a_user_of_text_notices(face: str) -> None:
    async def ask(conductor: Conductor) -> contract.Seen:
        return contract.Seen(await TEXTS[face](conductor))

    await contract.check_noticed(ask)


@pytest.mark.parametrize("face", MESSAGES)
async def test_a_user_of_messages_notices(face: str) -> None:
    async def ask(conductor: Conductor) -> contract.Seen:
        message = await MESSAGES[face](conductor)
        return contract.Seen(message.text, message.response_metadata["finish_reason"])

    await contract.check_noticed(ask, contract.Face(complete="stop", incomplete="length"))


CALL: Final = contract.calling("Value")


@pytest.mark.parametrize("method", ["function_calling", "json_schema", "json_mode"])
async def test_an_incomplete_object_is_an_error(method: Any) -> None:
    """JSON also in a stream."""

    async def ask(conductor: Conductor) -> Any:
        asks = ChatPodium(conductor=conductor).with_structured_output(contract.Value, method=method)
        if method == "function_calling":
            return (await asks.ainvoke(contract.QUESTION)).value
        return [found async for found in asks.astream(contract.QUESTION)][-1].value

    await contract.check_refused(ask, CALL if method == "function_calling" else contract.OBJECT)


async def _parsed(conductor: Conductor, face: Any) -> Any:
    chain = face(conductor=conductor, partial="raise") | JsonOutputParser()
    return (await chain.ainvoke(contract.QUESTION))["value"]


async def _form_of_agent(conductor: Conductor) -> Any:
    state = await create_conductor_agent(conductor, response_format=contract.Value).ainvoke(ASKED)
    return state["structured_response"].value


@pytest.mark.parametrize(
    ("ask", "answer"),
    [
        (partial(_parsed, face=ConductorRunnable), contract.OBJECT),
        (partial(_parsed, face=ChatPodium), contract.OBJECT),
        (_form_of_agent, CALL),
    ],
    ids=["runnable before a parser", "chat model before a parser", "agent"],
)
async def test_an_incomplete_object_of_other_faces_is_an_error(ask: Any, answer: Any) -> None:
    await contract.check_refused(ask, answer)


async def test_a_tool_passes_it_on() -> None:
    inner = ConductorRunnable(contract.conductor_of(is_complete=False))
    await contract.check_passed_on(as_worker(inner.as_tool(name="ask_team", description="Asks.")))
