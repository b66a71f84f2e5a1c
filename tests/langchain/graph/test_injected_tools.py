"""Tools that read and change the state of the graph around a conductor, as under LangGraph's `ToolNode`."""

from typing import Annotated, Any

import pytest
from graphs.conducted import Plans
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langchain_core.tools import BaseTool, InjectedToolCallId, tool
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.prebuilt import InjectedState, InjectedStore, ToolNode, ToolRuntime
from langgraph.store.memory import InMemoryStore
from typing_extensions import TypedDict

from langchain_podium import ConductorRunnable
from langchain_podium.graph import conductor_node
from langchain_podium.graph.conducted import Executor
from langchain_podium.workers import as_worker
from podium import Conductor, Plan, Step
from podium.errors import ConfigError

pytestmark = pytest.mark.anyio


class Desk(TypedDict, total=False):
    """The state of a graph with a customer in it."""

    messages: Annotated[list[AnyMessage], add_messages]
    customer: str
    podium: dict[str, Any]


class User(TypedDict):
    """The runtime context of the graph."""

    user: str


@tool
def of_state(word: str, state: Annotated[dict[str, Any], InjectedState]) -> str:
    """Read the whole state."""
    return f"{word} {state['customer']} {state['messages'][0].content}"


@tool
def of_field(word: str, customer: Annotated[str, InjectedState("customer")]) -> str:
    """Read one key of the state."""
    return f"{word} {customer}"


@tool
def of_store(word: str, store: Annotated[Any, InjectedStore()]) -> str:
    """Read the store."""
    return f"{word} {store.get(('users',), 'ann').value['town']}"


@tool
async def of_runtime(word: str, runtime: ToolRuntime[User, Desk]) -> str:
    """Read all of it."""
    assert runtime.tool_call_id
    assert runtime.store is not None
    return f"{word} {runtime.context['user']} {runtime.state['customer']}"


@tool
def of_call(word: str, call: Annotated[str, InjectedToolCallId]) -> str:
    """Read the id of the call."""
    return f"{word} {bool(call)}"


ASKED: dict[str, Any] = {"messages": [HumanMessage("How many?")], "customer": "Ann"}


def store() -> InMemoryStore:
    made = InMemoryStore()
    made.put(("users",), "ann", {"town": "Ulm"})
    return made


def _graph_of(node: Any, state: Any = Desk, **options: Any) -> Any:
    graph = StateGraph(state, context_schema=User)
    graph.add_node("node", node)
    graph.add_edge(START, "node")
    return graph.compile(**options)


def _of(*tools: BaseTool, planner: Plans | None = None, **options: Any) -> Conductor:
    plan = Plan(tuple(Step(number, "hello") for number in range(len(tools))))
    return Conductor(planner or Plans(plan), [as_worker(each) for each in tools], **options)


@pytest.mark.parametrize(
    ("used", "executor", "is_async"),
    [
        (of_state, "podium", True),
        (of_field, "langgraph", False),
        (of_store, "podium", False),
        (of_runtime, "langgraph", True),
        (of_call, "podium", True),
    ],
    ids=lambda given: getattr(given, "name", str(given)),
)
async def test_a_tool_is_given_what_toolnode_gives_it(
    used: BaseTool, executor: Executor, *, is_async: bool
) -> None:
    given: dict[str, Any] = {"context": {"user": "ann"}}
    call = {"name": used.name, "args": {"word": "hello"}, "id": "1", "type": "tool_call"}
    asked = {**ASKED, "messages": [*ASKED["messages"], AIMessage("", tool_calls=[call])]}
    reference = await _graph_of(ToolNode([used]), store=store()).ainvoke(asked, **given)
    graph = _graph_of(conductor_node(_of(used), executor=executor), store=store())
    left = await graph.ainvoke(ASKED, **given) if is_async else graph.invoke(ASKED, **given)
    assert left["podium"]["problem"] is None
    assert left["messages"][-1].content == reference["messages"][-1].content


async def test_what_the_graph_lacks_is_refused_before_the_planner_is_asked() -> None:
    """The error names the tool; outside of a graph, only the id of a call is there."""
    planner, bare = Plans(Plan((Step(0, "hello"),))), TypedDict("Bare", {"messages": list[Any]})
    for used, state, told in ((of_store, Desk, "no store"), (of_field, bare, "'customer'")):
        graph = _graph_of(conductor_node(_of(used, planner=planner)), state)
        with pytest.raises(ConfigError, match=rf"{used.name}.*{told}"):
            await graph.ainvoke(ASKED)
    with pytest.raises(ConfigError, match=r"of_state.*conductor_node"):
        await ConductorRunnable(_of(of_state, planner=planner)).ainvoke("How many?")
    assert planner.asked == 0
    assert await ConductorRunnable(_of(of_call)).ainvoke("How many?") == "hello True"
