"""A plan's steps as nodes of a LangGraph graph."""

import json
from typing import Any

import anyio
import pytest
from graphs.conducted import DIAMOND, Calls, Plans, around
from langchain_core.runnables import RunnableLambda
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt

from langchain_podium.graph.conducted import Executor
from podium import Card, Conductor, Limits, Plan, Price, Step
from podium.errors import ConfigError, PlanInvalid, RunFailed, WorkerFailed
from podium.execution import OnFailure, Retry
from podium.hosts import Partial
from podium.journal import MemoryJournal
from podium.planners import FixedPlanner
from podium.types import Completion
from podium.usage import Usage
from podium.workers import ScriptedWorker, StepInput
from podium.workers.simple import FunctionWorker

pytestmark = pytest.mark.anyio

ASKED = {"messages": [("user", "How many?")]}
CONFIG: Any = {"configurable": {"thread_id": "1"}}
SYNC = pytest.mark.parametrize("is_sync", [False, True], ids=["async", "sync"])


async def _call(graph: Any, asked: Any, config: Any, *, is_sync: bool) -> dict[str, Any]:
    called: dict[str, Any] = graph.invoke(asked, config) if is_sync else await graph.ainvoke(asked, config)
    return called


async def test_every_step_is_a_node_seen_in_updates(calls: Calls) -> None:
    """In its place in the graph, and in the plan's order."""
    conductor = Conductor(FixedPlanner(DIAMOND), calls.workers("ABCD"))
    graph = around(conductor, executor="langgraph", checkpointer=InMemorySaver())
    seen = [
        (tuple(part.split(":")[0] for part in namespace), *update)
        async for namespace, update in graph.astream(ASKED, CONFIG, stream_mode="updates", subgraphs=True)
    ]
    assert seen[0] == (("conductor",), "0 A")
    assert sorted(seen[1:3]) == [(("conductor",), "1 B"), (("conductor",), "2 C")]
    assert seen[3:] == [(("conductor",), "3 D"), ((), "conductor")]


async def test_every_step_is_seen_in_the_events_of_langchain(calls: Calls) -> None:
    """Node and worker, each as a run of its own."""
    conductor = Conductor(FixedPlanner(DIAMOND), calls.workers("ABCD"))
    started = [
        (event["name"], event["metadata"].get("langgraph_checkpoint_ns", "").count("|"))
        async for event in around(conductor, executor="langgraph").astream_events(ASKED, version="v2")
        if event["event"] == "on_chain_start"
    ]
    for node in ("0 A", "1 B", "2 C", "3 D"):
        assert (node, 1) in started
    assert ("A", 0) in started  # the call of the worker, which waits for no node


async def test_each_superstep_is_a_checkpoint(calls: Calls) -> None:
    """Each with what all steps so far came to."""
    saver = InMemorySaver()
    conductor = Conductor(FixedPlanner(DIAMOND), calls.workers("ABCD"))
    graph = around(conductor, executor="langgraph", checkpointer=saver)
    await graph.ainvoke(ASKED, CONFIG)
    spaces = {saved.config["configurable"]["checkpoint_ns"] for saved in saver.list(CONFIG)}
    dynamic = next(space for space in spaces if "conductor:" in space and "|" not in space)
    inside: Any = {"configurable": {"thread_id": "1", "checkpoint_ns": dynamic}}
    steps = [sorted(state.values.get("steps", ())) async for state in graph.aget_state_history(inside)]
    assert steps[::-1] == [[], [], ["0"], ["0", "1", "2"], ["0", "1", "2", "3"]]


async def test_what_is_kept_is_plain_json(calls: Calls) -> None:
    """No type of Podium's has to be known to read it."""
    saver = InMemorySaver()
    conductor = Conductor(FixedPlanner(DIAMOND), calls.workers("ABCD"))
    await around(conductor, executor="langgraph", checkpointer=saver).ainvoke(ASKED, CONFIG)
    checkpoints = list(saver.list(CONFIG))
    assert len(checkpoints) > len(DIAMOND.steps)
    for saved in checkpoints:
        values = {
            k: v
            for k, v in saved.checkpoint["channel_values"].items()
            if k in ("podium", "podium_record") or k.startswith("step_")
        }
        json.dumps(values)


@SYNC
async def test_an_interrupt_in_a_step_goes_on_there_and_nothing_runs_again(
    *, is_sync: bool, calls: Calls
) -> None:
    """Neither the planner nor a step that had ended."""
    planner = Plans(DIAMOND)
    asking = calls.asking("C", lambda step_input: f"told {interrupt({'may': step_input.subtask})}")
    workers = [*calls.workers("AB"), asking, calls.worker("D")]
    graph = around(Conductor(planner, workers), executor="langgraph", checkpointer=InMemorySaver())
    state = await _call(graph, ASKED, CONFIG, is_sync=is_sync)
    assert [each.value for each in state["__interrupt__"]] == [{"may": "right"}]
    assert sorted(calls.names) == ["A", "B", "C"]
    state = await _call(graph, Command(resume="yes"), CONFIG, is_sync=is_sync)
    assert state["messages"][-1].content == "D(B(A()),told yes)"
    assert sorted(calls.names) == ["A", "B", "C", "C", "D"]
    assert planner.asked == 1
    assert state["podium"]["status"] == "ok"
    assert [o["text"] for o in state["podium"]["outcomes"]][:2] == ["A()", "B(A())"]


async def test_what_finished_steps_cost_before_an_interrupt_is_in_the_bill(calls: Calls) -> None:
    """It was paid, though in an earlier call."""
    plan = Plan((Step(0, "begin"), Step(1, "ask", (0,))))
    first = ScriptedWorker("first", "some words")
    asking = calls.asking("asking", lambda step_input: interrupt("may I?"))
    graph = around(
        Conductor(FixedPlanner(plan), [first, asking]), executor="langgraph", checkpointer=InMemorySaver()
    )
    await graph.ainvoke(ASKED, CONFIG)
    state = await graph.ainvoke(Command(resume="yes"), CONFIG)
    assert len(first.requests) == 1
    assert state["podium"]["usage"]["output_tokens"] > 0


@SYNC
async def test_two_interrupts_side_by_side_are_answered_by_their_ids(*, is_sync: bool, calls: Calls) -> None:
    """Each gets its own answer."""
    asking = [calls.asking(name, lambda step_input: str(interrupt(step_input.subtask))) for name in "BC"]
    workers = [calls.worker("A"), *asking, calls.worker("D")]
    graph = around(
        Conductor(FixedPlanner(DIAMOND), workers), executor="langgraph", checkpointer=InMemorySaver()
    )
    state = await _call(graph, ASKED, CONFIG, is_sync=is_sync)
    asked = {each.value: each.id for each in state["__interrupt__"]}
    answers = {asked["left"]: "west", asked["right"]: "east"}
    state = await _call(graph, Command(resume=answers), CONFIG, is_sync=is_sync)
    assert state["messages"][-1].content == "D(west,east)"


@SYNC
async def test_a_step_that_fails_raises_and_goes_on_there(*, is_sync: bool, calls: Calls) -> None:
    """With `on_failure='fail'` nothing after it is begun."""
    luck = [False]

    def right(step_input: Any) -> str:
        if not luck[0]:
            raise ValueError("no luck")
        return "lucky"

    planner = Plans(DIAMOND)
    workers = [*calls.workers("AB"), calls.worker("C", right), calls.worker("D")]
    conductor = Conductor(planner, workers, on_failure="fail")
    graph = around(conductor, executor="langgraph", checkpointer=InMemorySaver())
    with pytest.raises(RunFailed, match=r"step 2 \(C\): .*no luck"):
        await _call(graph, ASKED, CONFIG, is_sync=is_sync)
    luck[0] = True
    state = await _call(graph, None, CONFIG, is_sync=is_sync)
    assert state["messages"][-1].content == "D(B(A()),lucky)"
    assert sorted(calls.names) == ["A", "B", "C", "C", "D"]
    assert planner.asked == 1


@SYNC
async def test_a_run_that_failed_as_a_whole_tries_again_what_failed(*, is_sync: bool, calls: Calls) -> None:
    """As often as the graph is called; the step that was run without its output, once with the output."""
    luck = [False]

    def right(step_input: Any) -> str:
        if not luck[0]:
            raise ValueError("no luck")
        return "lucky"

    planner = Plans(DIAMOND)
    workers = [*calls.workers("AB"), calls.worker("C", right), calls.worker("D")]
    graph = around(
        Conductor(planner, workers), executor="langgraph", partial="raise", checkpointer=InMemorySaver()
    )
    for _ in range(2):
        with pytest.raises(RunFailed, match="the answer is partial"):
            await _call(graph, ASKED if planner.asked == 0 else None, CONFIG, is_sync=is_sync)
    luck[0] = True
    state = await _call(graph, None, CONFIG, is_sync=is_sync)
    assert state["messages"][-1].content == "D(B(A()),lucky)"
    assert sorted(calls.names) == ["A", "B", "C", "C", "C", "D", "D"]
    assert planner.asked == 1


@SYNC
async def test_what_earlier_attempts_spent_is_on_the_bill(*, is_sync: bool) -> None:
    """Of steps that run again: in the result, and for the limits of the run."""
    card = Card(name="A", price=Price(input=1.0, output=1.0))
    cost = 20 / 1_000_000

    worker = ScriptedWorker(card, Completion("whole", usage=Usage(10, 10)))
    failing = ScriptedWorker(
        Card(name="B", price=Price(input=1.0, output=1.0)),
        WorkerFailed("no", usage=Usage(10, 10), maybe_paid=True),
    )
    plan = Plan((Step(0, "left"), Step(1, "fails"), Step(0, "join", (0, 1))))
    conductor = Conductor(
        FixedPlanner(plan), [worker, failing], retry=Retry(attempts=1), limits=Limits(calls=4)
    )
    graph = around(conductor, executor="langgraph", partial="raise", checkpointer=InMemorySaver())
    bills, calls = list[Any](), list[int]()
    for asked in (ASKED, None, None):
        with pytest.raises(RunFailed) as failed:
            await _call(graph, asked, CONFIG, is_sync=is_sync)
        result = failed.value.result
        bills.append(result.cost)
        calls.append(len(worker.requests) + len(failing.requests))
        assert result.outcomes[0].cost == pytest.approx(cost)
    assert calls == [3, 3, 3]  # the last call is kept for the answer, and the limit sees all calls before
    assert bills == [pytest.approx(made * cost) for made in calls]
    assert "calls" in str(failed.value)


@pytest.mark.parametrize("on_failure", ["note", "skip", "fail"])
@pytest.mark.parametrize("journal", [None, MemoryJournal()], ids=["state", "journal"])
async def test_a_step_that_fails_twice_is_billed_for_three_calls(
    on_failure: OnFailure, journal: MemoryJournal | None
) -> None:
    """By its outcome and by its bill, whoever keeps them."""
    card = Card(name="B", price=Price(input=1.0, output=1.0))
    failure = WorkerFailed("no", usage=Usage(10, 10), maybe_paid=True)
    replies = iter([failure, failure, Completion("done", usage=Usage(10, 10))])
    worker = ScriptedWorker(card, lambda request: next(replies))
    conductor = Conductor(
        FixedPlanner(Plan((Step(0, "try"),))), [worker], on_failure=on_failure, journal=journal
    )
    graph = around(conductor, executor="langgraph", checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": on_failure}}
    for asked in (ASKED, None):
        with pytest.raises(RunFailed):
            await graph.ainvoke(asked, config)
    state = await graph.ainvoke(None, config)
    (outcome,) = state["podium"]["outcomes"]
    assert outcome["attempts"] == len(outcome["calls"]) == len(worker.requests) == 3
    assert state["podium"]["cost"] == pytest.approx(60e-6)


async def test_a_call_that_was_lost_is_told_as_perhaps_paid_in_the_state_and_in_the_events() -> None:
    """It was under way when the node was stopped."""
    slow = [True]

    async def answer(step_input: StepInput) -> str:
        if slow[0]:
            await anyio.sleep(30)
        return "done"

    conductor = Conductor(
        FixedPlanner(Plan((Step(0, "try"),))), [FunctionWorker(answer)], journal=MemoryJournal()
    )
    graph = around(conductor, executor="langgraph", checkpointer=InMemorySaver())
    with anyio.move_on_after(0.3):
        await graph.ainvoke(ASKED, CONFIG)
    slow[0] = False
    modes: Any = ["custom", "values"]
    told: dict[str, Any] = {}
    async for _, mode, data in graph.astream(None, CONFIG, stream_mode=modes, subgraphs=True):
        told[data["name"] if mode == "custom" else "state"] = data
    assert told["podium_run_ended"]["data"]["maybe_paid"] is True
    assert told["state"]["podium"]["maybe_paid"] is True


async def test_every_rounds_plan_is_kept_before_it_is_carried_out(calls: Calls) -> None:
    """An interrupt in the second round does not plan that round again."""
    first, second = Plan((Step(0, "try"),)), Plan((Step(1, "try harder"),))
    planner = Plans(first, second)
    asking = calls.asking("B", lambda step_input: str(interrupt("may I?")))
    conductor = Conductor(
        planner,
        [calls.worker("A"), asking],
        limits=Limits(rounds=2),
        accept=lambda question, answer: answer != "A()",
    )
    graph = around(conductor, executor="langgraph", checkpointer=InMemorySaver())
    state = await graph.ainvoke(ASKED, CONFIG)
    assert [each.value for each in state["__interrupt__"]] == ["may I?"]
    assert planner.asked == 2
    state = await graph.ainvoke(Command(resume="yes"), CONFIG)
    assert state["messages"][-1].content == "yes"
    assert planner.asked == 2
    assert calls.names == ["A", "B", "B"]
    assert state["podium"]["round"] == 2


@pytest.mark.parametrize("config", [{}, CONFIG], ids=["nothing kept", "kept"])
async def test_rounds_follow_each_other_where_nothing_is_kept_and_where_it_is(
    config: Any, calls: Calls
) -> None:
    """The outcomes of both are shown."""
    planner = Plans(Plan((Step(0, "try"),)), Plan((Step(1, "try harder"),)))
    conductor = Conductor(
        planner,
        calls.workers("AB"),
        limits=Limits(rounds=2),
        accept=lambda question, answer: answer == "B()",
    )
    saver = InMemorySaver() if config else None
    state = await around(conductor, executor="langgraph", checkpointer=saver).ainvoke(ASKED, config)
    assert state["messages"][-1].content == "B()"
    assert [outcome["round"] for outcome in state["podium"]["outcomes"]] == [1, 2]


@SYNC
async def test_a_long_chain_of_steps_is_within_the_limit_of_supersteps(
    *, is_sync: bool, calls: Calls
) -> None:
    """Inside a chain of LangChain's the limit is 25, if nobody raises it."""
    many = 40
    plan = Plan(tuple(Step(0, f"step {index}", (index - 1,) if index else ()) for index in range(many)))
    worker = ScriptedWorker("A", "done")
    conductor = Conductor(
        FixedPlanner(plan), [worker], limits=Limits(plan_steps=many, calls=2 * many, steps=2 * many)
    )
    chain = RunnableLambda(lambda asked: asked) | around(conductor, executor="langgraph")  # has a limit of 25
    state = await _call(chain, ASKED, None, is_sync=is_sync)
    assert state["messages"][-1].content == "done"
    assert len(worker.requests) == many


@pytest.mark.parametrize("executor", ["podium", "langgraph"])
async def test_a_worker_is_shown_nothing_that_its_step_may_not_see(executor: Executor) -> None:
    """Neither subtask nor output, by either executor."""
    plan = Plan((Step(0, "canary-a"), Step(1, "canary-b"), Step(2, "see b", (1,)), Step(3, "see c", (2,))))
    workers = [ScriptedWorker(f"w{n}", f"canary-out-{n}") for n in range(4)]
    conductor = Conductor(FixedPlanner(plan), workers)
    saver = InMemorySaver()
    state = await around(conductor, executor=executor, checkpointer=saver).ainvoke(ASKED, CONFIG)
    assert state["messages"][-1].content == "canary-out-3"
    told = [repr(worker.requests[0].messages) + repr(worker.requests[0].step_input) for worker in workers[1:]]
    assert not any("canary-a" in text or "canary-out-0" in text for text in told)
    assert "canary-out-1" in told[1]
    assert "canary-out-1" not in told[2]
    assert "canary-b" not in told[2]
    assert "canary-out-2" in told[2]


async def test_a_node_is_given_nothing(calls: Calls) -> None:
    """What a worker sees is decided by the run alone."""
    given: dict[str, Any] = {}
    graph = around(Conductor(FixedPlanner(DIAMOND), calls.workers("ABCD")), executor="langgraph")
    async for event in graph.astream_events(ASKED, version="v2"):
        if event["event"] == "on_chain_start" and event["name"][:1].isdigit():
            given[event["name"]] = event["data"]["input"]
    assert given == {"0 A": {}, "1 B": {}, "2 C": {}, "3 D": {}}


async def test_names_that_langgraph_keeps_for_itself_are_names_of_workers_all_the_same(calls: Calls) -> None:
    """LangGraph refuses some marks in names of nodes."""
    plan = Plan((Step(0, "a"), Step(1, "b", (0,))))
    conductor = Conductor(FixedPlanner(plan), [calls.worker("a:b|c"), calls.worker("__start__")])
    state = await around(conductor, executor="langgraph").ainvoke(ASKED)
    assert state["messages"][-1].content == "__start__(a:b|c())"


@pytest.mark.parametrize("partial", ["return", "raise"])
async def test_a_plan_edited_in_the_state_is_the_one_that_is_carried_out(
    calls: Calls, partial: Partial
) -> None:
    """The hash tells that it was edited."""
    plan = Plan((Step(0, "begin"), Step(1, "ask", (0,))))
    planner = Plans(plan)
    asking = calls.asking("B", lambda step_input: str(interrupt("may I?")))
    workers = [calls.worker("A"), asking, calls.worker("C")]
    conductor = Conductor(planner, workers)
    graph = around(conductor, executor="langgraph", partial=partial, checkpointer=InMemorySaver())
    await graph.ainvoke(ASKED, CONFIG)
    inner = (await graph.aget_state(CONFIG, subgraphs=True)).tasks[0].state
    edited = {**inner.values["podium"], "plan": Plan((Step(2, "end"),)).to_json()}
    await graph.aupdate_state(inner.config, {"podium": edited}, as_node="__start__")
    state = await graph.ainvoke(None, CONFIG)
    assert state["messages"][-1].content == "C()"
    assert planner.asked == 1
    assert calls.names == ["A", "B", "C"]


async def test_a_plan_edited_to_nonsense_in_the_state_is_refused_and_can_be_edited_again(
    calls: Calls,
) -> None:
    """Nothing is lost: a third edit is carried out, without the planner."""
    planner = Plans(Plan((Step(0, "begin"), Step(1, "ask", (0,)))))
    asking = calls.asking("B", lambda step_input: str(interrupt("may I?")))
    graph = around(
        Conductor(planner, [calls.worker("A"), asking]), executor="langgraph", checkpointer=InMemorySaver()
    )
    await graph.ainvoke(ASKED, CONFIG)
    inner = (await graph.aget_state(CONFIG, subgraphs=True)).tasks[0].state
    for steps in ([], [{"worker": 7, "subtask": "x", "access": []}]):
        wrong = {**inner.values["podium"], "plan": {"schema": 1, "steps": steps}}
        await graph.aupdate_state(inner.config, {"podium": wrong}, as_node="__start__")
        with pytest.raises((PlanInvalid, ConfigError)):
            await graph.ainvoke(None, CONFIG)
    right = {**inner.values["podium"], "plan": Plan((Step(0, "end"),)).to_json()}
    await graph.aupdate_state(inner.config, {"podium": right}, as_node="__start__")
    state = await graph.ainvoke(None, CONFIG)
    assert state["messages"][-1].content == "A()"
    assert planner.asked == 1
