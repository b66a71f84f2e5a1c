"""What a run writes to the state of the graph around it, beside its answer."""

import operator
from typing import Annotated, Any

import pytest
from graphs.conducted import EXECUTORS, Plans
from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import InjectedToolCallId, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Command
from pydantic import BaseModel
from typing_extensions import TypedDict

from langchain_podium.graph import conductor_node
from langchain_podium.graph.conducted import Executor
from langchain_podium.workers import as_worker
from podium import Conductor, Plan, ScriptedWorker, Step
from podium.errors import ConfigError, RunFailed
from podium.journal import MemoryJournal
from podium.planners import FixedPlanner
from podium.workers import Card, Worker

pytestmark = pytest.mark.anyio


class Desk(TypedDict, total=False):
    """A state with keys of all kinds."""

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
    assert left["podium"]["status"] == "ok"
    assert left["customer"] == "Cy"
    assert left["notes"] == ["new", "first", "was renamed to Bo", "was renamed to Cy"]
    assert [message.text for message in left["messages"]] == ["Who?", "Done.", "Done.", "renamed to Cy"]
    assert [each["text"] for each in left["podium"]["outcomes"]][1:] == ["renamed to Bo", "renamed to Cy"]


async def test_updates_that_cannot_be_kept_are_named() -> None:
    left = await _graph_of(_of((lose, "x"))).ainvoke(ASKED)
    assert left["notes"] == ["new", "kept"]
    assert left["podium"]["status"] == "partial"
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
    thread = {"configurable": {"thread_id": "1"}}
    with pytest.raises(RunFailed):
        await graph.ainvoke(ASKED, thread)
    left = await graph.ainvoke(None, thread)
    assert left["notes"] == ["new", "once"]
    assert called == 1


class Sum(BaseModel):
    """An answer with fields."""

    total: int
    note: str = ""


class Summed(TypedDict, total=False):
    """A state for such an answer."""

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
    built = StateGraph(Summed)
    node = conductor_node(
        _of((writer, "Sum up.")), executor=executor, response_format=Sum, writes={"total": "total"}
    )
    built.add_node("conductor", node)
    built.add_edge(START, "conductor")
    assert (await built.compile().ainvoke({"messages": [("user", "How many?")]}))["total"] == 42


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
    for field in ("clerk.sum", "sum", "clerk.total.sum"):
        with pytest.raises(ConfigError, match="writes"):
            conductor_node(_of((_clerk(), "a")), response_format=Sum, writes={"total": field})
    with pytest.raises(ConfigError, match="response_format"):
        conductor_node(_of((_clerk(), "a")), writes={"total": "total"})
    with pytest.raises(ConfigError, match="returns"):
        conductor_node(_of((ScriptedWorker("writer", ""), "a")), writes={"total": "writer.total"})
    with pytest.raises(ConfigError, match="no worker is named 'klerk', only clerk"):
        conductor_node(_of((_clerk(), "a")), writes={"total": "klerk.total"})
