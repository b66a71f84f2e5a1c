"""Steps as nodes, where a run has more to it: retries, journals, nested conductors, other pools."""

from typing import Any

import pytest
from graphs.conducted import DIAMOND, LATER, Calls, Plans, around, decided, edited
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt

from langchain_podium.graph.conducted import Executor
from podium import Conductor, Limits, Plan, Step
from podium.errors import WorkerUnavailable
from podium.execution import Retry
from podium.journal import MemoryJournal
from podium.planners import FixedPlanner
from podium.workers import Card, ScriptedWorker

pytestmark = pytest.mark.anyio

ASKED = {"messages": [("user", "How many?")]}
CONFIG: Any = {"configurable": {"thread_id": "1"}}


async def test_a_step_is_tried_again_inside_of_its_node() -> None:
    """By the conductor's own retries: the node is begun once."""
    luck = iter([WorkerUnavailable("busy"), "done"])
    worker = ScriptedWorker("A", lambda request: next(luck))
    conductor = Conductor(
        FixedPlanner(Plan((Step(0, "try"),))), [worker], retry=Retry(attempts=2, first_wait=0.001)
    )
    nodes = [
        update
        async for _, update in around(conductor, executor="langgraph").astream(
            ASKED, stream_mode="updates", subgraphs=True
        )
        if "0 A" in update
    ]
    assert [update["0 A"]["steps"]["0"]["attempts"] for update in nodes] == [2]


async def test_a_step_that_nobody_sees_is_not_called(calls: Calls) -> None:
    """Its node says so."""
    plan = Plan((Step(0, "unseen"), Step(1, "answer")))
    state = await around(Conductor(FixedPlanner(plan), calls.workers("AB")), executor="langgraph").ainvoke(
        ASKED
    )
    assert calls.names == ["B"]
    assert state["podium"]["outcomes"][0]["problem"]["code"] == "unseen"


async def test_a_step_that_needs_only_some_of_its_inputs_is_shown_those_that_came(calls: Calls) -> None:
    """In supersteps it waits for all of them, and one may fail."""
    plan = Plan((Step(0, "a"), Step(1, "b"), Step(2, "c", (0, 1), enough=1)))
    broken = calls.worker("A", lambda step_input: object())  # type: ignore[arg-type,return-value]
    conductor = Conductor(FixedPlanner(plan), [broken, *calls.workers("BC")])
    state = await around(conductor, executor="langgraph").ainvoke(ASKED)
    assert state["messages"][-1].content == "C(B())"


async def test_with_a_journal_an_interrupt_rests_in_it_and_goes_on(calls: Calls) -> None:
    """The record holds every step once, and that the run waited."""
    journal, planner = MemoryJournal(), Plans(DIAMOND)
    asking = calls.asking("C", lambda step_input: f"told {interrupt('may I?')}")
    workers = [*calls.workers("AB"), asking, calls.worker("D")]
    conductor = Conductor(planner, workers, journal=journal)
    graph = around(conductor, executor="langgraph", checkpointer=InMemorySaver())
    await graph.ainvoke(ASKED, CONFIG)
    assert [row.state for row in await journal.runs()] == ["waiting"]
    state = await graph.ainvoke(Command(resume="yes"), CONFIG)
    assert state["messages"][-1].content == "D(B(A()),told yes)"
    assert [row.state for row in await journal.runs()] == ["ok"]
    assert sorted(calls.names) == ["A", "B", "C", "C", "D"]
    assert planner.asked == 1


@pytest.mark.parametrize("executor", ["podium", "langgraph"])
async def test_a_pool_in_another_order_changes_nothing_while_a_plan_waits(
    calls: Calls, executor: Executor
) -> None:
    """Workers are found by name; who edits uses the numbers they were shown."""
    saver, planner = InMemorySaver(), Plans(Plan((Step(0, "a"), Step(1, "b", (0,)))))
    first = around(
        Conductor(planner, calls.workers("ABC")), executor=executor, policy=LATER, checkpointer=saver
    )
    await first.ainvoke(ASKED, CONFIG)
    later = around(
        Conductor(planner, calls.workers("CBA")), executor=executor, policy=LATER, checkpointer=saver
    )
    steps = [{"worker": 0, "subtask": "a", "access": []}, {"worker": 2, "subtask": "b", "access": [0]}]
    state = await later.ainvoke(edited(*steps), CONFIG)
    assert state["messages"][-1].content == "C(A())"


async def test_a_nested_conductors_step_may_wait_too_and_with_a_journal_pays_nothing_twice(
    calls: Calls,
) -> None:
    """It passes both runs, and goes on in the inner one."""
    journal = MemoryJournal()
    asking = calls.asking("B", lambda step_input: f"told {interrupt('may I?')}")
    planner = Plans(Plan((Step(0, "a"), Step(1, "b", (0,)))))
    inner = Conductor(planner, [calls.worker("A"), asking], card=Card(name="inner"))
    plan = Plan((Step(0, "c"), Step(1, "d", (0,))))
    outer = Conductor(FixedPlanner(plan), [calls.worker("C"), inner], journal=journal, limits=Limits(depth=3))
    graph = around(outer, executor="langgraph", checkpointer=InMemorySaver())
    state = await graph.ainvoke(ASKED, CONFIG)
    assert state["__interrupt__"][0].value == "may I?"
    state = await graph.ainvoke(Command(resume="yes"), CONFIG)
    assert state["messages"][-1].content == "told yes"
    assert calls.names == ["C", "A", "B", "B"]
    assert planner.asked == 1


async def test_a_nested_conductor_works_in_a_graph_whose_state_is_the_journal(calls: Calls) -> None:
    """Its own run is recorded beside the outer one until that has ended."""
    inner = Conductor(Plans(Plan((Step(0, "a"),))), calls.workers("A"), card=Card(name="inner"))
    outer = Conductor(FixedPlanner(Plan((Step(0, "b"),))), [inner])
    graph = around(outer, executor="langgraph", checkpointer=InMemorySaver(), policy=LATER)
    await graph.ainvoke(ASKED, CONFIG)
    state = await graph.ainvoke(decided(), CONFIG)
    assert state["messages"][-1].content == "A()"
    assert state["podium"]["status"] == "ok"
