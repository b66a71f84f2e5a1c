"""What cannot work is refused before the planner is asked: models with open tools, interrupts, forms."""

from collections.abc import Callable
from typing import Any

import pytest
from graphs.conducted import Plans
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import Runnable, RunnableLambda
from langchain_core.tools import BaseTool, tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import interrupt
from pydantic import BaseModel
from servers.chat_server import Call, ChatServer, Reply, says

from langchain_podium import ConductorRunnable, as_worker
from langchain_podium.graph import create_conductor_agent
from podium import Conductor, Plan, Step
from podium.errors import ConfigError
from podium.planners import FixedPlanner

pytestmark = pytest.mark.anyio


@tool
def look(word: str) -> str:
    """Look a word up."""
    return word


@tool
def ask(word: str) -> str:
    """Ask a person."""
    return str(interrupt(word))


def model(**options: Any) -> ChatOpenAI:
    """Return a model that is not called."""
    return ChatOpenAI(model="m", base_url="http://127.0.0.1:9", api_key="none", **options)  # type: ignore[arg-type]


OPEN: dict[str, Callable[[], Runnable[Any, Any]]] = {
    "bound": lambda: model().bind_tools([look]),
    "bound and configured": lambda: model().bind_tools([look]).with_config(run_name="m").with_retry(),
    "at the end of a chain": lambda: ChatPromptTemplate([("human", "{x}")]) | model().bind_tools([look]),
}


@pytest.mark.parametrize("kind", OPEN)
def test_a_model_whose_tools_nobody_calls_is_no_worker(kind: str) -> None:
    """The error says what to use."""
    with pytest.raises(ConfigError, match=r"look.*create_agent"):
        as_worker(OPEN[kind](), name="m", input=(lambda _: {"x": 1}) if "chain" in kind else None)


def test_tools_of_the_server_and_of_a_parser_are_used() -> None:
    """Others call them."""
    as_worker(model().bind_tools([{"type": "web_search_preview"}]), name="m")
    as_worker(model().with_structured_output({"title": "T", "type": "object", "properties": {}}), name="m")


def node(_: Any) -> dict[str, Any]:
    """Interrupt a graph."""
    return {"messages": [AIMessage(str(interrupt("?")))]}


def graph(**options: Any) -> Any:
    """Return a graph of one node."""
    built = StateGraph(MessagesState)
    built.add_node("node", node if not options else lambda _: {"messages": [AIMessage("x")]})
    built.add_edge(START, "node")
    return built.compile(name="graph", **options)


def agent(*tools: BaseTool, middleware: Any = ()) -> Any:
    """Return an agent."""
    fake = GenericFakeChatModel(messages=iter([]))
    object.__setattr__(fake, "bind_tools", lambda *_, **__: fake)
    return create_agent(fake, list(tools), middleware=middleware, name="agent")


INTERRUPTING: dict[str, Callable[[], Any]] = {
    "tool": lambda: ask,
    "graph": graph,
    "breakpoint": lambda: graph(interrupt_before=["node"]),
    "function": lambda: RunnableLambda(node, name="function"),
    "tool of an agent": lambda: agent(ask),
    "middleware": lambda: agent(look, middleware=[HumanInTheLoopMiddleware({"look": True})]),
}


@pytest.mark.parametrize("kind", INTERRUPTING)
async def test_an_interrupt_without_a_checkpointer_is_refused(kind: str) -> None:
    """In a graph without one, and outside of graphs."""
    planner = Plans(Plan((Step(0, "x"),)))
    conductor = Conductor(planner, [as_worker(INTERRUPTING[kind]())])
    for run in (create_conductor_agent(conductor, executor="langgraph"), ConductorRunnable(conductor)):
        with pytest.raises(ConfigError, match="checkpointer"):
            await run.ainvoke({"messages": [("user", "Q?")]})
    assert planner.asked == 0


async def test_an_interrupt_with_a_checkpointer_is_asked() -> None:
    """As before."""
    conductor = Conductor(Plans(Plan((Step(0, "x"),))), [as_worker(ask)])
    asking = create_conductor_agent(conductor, executor="langgraph", checkpointer=InMemorySaver())
    asked = await asking.ainvoke({"messages": "Q?"}, {"configurable": {"thread_id": "1"}})
    assert asked["__interrupt__"][0].value == "x"


class City(BaseModel):
    """A city."""

    name: str


async def test_an_agent_that_answers_last_is_asked_for_the_form() -> None:
    """It takes no tools, so its prompt has the schema; without one its text would not fit."""

    def reply(call: Call) -> Reply:
        asked = str(call.body["messages"][-1]["content"])
        return says(call, '{"name": "Paris"}' if "JSON schema" in asked else "It is Paris.")

    async with ChatServer(reply) as server:
        clerk = create_agent(ChatOpenAI(model="m", base_url=server.url, api_key="none"), [], name="clerk")  # type: ignore[arg-type]
        conductor = Conductor(FixedPlanner(Plan((Step(0, "Answer."),))), [as_worker(clerk)])
        answered = create_conductor_agent(conductor, response_format=City)
        state = await answered.ainvoke({"messages": "Which?"})
    assert state["structured_response"] == City(name="Paris")
