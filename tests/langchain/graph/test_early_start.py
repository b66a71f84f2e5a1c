"""Steps that start while the plan is still being written, under LangGraph's executor."""

from typing import Any

import anyio
import pytest
from graphs.conducted import FIRST, LAST, Calls, Slow, around
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, interrupt

from langchain_podium.workers import as_worker
from podium import ChatPlanner, Conductor, Limits, ScriptedWorker
from podium.errors import RunFailed, WorkerFailed
from podium.execution import Retry
from podium.journal import MemoryJournal
from podium.workers import FREE, StepInput, Worker
from podium.workers.simple import FunctionWorker

pytestmark = pytest.mark.anyio

ASKED = {"messages": [("user", "How many?")]}
CONFIG: Any = {"configurable": {"thread_id": "1"}}
KEPT = pytest.mark.parametrize("kept", [False, True], ids=["unkept", "kept"])


def _saver(*, kept: bool) -> InMemorySaver | None:
    return InMemorySaver() if kept else None


def _first(begun: anyio.Event, calls: list[str]) -> Worker:
    async def first(step_input: StepInput) -> str:
        calls.append("first")
        begun.set()
        return "found"

    return FunctionWorker(first, price=FREE)


@KEPT
@pytest.mark.parametrize("journal", [None, MemoryJournal()], ids=["state", "journal"])
async def test_a_step_starts_while_its_plan_is_written_and_is_called_once(
    *, kept: bool, journal: MemoryJournal | None
) -> None:
    """Its node hands its outcome on."""
    begun, calls = anyio.Event(), list[str]()
    last = ScriptedWorker("last", "written")
    planner = Slow(begun, FIRST, LAST)
    conductor = Conductor(planner, [_first(begun, calls), last], journal=journal)
    graph = around(conductor, executor="langgraph", checkpointer=_saver(kept=kept))
    nodes = list[str]()
    config: Any = {"configurable": {"thread_id": str(kept)}} if kept else {}
    async for _, update in graph.astream(ASKED, config, stream_mode="updates", subgraphs=True):
        nodes += update
    assert [name for name in nodes if name[0].isdigit()] == ["0 first", "1 last"]
    assert calls == ["first"]
    assert "found" in last.requests[0].messages[-1].text
    assert planner.asked == 1


@KEPT
async def test_an_answer_that_is_written_early_is_streamed_once(*, kept: bool) -> None:
    """Also where the plan and the steps are two nodes."""
    begun = anyio.Event()

    class Early(ScriptedWorker):
        async def call(self, request: Any) -> Any:
            begun.set()
            async for piece in super().call(request):
                await anyio.sleep(0.01)
                yield piece

    conductor = Conductor(Slow(begun, FIRST), [Early("A", "an answer of words", piece=4)])
    graph = around(conductor, executor="langgraph", checkpointer=_saver(kept=kept))
    found = [
        message async for message, _ in graph.astream(ASKED, CONFIG if kept else {}, stream_mode="messages")
    ]
    assert "".join(message.text for message in found) == "an answer of words"
    assert len({message.id for message in found}) == 1


async def test_an_early_step_that_fails_is_not_tried_again_by_its_node() -> None:
    """It has had all its attempts."""
    begun = anyio.Event()

    def fail(request: Any) -> Any:
        begun.set()
        return WorkerFailed("no luck")

    first, last = ScriptedWorker("first", fail), ScriptedWorker("last", "written")
    two = '{"worker": 1, "subtask": "look elsewhere", "access": []}\n'
    join = '{"worker": 1, "subtask": "write", "access": [0, 1]}\n'
    conductor = Conductor(Slow(begun, FIRST, two, join), [first, last], retry=Retry(attempts=1))
    graph = around(conductor, executor="langgraph", checkpointer=InMemorySaver())
    state = await graph.ainvoke(ASKED, CONFIG)
    assert state["podium"]["status"] == "partial"
    assert len(first.requests) == 1


async def test_an_interrupt_in_an_early_step_is_that_of_its_node(calls: Calls) -> None:
    """The planner is not called again for it."""
    begun = anyio.Event()

    def ask(step_input: StepInput) -> str:
        begun.set()
        return f"told {interrupt('may I?')}"

    planner = Slow(begun, FIRST, LAST)
    conductor = Conductor(planner, [calls.worker("A", ask), calls.worker("B")])
    graph = around(conductor, executor="langgraph", checkpointer=InMemorySaver())
    state = await graph.ainvoke(ASKED, CONFIG)
    assert [each.value for each in state["__interrupt__"]] == ["may I?"]
    state = await graph.ainvoke(Command(resume="yes"), CONFIG)
    assert state["messages"][-1].content == "B(told yes)"
    assert planner.asked == 1


async def test_a_graph_as_a_worker_starts_in_its_node() -> None:
    """So that its checkpoints are kept there, and what it has done is not paid again at an interrupt."""
    told, written = list[str](), anyio.Event()
    written.set()

    def think(state: MessagesState) -> dict[str, Any]:
        told.append("thought")
        return {"messages": [("ai", "thought")]}

    def ask(state: MessagesState) -> dict[str, Any]:
        return {"messages": [("ai", f"told {interrupt('may I?')}")]}

    graph = StateGraph(MessagesState)
    graph.add_node("think", think)
    graph.add_node("ask", ask)
    graph.add_edge(START, "think")
    graph.add_edge("think", "ask")
    worker = as_worker(graph.compile(), name="agent")
    conductor = Conductor(Slow(written, FIRST, LAST), [worker, ScriptedWorker("last", "written")])
    app = around(conductor, executor="langgraph", checkpointer=InMemorySaver())
    await app.ainvoke(ASKED, CONFIG)
    state = await app.ainvoke(Command(resume="yes"), CONFIG)
    assert state["messages"][-1].content == "written"
    assert told == ["thought"]


def test_a_step_that_started_early_ends_at_the_limit_of_a_run_called_from_sync_code() -> None:
    """Its node waits in another thread, and is told."""

    async def slow(step_input: StepInput) -> str:
        await anyio.sleep(30)
        return step_input.subtask

    rows = (FIRST, LAST)
    last = ScriptedWorker("last", "written")
    planner = ScriptedWorker("planner", "".join(rows))
    conductor = Conductor(
        ChatPlanner(planner), [FunctionWorker(slow, price=FREE), last], limits=Limits(seconds=0.5)
    )
    graph = around(conductor, executor="langgraph", checkpointer=None)
    with pytest.raises(RunFailed) as caught:
        graph.invoke(ASKED)
    assert caught.value.result is not None
    problem = caught.value.result.outcomes[0].problem
    assert problem is not None
    assert problem.code == "worker_timeout"
