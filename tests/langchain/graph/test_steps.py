"""A plan's steps as nodes of a LangGraph graph: early, left by an interrupt, failed, and paid for once."""

from collections.abc import Callable, Sequence
from typing import Any

import anyio
import pytest
from graphs.conducted import ASKED, CONFIG, DIAMOND, FIRST, LAST, Calls, Plans, Slow, around
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import StructuredTool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, interrupt
from servers.chat_server import ChatServer, says

from langchain_podium import ConductorRunnable, as_worker
from podium import Card, Conductor, Limits, Plan, Price, ScriptedWorker, Step
from podium.errors import RunFailed, WorkerFailed
from podium.execution import Retry
from podium.journal import MemoryJournal
from podium.planners import FixedPlanner
from podium.types import Completion
from podium.usage import Usage
from podium.workers import FREE, StepInput, Worker
from podium.workers.simple import FunctionWorker

pytestmark = pytest.mark.anyio


async def test_what_earlier_attempts_spent_is_on_the_bill() -> None:
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
            await graph.ainvoke(asked, CONFIG)
        result = failed.value.result
        bills.append(result.cost)
        calls.append(len(worker.requests) + len(failing.requests))
        assert result.outcomes[0].cost == pytest.approx(cost)
    assert calls == [3, 3, 3]  # the last call is kept for the answer, and the limit sees all calls before
    assert bills == [pytest.approx(made * cost) for made in calls]
    assert "calls" in str(failed.value)


async def test_a_call_that_was_lost_is_told_as_perhaps_paid_in_the_state_and_in_the_events() -> None:
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


def test_a_long_chain_of_steps_is_within_the_limit_of_supersteps() -> None:
    """Inside a chain of LangChain's the limit is 25, if nobody raises it."""
    many = 40
    plan = Plan(tuple(Step(0, f"step {index}", (index - 1,) if index else ()) for index in range(many)))
    worker = ScriptedWorker("A", "done")
    conductor = Conductor(
        FixedPlanner(plan), [worker], limits=Limits(plan_steps=many, calls=2 * many, steps=2 * many)
    )
    chain = RunnableLambda(lambda asked: asked) | around(conductor, executor="langgraph")  # has a limit of 25
    state: Any = chain.invoke(ASKED)
    assert state["messages"][-1].content == "done"
    assert len(worker.requests) == many


async def test_a_nested_conductors_step_may_wait_too_and_with_a_journal_pays_nothing_twice(
    calls: Calls,
) -> None:
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


def _saver(*, kept: bool) -> InMemorySaver | None:
    return InMemorySaver() if kept else None


def _first(begun: anyio.Event, calls: list[str]) -> Worker:
    async def first(step_input: StepInput) -> str:
        calls.append("first")
        begun.set()
        return "found"

    return FunctionWorker(first, price=FREE)


@pytest.mark.parametrize(("kept", "journal"), [(False, None), (True, MemoryJournal())])
async def test_a_step_starts_while_its_plan_is_written_and_is_called_once(
    *, kept: bool, journal: MemoryJournal | None
) -> None:
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


PRICE = Price(input=1, output=2)


def _journal(*, recorded: bool) -> MemoryJournal | None:
    return MemoryJournal() if recorded else None


Make = Callable[[Callable[[str], str]], Worker]


def _tool(ask: Callable[[str], str]) -> Worker:
    def call(text: str) -> str:
        return ask(text)

    return as_worker(StructuredTool.from_function(call, name="A", description="Asks."))


def _function(ask: Callable[[str], str]) -> Worker:
    return as_worker(RunnableLambda(ask), name="A", description="Asks.")


@pytest.mark.parametrize(("make", "recorded"), [(_tool, False), (_function, True)])
async def test_code_that_interrupts_does_not_start_before_its_node(make: Make, *, recorded: bool) -> None:
    """It would be called twice before anybody is asked, and be billed for tokens that nothing used."""
    called, written = list[str](), anyio.Event()
    written.set()

    def ask(text: str) -> str:
        called.append(text)
        return f"told {interrupt('may I?')}"

    conductor = Conductor(
        Slow(written, FIRST.replace('"look"', '"{\\"text\\": \\"look\\"}"'), LAST),
        [make(ask), ScriptedWorker("last", "written")],
        journal=_journal(recorded=recorded),
    )
    graph = around(conductor, executor="langgraph", checkpointer=InMemorySaver())
    state = await graph.ainvoke(ASKED, CONFIG)
    assert (len(called), [each.value for each in state["__interrupt__"]]) == (1, ["may I?"])
    state = await graph.ainvoke(Command(resume="yes"), CONFIG)
    assert (len(called), state["messages"][-1].content) == (2, "written")
    assert all("usage" not in call for call in state["podium"]["outcomes"][0]["calls"])
    assert not state["podium"]["maybe_paid"]


@pytest.mark.parametrize(("early", "recorded"), [(False, True), (True, False)])
async def test_a_failed_step_runs_again_when_the_graph_goes_on(*, early: bool, recorded: bool) -> None:
    """Also one that started while its plan was written; all its calls are on the bill."""
    fails, written = [1, 1], anyio.Event()
    written.set()

    def find(request: Any) -> Any:
        return WorkerFailed("no luck") if fails and fails.pop() else "found"

    first, last = ScriptedWorker("first", find), ScriptedWorker("last", "written")
    plan = Plan((Step(0, "look"), Step(1, "write", (0,))))
    conductor = Conductor(
        Slow(written, FIRST, LAST) if early else FixedPlanner(plan),
        [first, last],
        retry=Retry(attempts=1),
        on_failure="skip",
        journal=_journal(recorded=recorded),
    )
    graph = around(conductor, executor="langgraph", checkpointer=InMemorySaver(), partial="raise")
    asked: Any = ASKED
    for calls in (1, 2):
        with pytest.raises(RunFailed):
            await graph.ainvoke(asked, CONFIG)
        assert len(first.requests) == calls
        asked = None
    state = await graph.ainvoke(None, CONFIG)
    assert (state["podium"]["status"], len(first.requests), len(last.requests)) == ("ok", 3, 1)
    assert [call["attempt"] for call in state["podium"]["outcomes"][0]["calls"]] == [1, 2, 3]


def _by_hand(conductor: Conductor) -> Any:
    """Return a graph with a node that invokes the conductor in code of a user's own."""
    runnable = ConductorRunnable(conductor)
    graph = StateGraph(MessagesState)
    graph.add_node("ask", lambda state: {"messages": [("ai", runnable.invoke(state["messages"]))]})
    graph.add_edge(START, "ask")
    return graph.compile(checkpointer=InMemorySaver())


def _kept(conductor: Conductor) -> Any:
    return around(conductor, executor="langgraph", checkpointer=InMemorySaver())


@pytest.mark.parametrize(("make", "stream_mode"), [(_kept, "messages"), (_by_hand, ["updates", "custom"])])
def test_whoever_leaves_a_sync_stream_pays_for_at_most_one_further_call(
    make: Callable[[Conductor], Any], stream_mode: Any
) -> None:
    with ChatServer(lambda call: says(call, "Yes.", delay=0.05)).in_thread() as server:
        model = as_worker(ChatOpenAI(model="m", base_url=server.url, api_key="none", max_retries=0), name="m")
        plan = Plan(tuple(Step(0, f"part {part}", (part - 1,) if part else ()) for part in range(4)))
        stream = make(Conductor(FixedPlanner(plan), [model])).stream(
            ASKED, CONFIG, stream_mode=stream_mode, subgraphs=True
        )
        next(stream)
        before = len(server.calls)
        stream.close()
        assert len(server.calls) <= before + 1


class _Gone(InMemorySaver):
    is_gone_after: int | None = None

    def _write(self) -> None:
        if self.is_gone_after is not None:
            if self.is_gone_after <= 0:
                raise ConnectionError("the database went away")
            self.is_gone_after -= 1

    async def aput(self, *given: Any, **more: Any) -> Any:
        self._write()
        return await super().aput(*given, **more)

    async def aput_writes(
        self, config: Any, writes: Sequence[Any], task_id: str, task_path: str = ""
    ) -> None:
        self._write()
        await super().aput_writes(config, writes, task_id, task_path)


async def test_without_a_journal_what_the_checkpointer_kept_is_not_paid_again(calls: Calls) -> None:
    saver = _Gone()
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
