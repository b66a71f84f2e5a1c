"""What goes wrong around a graph: its checkpointer, its workers, whoever stops it."""

from collections.abc import Sequence
from typing import Any

import anyio
import pytest
from graphs.conducted import DIAMOND, Calls, Plans, around
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import RetryPolicy

from langchain_podium.graph import conductor_node
from langchain_podium.graph.conducted import Executor
from podium import Conductor, Limits, Plan, Step
from podium.errors import PlannerError, RunFailed
from podium.journal import MemoryJournal
from podium.planners import FixedPlanner, RulePlanner
from podium.workers import ScriptedWorker

pytestmark = pytest.mark.anyio

ASKED = {"messages": [("user", "How many?")]}
CONFIG: Any = {"configurable": {"thread_id": "1"}}
EXECUTORS = pytest.mark.parametrize("executor", ["podium", "langgraph"])


class Gone(InMemorySaver):
    """A saver whose database goes away for a while."""

    is_gone_after: int | None = None

    def _write(self) -> None:
        if self.is_gone_after is not None:
            if self.is_gone_after <= 0:
                raise ConnectionError("the database went away")
            self.is_gone_after -= 1

    async def aput(self, *given: Any, **more: Any) -> Any:
        """Keep a checkpoint, or fail."""
        self._write()
        return await super().aput(*given, **more)

    async def aput_writes(
        self, config: Any, writes: Sequence[Any], task_id: str, task_path: str = ""
    ) -> None:
        """Keep what a node wrote, or fail."""
        self._write()
        await super().aput_writes(config, writes, task_id, task_path)


@pytest.mark.parametrize("after", range(0, 24, 3))
async def test_a_checkpointer_that_goes_away_is_told_and_nothing_is_paid_twice(
    after: int, calls: Calls
) -> None:
    """With a journal, wherever it goes away."""
    journal, saver = MemoryJournal(), Gone()
    conductor = Conductor(FixedPlanner(DIAMOND), calls.workers("ABCD"), journal=journal)
    graph = around(conductor, executor="langgraph", checkpointer=saver)
    saver.is_gone_after = after
    try:
        state = await graph.ainvoke(ASKED, CONFIG, durability="sync")
    except ConnectionError:
        saver.is_gone_after = None
        kept = await graph.aget_state(CONFIG)
        state = (
            kept.values
            if "podium" in kept.values
            else await graph.ainvoke(None if kept.next else ASKED, CONFIG)
        )
    assert state["messages"][-1].content == "D(B(A()),C(A()))"
    assert sorted(calls.names) == list("ABCD")


async def test_without_a_journal_what_the_checkpointer_kept_is_not_paid_again(calls: Calls) -> None:
    """It goes on after the last step that was kept."""
    saver = Gone()
    graph = around(
        Conductor(FixedPlanner(DIAMOND), calls.workers("ABCD")), executor="langgraph", checkpointer=saver
    )

    async def cut() -> None:
        async for _, update in graph.astream(
            ASKED, CONFIG, stream_mode="updates", subgraphs=True, durability="sync"
        ):
            if "0 A" in update:
                saver.is_gone_after = 2

    with pytest.raises(ConnectionError, match="went away"):
        await cut()
    saver.is_gone_after = None
    state = await graph.ainvoke(None, CONFIG)
    assert state["messages"][-1].content == "D(B(A()),C(A()))"
    assert calls.names.count("A") == 1


@EXECUTORS
async def test_a_cancel_stops_the_workers(executor: Executor) -> None:
    """And is seen by who cancels."""
    slow = ScriptedWorker("slow", "never", latency=30)
    conductor = Conductor(FixedPlanner(Plan((Step(0, "wait"),))), [slow])
    graph = around(conductor, executor=executor)
    with anyio.move_on_after(0.3) as scope:
        await graph.ainvoke(ASKED)
    assert scope.cancelled_caught
    assert len(slow.requests) == 1


@EXECUTORS
async def test_a_slow_worker_ends_with_the_runs_time(executor: Executor) -> None:
    """The error names the limit."""
    slow = ScriptedWorker("slow", "never", latency=30)
    conductor = Conductor(FixedPlanner(Plan((Step(0, "wait"),))), [slow], limits=Limits(seconds=0.3))
    with pytest.raises(RunFailed, match=r"Limits\.seconds"):
        await around(conductor, executor=executor).ainvoke(ASKED)


@EXECUTORS
async def test_a_planner_that_writes_garbage_is_told(executor: Executor, calls: Calls) -> None:
    """By an error; a plan of a fallback planner makes the run partial."""
    broken = Conductor(Plans("garbage"), calls.workers("AB"))
    with pytest.raises(PlannerError, match="there is no plan"):
        await around(broken, executor=executor).ainvoke(ASKED)
    stands_in = Conductor(Plans("garbage"), calls.workers("AB"), fallback_planner=RulePlanner())
    state = await around(stands_in, executor=executor).ainvoke(ASKED)
    assert state["podium"]["status"] == "partial"
    assert state["podium"]["problem"]["code"] == "planner_fallback"
    assert state["podium"]["planner"]["name"] == "rule"


@EXECUTORS
async def test_a_worker_that_writes_garbage_fails_its_step(executor: Executor, calls: Calls) -> None:
    """And no other."""
    plan = Plan((Step(0, "a"), Step(1, "b"), Step(1, "c", (0, 1))))
    garbage = calls.worker("garbage", lambda step_input: object())
    conductor = Conductor(FixedPlanner(plan), [garbage, calls.worker("B")])
    state = await around(conductor, executor=executor).ainvoke(ASKED)
    assert state["podium"]["status"] == "partial"
    assert state["podium"]["outcomes"][0]["problem"]["code"] == "worker_failed"


@EXECUTORS
async def test_a_retry_of_the_whole_node_goes_on_with_a_journal(executor: Executor, calls: Calls) -> None:
    """LangGraph's own retry finds the run there."""
    luck = iter([False, True])

    def join(step_input: Any) -> str:
        if not next(luck):
            raise ValueError("no luck")
        return "joined"

    workers = [*calls.workers("ABC"), calls.worker("D", join)]
    conductor = Conductor(FixedPlanner(DIAMOND), workers, journal=MemoryJournal())
    graph = StateGraph(MessagesState)
    graph.add_node(
        "conductor",
        conductor_node(conductor, executor=executor, partial="raise"),
        retry_policy=RetryPolicy(max_attempts=2, initial_interval=0.01, retry_on=RunFailed),
    )
    graph.add_edge(START, "conductor")
    state = await graph.compile(checkpointer=InMemorySaver()).ainvoke(ASKED, CONFIG)
    assert state["messages"][-1].content == "joined"
    assert sorted(calls.names) == ["A", "B", "C", "D", "D"]
