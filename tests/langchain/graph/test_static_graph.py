"""A plan as a graph that people keep and edit."""

from typing import Any

import pytest
from graphs.conducted import DIAMOND, Calls
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END
from langgraph.types import Command, interrupt

from langchain_podium.graph import to_langgraph
from podium import Conductor, Plan, Step
from podium.errors import ConfigError, PlanInvalid, RunFailed, WorkerFailed
from podium.planners import FixedPlanner
from podium.types import Completion
from podium.workers import Pool, ScriptedWorker

pytestmark = pytest.mark.anyio

CONFIG: Any = {"configurable": {"thread_id": "1"}}


@pytest.mark.parametrize("is_sync", [False, True], ids=["async", "sync"])
@pytest.mark.parametrize("kind", [list, Pool, "conductor"], ids=["list", "pool", "conductor"])
async def test_it_does_what_the_plan_does(*, kind: Any, is_sync: bool, calls: Calls) -> None:
    """With any pool, and called in either way."""
    workers = calls.workers("ABCD")
    pool = Conductor(FixedPlanner(DIAMOND), workers) if kind == "conductor" else kind(workers)
    graph = to_langgraph(DIAMOND, pool).compile()
    asked = {"question": "How many?"}
    state = graph.invoke(asked) if is_sync else await graph.ainvoke(asked)
    assert state["answer"] == "D(B(A()),C(A()))"
    assert state["step_1"] == "B(A())"
    assert sorted(calls.names) == list("ABCD")
    assert {step_input.query[-1].text for step_input in calls.briefs} == {"How many?"}


async def test_a_planned_question_need_not_be_asked_again(calls: Calls) -> None:
    """The plan holds it."""
    conductor = Conductor(FixedPlanner(DIAMOND), calls.workers("ABCD"))
    plan = await conductor.plan("How many?")
    state = await to_langgraph(plan, conductor).compile().ainvoke({"question": None})
    assert state["answer"] == "D(B(A()),C(A()))"
    assert {step_input.query[-1].text for step_input in calls.briefs} == {"How many?"}


def test_it_can_be_drawn(calls: Calls) -> None:
    """Before it has run, too."""
    drawn = to_langgraph(DIAMOND, calls.workers("ABCD")).compile().get_graph().draw_mermaid()
    for worker in ("0 A", "1 B", "2 C", "3 D"):
        assert worker in drawn


async def test_a_node_is_added_and_one_is_replaced(calls: Calls) -> None:
    """What a step wrote can be edited between two nodes."""
    graph = to_langgraph(DIAMOND, calls.workers("ABCD"))
    graph.add_node("stamp", lambda state: {"answer": state["answer"] + ", stamped"})
    graph.edges.discard(("3 D", END))
    graph.add_edge("3 D", "stamp")
    graph.add_edge("stamp", END)
    compiled = graph.compile(checkpointer=InMemorySaver(), interrupt_before=["3 D"])
    await compiled.ainvoke({"question": "How many?"}, CONFIG)
    await compiled.aupdate_state(CONFIG, {"step_1": "edited"}, as_node="1 B")
    state = await compiled.ainvoke(None, CONFIG)
    assert state["answer"] == "D(edited,C(A())), stamped"


async def test_an_interrupt_in_a_step_is_that_of_its_node(calls: Calls) -> None:
    """And goes on there."""
    plan = Plan((Step(0, "a"), Step(1, "b", (0,))))
    workers = [calls.worker("A"), calls.worker("B", lambda step_input: str(interrupt("may I?")))]
    graph = to_langgraph(plan, workers).compile(checkpointer=InMemorySaver())
    state = await graph.ainvoke({"question": "How many?"}, CONFIG)
    assert state["__interrupt__"][0].value == "may I?"
    state = await graph.ainvoke(Command(resume="yes"), CONFIG)
    assert state["answer"] == "yes"
    assert calls.names == ["A", "B", "B"]


async def test_a_node_is_shown_only_what_its_step_may_see() -> None:
    """As in the plan."""
    plan = Plan((Step(0, "canary-a"), Step(1, "b"), Step(2, "c", (1,))))
    workers = [ScriptedWorker(name, f"canary-{name}") for name in "ABC"]
    await to_langgraph(plan, workers).compile().ainvoke({"question": "How many?"})
    told = repr(workers[2].requests[0])
    assert "canary-B" in told
    assert "canary-A" not in told
    assert "canary-a" not in told


async def test_a_step_that_fails_raises(calls: Calls) -> None:
    """Whoever keeps the graph decides what then."""
    plan = Plan((Step(0, "a"), Step(1, "b", (0,))))
    broken = ScriptedWorker("broken", WorkerFailed("no luck"))
    with pytest.raises(RunFailed, match=r"run \w+: step 1 \(broken\) failed \(worker_failed: no luck"):
        await to_langgraph(plan, [calls.worker("A"), broken]).compile().ainvoke({"question": "How many?"})


async def test_what_is_no_text_in_the_state_is_refused(calls: Calls) -> None:
    """The error says where."""
    plan = Plan((Step(0, "a"), Step(1, "b", (0,))))
    graph = to_langgraph(plan, calls.workers("AB")).compile(
        checkpointer=InMemorySaver(), interrupt_before=["1 B"]
    )
    await graph.ainvoke({"question": "How many?"}, CONFIG)
    await graph.aupdate_state(CONFIG, {"step_0": 7}, as_node="0 A")
    with pytest.raises(ConfigError, match="step_0 is 7"):
        await graph.ainvoke(None, CONFIG)


def test_a_plan_that_does_not_fit_is_refused(calls: Calls) -> None:
    """When the graph is made."""
    with pytest.raises(PlanInvalid, match="worker 3"):
        to_langgraph(DIAMOND, calls.workers("ABC"))


@pytest.mark.parametrize("behind", [(0, 1), (1,)], ids=["shown", "further back"])
async def test_an_output_that_was_cut_is_told(behind: tuple[int, ...]) -> None:
    """With the answer that was made of it, as a conductor's node tells it; a whole output is not."""
    plan = Plan((Step(0, "a"), Step(1, "b", (0,)), Step(1, "c", behind)))
    cut = Completion("half a", finish_reason="length")
    workers = [ScriptedWorker("short", cut), ScriptedWorker("writer", "whole")]
    state = await to_langgraph(plan, workers).compile().ainvoke({"question": "How many?"})
    run = await Conductor(FixedPlanner(plan), workers).run("How many?")
    assert run.problem is not None
    assert run.problem.code == "cut"
    assert state["answer"] == f"whole\n\n(Not complete: {run.problem.message})"
    told = {"step_0": run.outcomes[0].problem, "answer": run.problem}
    wanted = {key: (problem.code, problem.message) for key, problem in told.items() if problem is not None}
    assert {key: (each["code"], each["message"]) for key, each in state["problems"].items()} == wanted
    kept = to_langgraph(Plan((Step(1, "b"),)), workers).compile()
    assert (await kept.ainvoke({"question": "How many?"}))["problems"] == {}
