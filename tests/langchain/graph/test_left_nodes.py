"""Nodes that are left by an interrupt or a failure: what they have paid for is on the bill of the run."""

from collections.abc import Callable
from typing import Any

import anyio
import pytest
from graphs.conducted import FIRST, LAST, LATER, Chat, Slow, around, decided
from langchain_core.messages import AIMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import StructuredTool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, interrupt
from servers.chat_server import ChatServer, says

from langchain_podium import ConductorRunnable, as_worker
from podium import Conductor, Limits, Plan, Price, ScriptedWorker, Step
from podium.errors import RunFailed, WorkerFailed
from podium.execution import Retry
from podium.journal import MemoryJournal
from podium.planners import FixedPlanner
from podium.workers import Worker

pytestmark = pytest.mark.anyio

ASKED = {"messages": [("user", "How many?")]}
CONFIG: Any = {"configurable": {"thread_id": "1"}}
PRICE = Price(input=1, output=2)
RECORDED = pytest.mark.parametrize("recorded", [False, True], ids=["state", "journal"])


def _journal(*, recorded: bool) -> MemoryJournal | None:
    return MemoryJournal() if recorded else None


def _agent(url: str) -> Worker:
    """Return a graph that asks a model, then a person, then the model again."""
    model = ChatOpenAI(model="m", base_url=url, api_key="none", max_retries=0)

    def think(state: MessagesState) -> dict[str, Any]:
        return {"messages": [model.invoke(state["messages"])]}

    def ask(state: MessagesState) -> dict[str, Any]:
        return {"messages": [("user", f"told {interrupt('may I?')}")]}

    graph = StateGraph(MessagesState)
    for name, node in (("think", think), ("ask", ask), ("answer", think)):
        graph.add_node(name, node)
    graph.add_edge(START, "think")
    graph.add_edge("think", "ask")
    graph.add_edge("ask", "answer")
    return as_worker(graph.compile(), name="agent", price=PRICE)


@RECORDED
async def test_what_an_agent_spent_before_its_interrupt_is_on_the_bill(*, recorded: bool) -> None:
    """As the server reported it, and no model is asked twice."""
    async with ChatServer(lambda call: says(call, "Yes.")) as server:
        conductor = Conductor(
            FixedPlanner(Plan((Step(0, "Do it."),))),
            [_agent(server.url)],
            journal=_journal(recorded=recorded),
        )
        graph = around(conductor, executor="langgraph", checkpointer=InMemorySaver())
        await graph.ainvoke(ASKED, CONFIG)
        state = await graph.ainvoke(Command(resume="yes"), CONFIG)
        assert len(server.calls) == 2
    view = state["podium"]
    assert view["usage"] == {"input_tokens": 422, "output_tokens": 14, "estimated": False}
    assert view["cost"] == pytest.approx((422 + 2 * 14) * 1e-6)
    assert not view["maybe_paid"]


def test_it_is_in_code_that_is_not_async_too() -> None:
    """Which keeps its record by a checkpointer that is not async."""
    with ChatServer(lambda call: says(call, "Yes.")).in_thread() as server:
        conductor = Conductor(FixedPlanner(Plan((Step(0, "Do it."),))), [_agent(server.url)])
        graph = around(conductor, executor="langgraph", checkpointer=InMemorySaver())
        graph.invoke(ASKED, CONFIG)
        state = graph.invoke(Command(resume="yes"), CONFIG)
    assert state["podium"]["usage"] == {"input_tokens": 422, "output_tokens": 14, "estimated": False}


async def test_calls_before_an_interrupt_count_against_the_limits() -> None:
    """A run that is resumed has no calls of its own."""
    async with ChatServer(lambda call: says(call, "Yes.")) as server:
        plan = Plan((Step(0, "Do it."),))
        conductor = Conductor(FixedPlanner(plan), [_agent(server.url)], limits=Limits(calls=1))
        graph = around(conductor, executor="langgraph", checkpointer=InMemorySaver())
        await graph.ainvoke(ASKED, CONFIG)
        with pytest.raises(RunFailed, match="limit"):
            await graph.ainvoke(Command(resume="yes"), CONFIG)
        assert len(server.calls) == 1


Make = Callable[[Callable[[str], str]], Worker]


def _tool(ask: Callable[[str], str]) -> Worker:
    def call(text: str) -> str:
        return ask(text)

    return as_worker(StructuredTool.from_function(call, name="A", description="Asks."))


def _function(ask: Callable[[str], str]) -> Worker:
    return as_worker(RunnableLambda(ask), name="A", description="Asks.")


@RECORDED
@pytest.mark.parametrize("make", [_tool, _function])
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


@RECORDED
async def test_a_priced_function_that_interrupts_is_not_billed_an_estimate(*, recorded: bool) -> None:
    """It has asked no model before."""

    def ask(text: str) -> str:
        return f"told {interrupt('may I?')}"

    conductor = Conductor(
        FixedPlanner(Plan((Step(0, "Ask."),))),
        [as_worker(RunnableLambda(ask), name="A", price=PRICE)],
        journal=_journal(recorded=recorded),
    )
    graph = around(conductor, executor="langgraph", checkpointer=InMemorySaver())
    await graph.ainvoke(ASKED, CONFIG)
    state = await graph.ainvoke(Command(resume="yes"), CONFIG)
    first, second = state["podium"]["outcomes"][0]["calls"]
    assert "usage" not in first
    assert "maybe_paid" not in first
    assert second["usage"]["estimated"]


async def test_a_chain_of_models_and_prompts_starts_while_its_plan_is_written() -> None:
    """Nothing in it can interrupt."""
    begun = anyio.Event()
    async with ChatServer(lambda call: says(call, "found")) as server:
        model = ChatOpenAI(model="m", base_url=server.url, api_key="none", max_retries=0)

        def first(_: Any) -> ChatPromptTemplate:
            raise AssertionError

        chain = ChatPromptTemplate.from_messages([("user", "{input}")]) | model | StrOutputParser()
        worker = as_worker(chain, name="chain")
        assert not worker.is_interruptible
        assert as_worker(chain | RunnableLambda(first), name="other").is_interruptible
        last = ScriptedWorker("last", "written")
        begun.set()
        graph = around(
            Conductor(Slow(begun, FIRST, LAST), [worker, last]),
            executor="langgraph",
            checkpointer=InMemorySaver(),
        )
        assert (await graph.ainvoke(ASKED, CONFIG))["messages"][-1].content == "written"


@RECORDED
@pytest.mark.parametrize("early", [False, True])
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


async def test_what_ended_well_is_not_paid_again_after_an_approved_run_failed() -> None:
    """Under Podium's own executor, whose steps are no nodes."""
    fails = [1]

    def find(request: Any) -> Any:
        return WorkerFailed("no luck") if fails and fails.pop() else "found"

    good, bad = ScriptedWorker("good", "fine"), ScriptedWorker("bad", find)
    plan = Plan((Step(0, "look"), Step(1, "write", (0,))))
    conductor = Conductor(FixedPlanner(plan), [good, bad], retry=Retry(attempts=1))
    graph = around(conductor, policy=LATER, checkpointer=InMemorySaver())
    await graph.ainvoke(ASKED, CONFIG)
    with pytest.raises(RunFailed):
        await graph.ainvoke(decided(), CONFIG)
    state = await graph.ainvoke(None, CONFIG)
    assert isinstance(state["messages"][-1], AIMessage)
    assert (state["podium"]["status"], len(good.requests), len(bad.requests)) == ("ok", 1, 2)


def _by_hand(conductor: Conductor) -> Any:
    """Return a graph with a node that invokes the conductor in code of a user's own."""
    runnable = ConductorRunnable(conductor)
    graph = StateGraph(MessagesState)
    graph.add_node("ask", lambda state: {"messages": [("ai", runnable.invoke(state["messages"]))]})
    graph.add_edge(START, "ask")
    return graph.compile(checkpointer=InMemorySaver())


def _inside(conductor: Conductor) -> Any:
    """Return a graph whose only node is a graph with the conductor."""
    graph = StateGraph(Chat)
    graph.add_node("team", around(conductor))
    graph.add_edge(START, "team")
    return graph.compile(checkpointer=InMemorySaver())


GRAPHS: dict[str, Callable[[Conductor], Any]] = {
    "podium": around,
    "langgraph": lambda conductor: around(conductor, executor="langgraph"),
    "kept": lambda conductor: around(conductor, executor="langgraph", checkpointer=InMemorySaver()),
    "inside": _inside,
    "by hand": _by_hand,
}


@pytest.mark.parametrize("stream_mode", ["messages", ["updates", "custom"]], ids=str)
@pytest.mark.parametrize("make", GRAPHS.values(), ids=GRAPHS)
def test_whoever_leaves_a_sync_stream_pays_for_at_most_one_further_call(
    make: Callable[[Conductor], Any], stream_mode: Any
) -> None:
    """LangGraph waits for the node when its stream is closed."""
    with ChatServer(lambda call: says(call, "Yes.", delay=0.1)).in_thread() as server:
        model = as_worker(ChatOpenAI(model="m", base_url=server.url, api_key="none", max_retries=0), name="m")
        plan = Plan(tuple(Step(0, f"part {part}", (part - 1,) if part else ()) for part in range(4)))
        stream = make(Conductor(FixedPlanner(plan), [model])).stream(
            ASKED, CONFIG, stream_mode=stream_mode, subgraphs=True
        )
        next(stream)
        before = len(server.calls)
        stream.close()
        assert len(server.calls) <= before + 1


@pytest.mark.long
def test_leaving_a_sync_stream_logs_no_error(caplog: pytest.LogCaptureFixture) -> None:
    """Also while nodes of several steps wait."""
    plan = Plan(tuple(Step(0, f"part {part}") for part in range(4)))
    for _ in range(25):
        conductor = Conductor(FixedPlanner(plan), [ScriptedWorker("slow", "done", latency=0.5)])
        graph = around(conductor, executor="langgraph", checkpointer=InMemorySaver())
        stream = graph.stream(ASKED, CONFIG, stream_mode="custom", subgraphs=True)
        next(event for _, event in stream if event["name"] == "podium_step_started")
        stream.close()
    assert not [each for each in caplog.records if each.name == "concurrent.futures"]
