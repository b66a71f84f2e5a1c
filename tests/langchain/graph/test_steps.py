"""A plan's steps as nodes of a graph: early, interrupted, failed, paid for once, edited and forked."""

from collections.abc import Callable
from typing import Any

import anyio
import pytest
from graphs.conducted import ASKED, CONFIG, DIAMOND, FIRST, LAST, Calls, Executor, Plans, Slow, around
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import StructuredTool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, interrupt
from servers.chat_server import Call, ChatServer, Pause, Reply, chunk, events, says

from langchain_podium import ConductorRunnable, as_worker
from podium import Card, Conductor, FunctionWorker, Limits, Plan, Price, Retry, ScriptedWorker, Step
from podium.errors import ConfigError, RunFailed, WorkerFailed
from podium.journal import MemoryJournal
from podium.planners import FixedPlanner
from podium.types import Completion
from podium.usage import Usage
from podium.workers import FREE, StepInput, Worker

pytestmark = pytest.mark.anyio


async def test_what_earlier_attempts_spent_is_on_the_bill() -> None:
    """Of steps that run again: in the result, and for the limits of the run."""
    price, used = Price(input=1.0, output=1.0), Usage(10, 10)
    cost = 20 / 1_000_000
    worker = ScriptedWorker(Card(name="A", price=price), Completion("whole", usage=used))
    failing = ScriptedWorker(Card(name="B", price=price), WorkerFailed("no", usage=used, maybe_paid=True))
    plan = Plan((Step(0, "left"), Step(1, "fails"), Step(0, "join", (0, 1))))
    options: Any = {"retry": Retry(attempts=1), "limits": Limits(calls=4)}
    conductor = Conductor(FixedPlanner(plan), [worker, failing], **options)
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


async def test_a_call_that_was_lost_is_perhaps_paid_in_the_state_and_in_the_events() -> None:
    slow = [True]

    async def answer(step_input: StepInput) -> str:
        if slow[0]:
            await anyio.sleep(30)
        return "done"

    plan = FixedPlanner(Plan((Step(0, "try"),)))
    conductor = Conductor(plan, [FunctionWorker(answer)], journal=MemoryJournal())
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
    limits = Limits(plan_steps=many, calls=2 * many, steps=2 * many)
    conductor = Conductor(FixedPlanner(plan), [worker], limits=limits)
    chain = RunnableLambda(lambda asked: asked) | around(conductor, executor="langgraph")  # has a limit of 25
    state: Any = chain.invoke(ASKED)
    assert (state["messages"][-1].content, len(worker.requests)) == ("done", many)


async def test_a_step_of_a_nested_conductor_waits_and_pays_nothing_twice(calls: Calls) -> None:
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
    assert (state["messages"][-1].content, calls.names) == ("told yes", ["C", "A", "B", "B"])
    assert planner.asked == 1


@pytest.mark.parametrize(("saver", "journal"), [(None, None), (InMemorySaver(), MemoryJournal())])
async def test_a_step_starts_while_its_plan_is_written_and_is_called_once(saver: Any, journal: Any) -> None:
    begun, calls = anyio.Event(), list[str]()

    async def first(step_input: StepInput) -> str:
        calls.append("first")
        begun.set()
        return "found"

    planner, last = Slow(begun, FIRST, LAST), ScriptedWorker("last", "written")
    conductor = Conductor(planner, [FunctionWorker(first, price=FREE), last], journal=journal)
    graph = around(conductor, executor="langgraph", checkpointer=saver)
    nodes = list[str]()
    config: Any = CONFIG if saver else {}
    async for _, update in graph.astream(ASKED, config, stream_mode="updates", subgraphs=True):
        nodes += update
    assert ([name for name in nodes if name[0].isdigit()], calls) == (["0 first", "1 last"], ["first"])
    assert "found" in last.requests[0].messages[-1].text
    assert planner.asked == 1


Make = Callable[[Callable[[str], str]], Worker]


def _tool(ask: Callable[[str], str]) -> Worker:
    def call(text: str) -> str:
        return ask(text)

    return as_worker(StructuredTool.from_function(call, name="A", description="Asks."))


def _function(ask: Callable[[str], str]) -> Worker:
    return as_worker(RunnableLambda(ask), name="A", description="Asks.")


@pytest.mark.parametrize(("make", "journal"), [(_tool, None), (_function, MemoryJournal())])
async def test_code_that_interrupts_does_not_start_before_its_node(make: Make, journal: Any) -> None:
    """It would be called twice before anybody is asked, and be billed for tokens that nothing used."""
    called, written = list[str](), anyio.Event()
    written.set()

    def ask(text: str) -> str:
        called.append(text)
        return f"told {interrupt('may I?')}"

    first = FIRST.replace('"look"', '"{\\"text\\": \\"look\\"}"')
    workers = [make(ask), ScriptedWorker("last", "written")]
    conductor = Conductor(Slow(written, first, LAST), workers, journal=journal)
    graph = around(conductor, executor="langgraph", checkpointer=InMemorySaver())
    state = await graph.ainvoke(ASKED, CONFIG)
    assert (len(called), [each.value for each in state["__interrupt__"]]) == (1, ["may I?"])
    state = await graph.ainvoke(Command(resume="yes"), CONFIG)
    assert (len(called), state["messages"][-1].content) == (2, "written")
    assert all("usage" not in call for call in state["podium"]["outcomes"][0]["calls"])
    assert not state["podium"]["maybe_paid"]


@pytest.mark.parametrize(("early", "journal"), [(False, MemoryJournal()), (True, None)])
async def test_a_failed_step_runs_again_when_the_graph_goes_on(journal: Any, *, early: bool) -> None:
    """Also one that started while its plan was written; all its calls are on the bill."""
    fails, written = [1, 1], anyio.Event()
    written.set()

    def find(request: Any) -> Any:
        return WorkerFailed("no luck") if fails and fails.pop() else "found"

    first, last = ScriptedWorker("first", find), ScriptedWorker("last", "written")
    plan = Plan((Step(0, "look"), Step(1, "write", (0,))))
    planner = Slow(written, FIRST, LAST) if early else FixedPlanner(plan)
    options: Any = {"retry": Retry(attempts=1), "on_failure": "skip", "journal": journal}
    conductor = Conductor(planner, [first, last], **options)
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
def test_leaving_a_sync_stream_pays_for_one_further_call_at_most(make: Any, stream_mode: Any) -> None:
    def reply(call: Call) -> Reply:
        slow = chunk({"content": "Yes"}), Pause(0.5), chunk({}, finish_reason="stop")
        return events(*slow) if call.body.get("stream") else says(call, "Yes.", delay=0.5)

    with ChatServer(reply).in_thread() as server:
        model = as_worker(ChatOpenAI(model="m", base_url=server.url, api_key="none", max_retries=0), name="m")
        plan = Plan(tuple(Step(0, f"part {part}", (part - 1,) if part else ()) for part in range(4)))
        graph = make(Conductor(FixedPlanner(plan), [model]))
        stream = graph.stream(ASKED, CONFIG, stream_mode=stream_mode, subgraphs=True)
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

    async def aput_writes(self, *given: Any, **more: Any) -> None:
        self._write()
        await super().aput_writes(*given, **more)


async def test_without_a_journal_what_the_checkpointer_kept_is_not_paid_again(calls: Calls) -> None:
    saver = _Gone()
    conductor = Conductor(FixedPlanner(DIAMOND), calls.workers("ABCD"))
    graph = around(conductor, executor="langgraph", checkpointer=saver)

    async def cut() -> None:
        options: Any = {"stream_mode": "updates", "subgraphs": True, "durability": "sync"}
        async for _, update in graph.astream(ASKED, CONFIG, **options):
            if "0 A" in update:
                saver.is_gone_after = 2

    with pytest.raises(ConnectionError, match="went away"):
        await cut()
    saver.is_gone_after = None
    state = await graph.ainvoke(None, CONFIG)
    assert (state["messages"][-1].content, calls.names.count("A")) == ("D(B(A()),C(A()))", 1)


RECORDS = pytest.mark.parametrize(("executor", "is_recorded"), [("podium", False), ("langgraph", True)])


def _diamond(calls: Calls, *, is_recorded: bool = False) -> Conductor:
    asking = calls.asking("C", lambda given: f"C({given.visible[0].output} {interrupt('may I?')})")
    workers = [*calls.workers("AB"), asking, calls.worker("D")]
    return Conductor(FixedPlanner(DIAMOND), workers, journal=MemoryJournal() if is_recorded else None)


async def _inside(graph: Any, config: Any = CONFIG) -> Any:
    return (await graph.aget_state(config, subgraphs=True)).tasks[0].state


async def _history(graph: Any) -> list[Any]:
    """Return the states of the graph of the plan of the first call of the node, the latest first."""
    states = [each async for each in graph.aget_state_history(CONFIG)]
    before = next(each for each in reversed(states) if each.next == ("conductor",))
    place = (await _inside(graph, before.config)).config["configurable"]["checkpoint_ns"]
    config: Any = {"configurable": {"thread_id": "1", "checkpoint_ns": place}}
    return [each async for each in graph.aget_state_history(config)]


@RECORDS
async def test_an_outcome_is_edited(executor: Executor, calls: Calls, *, is_recorded: bool) -> None:
    """While a step waits: its readers are called again, and nothing else."""
    graph = around(_diamond(calls, is_recorded=is_recorded), executor=executor, checkpointer=InMemorySaver())
    await graph.ainvoke(ASKED, CONFIG)
    state = await _inside(graph)
    edited = {**state.values["steps"]["0"], "text": "EDITED"}
    await graph.aupdate_state(state.config, {"steps": {"0": edited}}, as_node="0 A")
    calls.names.clear()
    asked = (await graph.ainvoke(None, CONFIG))["__interrupt__"]
    assert [each.value for each in asked] == ["may I?"]
    assert (await _inside(graph)).values["steps"]["1"]["text"] == "B(EDITED)"
    ended = await graph.ainvoke(Command(resume="yes"), CONFIG)
    assert ended["messages"][-1].text == "D(B(EDITED),C(EDITED yes))"
    assert sorted(calls.names) == ["B", "C", "C", "D"]
    assert [each["text"] for each in ended["podium"]["outcomes"]][:2] == ["EDITED", "B(EDITED)"]


_LISTS: Any = {"type": "array", "items": {"type": "integer"}}


@pytest.mark.parametrize("is_recorded", [False, True])
@pytest.mark.parametrize(
    ("name", "text", "seen"),
    [
        ("0", "[7]", "[[70]]"),
        ("1[1]", '{"n": [5]}', "[[10,5]]"),
        ("1", '[{"n": [8]}, {"n": [9]}]', "[[8,9]]"),
        ("0", '["7"]', "'7' is not of type 'integer'"),
        ("1[1]", '{"n": 5}', "5 is not of type 'array'"),
        ("1", '{"n": [8]}', "{'n': [8]} is not of type 'array'"),
        ("1", '[null, {"n": 5}]', "5 is not of type 'array'"),
    ],
    ids=["a list", "an item", "a map", "a wrong list", "a wrong item", "a map without a list", "a wrong map"],
)
async def test_an_edited_output_has_its_type(name: str, text: str, seen: str, *, is_recorded: bool) -> None:
    """It is used like the output of a worker; an output that does not fit the type is not used."""

    def ask(step: StepInput) -> str:
        return f"[{step.subtask}]{interrupt('Well?')}"

    workers = [
        FunctionWorker(lambda _: "[1,2]", card=Card(name="A")),
        FunctionWorker(lambda step: {"n": [int(step.subtask) * 10]}, card=Card(name="B")),
        FunctionWorker(ask, card=Card(name="C")),
    ]
    workers[2].is_interruptible = True
    item = Step(1, "{{item}}", each="{{0}}", returns={"type": "object", "properties": {"n": _LISTS}})
    plan = Plan((Step(0, "List.", returns=_LISTS), item, Step(2, "{{1.n}}", (1,))))
    conductor = Conductor(FixedPlanner(plan), workers, journal=MemoryJournal() if is_recorded else None)
    graph = around(conductor, executor="langgraph", checkpointer=InMemorySaver())
    await graph.ainvoke(ASKED, CONFIG)
    state = await _inside(graph)
    edited, node = {**state.values["steps"][name], "text": text}, "0 A" if name == "0" else "1 B"
    await graph.aupdate_state(state.config, {"steps": {name: edited}}, as_node=node)
    try:
        ended = await graph.ainvoke(None, CONFIG)
        ended = await graph.ainvoke(Command(resume=""), CONFIG)
        told = ended["messages"][-1].text
    except RunFailed as error:
        told = str(error)
    assert seen in told


@pytest.mark.parametrize("last", [{"each": "{{1}}", "access": (2,)}, {"each": "{{0}}", "access": (1, 2)}])
async def test_the_items_of_an_edited_map_are_not_guessed(last: Any) -> None:
    """Another map reads them one by one: it fails, because the new list has no items."""
    asking = FunctionWorker(lambda _: str(interrupt("Well?")), card=Card(name="B"))
    asking.is_interruptible = True
    workers = [FunctionWorker(lambda _: "[1,2]", card=Card(name="A")), asking]
    item = Step(0, "{{item}}", each="{{0}}")
    plan = Plan((Step(0, "List.", returns=_LISTS), item, Step(1, "Ask.", (1,)), Step(0, "{{item}}", **last)))
    graph = around(Conductor(FixedPlanner(plan), workers), executor="langgraph", checkpointer=InMemorySaver())
    await graph.ainvoke(ASKED, CONFIG)
    state = await _inside(graph)
    edited = {**state.values["steps"]["1"], "text": "[7,8]"}
    await graph.aupdate_state(state.config, {"steps": {"1": edited}}, as_node="1 A")
    await graph.ainvoke(None, CONFIG)
    with pytest.raises(RunFailed, match="step 1 was edited as a whole: edit its items, or their list"):
        await graph.ainvoke(Command(resume="yes"), CONFIG)


@RECORDS
async def test_an_outcome_is_an_object(executor: Executor, calls: Calls, *, is_recorded: bool) -> None:
    graph = around(_diamond(calls, is_recorded=is_recorded), executor=executor, checkpointer=InMemorySaver())
    await graph.ainvoke(ASKED, CONFIG)
    config = (await _inside(graph)).config
    await graph.aupdate_state(config, {"steps": {"0": "EDITED"}}, as_node="0 A")
    with pytest.raises(ConfigError, match=r"the outcome of step 0 .* is 'EDITED': it must be an object"):
        await graph.ainvoke(None, CONFIG)


@RECORDS
async def test_a_run_that_has_ended_is_forked(executor: Executor, calls: Calls, *, is_recorded: bool) -> None:
    """From the checkpoint of a step, edited: a new run has the outcomes until then, for free."""
    graph = around(_diamond(calls, is_recorded=is_recorded), executor=executor, checkpointer=InMemorySaver())
    await graph.ainvoke(ASKED, CONFIG)
    first = await graph.ainvoke(Command(resume="yes"), CONFIG)
    assert first["messages"][-1].text == "D(B(A()),C(A() yes))"
    state = next(each for each in await _history(graph) if each.next == ("3 D",))
    config = await graph.aupdate_state(state.config, {"steps": {"1": {"text": "FORKED"}}}, as_node="1 B")
    calls.names.clear()
    forked = await graph.ainvoke(None, config)
    assert (forked["messages"][-1].text, calls.names) == ("D(FORKED,C(A() yes))", ["D"])
    assert forked["podium"]["run_id"] != first["podium"]["run_id"]
    assert [each.get("reused", False) for each in forked["podium"]["outcomes"]] == [True, True, True, False]
