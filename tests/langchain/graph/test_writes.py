"""What a run reads from and writes to the state of the graph around it, beside its answer."""

import operator
from typing import Annotated, Any

import pytest
from graphs.conducted import CONFIG, EXECUTORS, Executor, Plans
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import BaseTool, InjectedToolCallId, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.prebuilt import InjectedState, InjectedStore, ToolNode, ToolRuntime
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command
from pydantic import BaseModel
from typing_extensions import TypedDict

from langchain_podium import ConductorRunnable, as_worker, conductor_node
from podium import Conductor, Plan, ScriptedWorker, Step
from podium.errors import ConfigError, RunFailed
from podium.journal import MemoryJournal
from podium.planners import FixedPlanner
from podium.workers import Card, Worker

pytestmark = pytest.mark.anyio


class Desk(TypedDict, total=False):
    messages: Annotated[list[AnyMessage], add_messages]
    customer: str
    total: int
    totals: list[int]
    notes: Annotated[list[str], operator.add]
    podium: dict[str, Any]


@tool
def rename(name: str, call: Annotated[str, InjectedToolCallId]) -> Command[Any]:
    """Rename the customer, as tools of agents do."""
    said = [ToolMessage(f"renamed to {name}", tool_call_id=call), AIMessage("Done.")]
    return Command(update={"customer": name, "notes": [f"was renamed to {name}"], "messages": said})


@tool
def note(text: str) -> Command[Any]:
    """Write a note."""
    return Command(update={"notes": [text]})


@tool
def lose(text: str) -> list[Any]:
    """Update a key that the state does not declare, and one with a value that is not data."""
    return [Command(update={"unknown": text, "customer": object(), "notes": ["kept"]}, goto="elsewhere")]


def _graph_of(conductor: Conductor, checkpointer: Any = None, **options: Any) -> Any:
    graph = StateGraph(Desk)
    graph.add_node("conductor", conductor_node(conductor, **options))
    graph.add_edge(START, "conductor")
    return graph.compile(checkpointer=checkpointer)


def _of(*steps: tuple[Any, str], **options: Any) -> Conductor:
    """Return a conductor whose plan gives each worker a subtask, in order; each sees those before."""
    workers = {id(worker): worker for worker, _ in steps}
    numbers = [list(workers).index(id(worker)) for worker, _ in steps]
    plan = Plan(tuple(Step(numbers[n], told, tuple(range(n))) for n, (_, told) in enumerate(steps)))
    return Conductor(Plans(plan), [as_worker(worker) for worker in workers.values()], **options)


ASKED: dict[str, Any] = {"messages": [("user", "Who?")], "customer": "Ann", "notes": ["new"]}


@EXECUTORS
async def test_commands_of_steps_update_the_state(executor: Executor) -> None:
    """A key with a reducer gets each update; the message for the tool call is the output of the step."""
    conductor = _of((note, "first"), (rename, "Bo"), (rename, "Cy"))
    left = await _graph_of(conductor, executor=executor).ainvoke(ASKED)
    assert (left["podium"]["status"], left["customer"]) == ("ok", "Cy")
    assert left["notes"] == ["new", "first", "was renamed to Bo", "was renamed to Cy"]
    assert [message.text for message in left["messages"]] == ["Who?", "Done.", "Done.", "renamed to Cy"]
    assert [each["text"] for each in left["podium"]["outcomes"]][1:] == ["renamed to Bo", "renamed to Cy"]


async def test_updates_that_cannot_be_kept_are_named() -> None:
    left = await _graph_of(_of((lose, "x"))).ainvoke(ASKED)
    assert (left["notes"], left["podium"]["status"]) == (["new", "kept"], "partial")
    told = left["podium"]["problem"]["message"]
    assert all(each in told for each in ("'unknown'", "declare", "'customer'", "object", "goto"))


@EXECUTORS
async def test_updates_survive_an_interrupted_run(executor: Executor) -> None:
    """They are applied once, when the node ends; the tool is not called again."""
    called = 0

    @tool
    def count(text: str) -> Command[Any]:
        """Count calls."""
        nonlocal called
        called += 1
        return Command(update={"notes": [text]})

    fails = [True]

    def fail(_: Any) -> str:
        if fails:
            raise ValueError(fails.pop())
        return "done"

    failing = as_worker(RunnableLambda(fail, name="fail"), acts=False)
    conductor = _of((count, "once"), (failing, "then"), journal=MemoryJournal())
    graph = _graph_of(conductor, InMemorySaver(), executor=executor)
    with pytest.raises(RunFailed):
        await graph.ainvoke(ASKED, CONFIG)
    left = await graph.ainvoke(None, CONFIG)
    assert (left["notes"], called) == (["new", "once"], 1)


class Sum(BaseModel):
    total: int
    note: str = ""


class Summed(TypedDict, total=False):
    messages: list[Any]
    structured_response: Any
    total: int


def _clerk(*replies: str) -> Worker:
    told = iter(replies)
    card = Card(name="clerk", returns={"total": "integer", "parts": [{"price": "integer"}]})
    return ScriptedWorker(card, lambda _: next(told))


@EXECUTORS
async def test_fields_of_the_answer_are_written(executor: Executor) -> None:
    writer = ScriptedWorker("writer", '{"total": 42, "note": "sum"}')
    options: Any = {"executor": executor, "response_format": Sum, "writes": {"total": "total"}}
    built = StateGraph(Summed).add_node("conductor", conductor_node(_of((writer, "Sum up.")), **options))
    graph = built.add_edge(START, "conductor").compile()
    assert (await graph.ainvoke({"messages": [("user", "How many?")]}))["total"] == 42


@EXECUTORS
async def test_fields_of_a_worker_are_written(executor: Executor) -> None:
    """A list gets the values of all executions, in the order of the plan; another key the last one."""
    worker = _clerk('{"total": 1, "parts": [{"price": 2}]}', '{"total": 3, "parts": []}')
    plan = Plan((Step(0, "a"), Step(0, "b", access=(0,))))
    conductor = Conductor(FixedPlanner(plan), [worker])
    writes = {"total": "clerk.total", "totals": "clerk.total"}
    left = await _graph_of(conductor, executor=executor, writes=writes).ainvoke(ASKED)
    assert (left["total"], left["totals"]) == (3, [1, 3])


def test_unknown_fields_are_refused_at_once() -> None:
    """Before there is a graph; for a field of text, the error says how to type it."""
    clerk, writer = _of((_clerk(), "a")), _of((ScriptedWorker("writer", ""), "a"))
    for conductor, field, options, told in (
        (clerk, "clerk.sum", {"response_format": Sum}, "writes"),
        (clerk, "sum", {"response_format": Sum}, "writes"),
        (clerk, "clerk.total.sum", {"response_format": Sum}, "writes"),
        (clerk, "total", {}, "response_format"),
        (writer, "writer.total", {}, "returns"),
        (clerk, "klerk.total", {}, "no worker is named 'klerk', only clerk"),
    ):
        with pytest.raises(ConfigError, match=told):
            conductor_node(conductor, writes={"total": field}, **options)


class User(TypedDict):
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


ASKED_OF_ANN: dict[str, Any] = {"messages": [HumanMessage("How many?")], "customer": "Ann"}


def store() -> InMemoryStore:
    made = InMemoryStore()
    made.put(("users",), "ann", {"town": "Ulm"})
    return made


def _graph_with(node: Any, state: Any = Desk, **options: Any) -> Any:
    graph = StateGraph(state, context_schema=User)
    graph.add_node("node", node)
    graph.add_edge(START, "node")
    return graph.compile(**options)


def _calling(*tools: BaseTool, planner: Plans | None = None, **options: Any) -> Conductor:
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
async def test_a_tool_has_what_toolnode_gives(used: BaseTool, executor: Executor, *, is_async: bool) -> None:
    given: dict[str, Any] = {"context": {"user": "ann"}}
    call = {"name": used.name, "args": {"word": "hello"}, "id": "1", "type": "tool_call"}
    asked = {**ASKED_OF_ANN, "messages": [*ASKED_OF_ANN["messages"], AIMessage("", tool_calls=[call])]}
    reference = await _graph_with(ToolNode([used]), store=store()).ainvoke(asked, **given)
    graph = _graph_with(conductor_node(_calling(used), executor=executor), store=store())
    left = await graph.ainvoke(ASKED_OF_ANN, **given) if is_async else graph.invoke(ASKED_OF_ANN, **given)
    contents = [each["messages"][-1].content for each in (left, reference)]
    assert (left["podium"]["problem"], contents[0]) == (None, contents[1])


async def test_what_the_graph_lacks_is_refused_before_the_planner_is_asked() -> None:
    """The error names the tool; outside of a graph, only the id of a call is there."""
    planner, bare = Plans(Plan((Step(0, "hello"),))), TypedDict("Bare", {"messages": list[Any]})
    for used, state, told in ((of_store, Desk, "no store"), (of_field, bare, "'customer'")):
        graph = _graph_with(conductor_node(_calling(used, planner=planner)), state)
        with pytest.raises(ConfigError, match=rf"{used.name}.*{told}"):
            await graph.ainvoke(ASKED_OF_ANN)
    with pytest.raises(ConfigError, match=r"of_state.*conductor_node"):
        await ConductorRunnable(_calling(of_state, planner=planner)).ainvoke("How many?")
    assert planner.asked == 0
    assert await ConductorRunnable(_calling(of_call)).ainvoke("How many?") == "hello True"
