"""The state of the graph that the node builds: seen while it runs, edited, forked, and gone back to."""

from pathlib import Path
from typing import Any

import anyio.lowlevel
import pytest
from graphs.conducted import DIAMOND, Calls, Plans, around
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt

from langchain_podium.graph.conducted import Executor
from podium import Conductor, Limits, Plan, Step
from podium.errors import ConfigError
from podium.journal import MemoryJournal
from podium.plan_text import parse_plan
from podium.planners import FixedPlanner
from podium.workers import Card, StepInput
from podium.workers.simple import FunctionWorker

pytestmark = pytest.mark.anyio
ASKED = {"messages": [("user", "How many?")]}
CONFIG: Any = {"configurable": {"thread_id": "1"}}
EXECUTORS = pytest.mark.parametrize("executor", ["podium", "langgraph"])
RECORDS = pytest.mark.parametrize("is_recorded", [False, True], ids=["checkpointer", "journal"])


def diamond(calls: Calls, *, is_recorded: bool = False) -> Conductor:
    """Return a conductor whose third step asks a person."""
    asking = calls.asking("C", lambda given: f"C({given.visible[0].output} {interrupt('may I?')})")
    journal = MemoryJournal() if is_recorded else None
    return Conductor(
        FixedPlanner(DIAMOND), [*calls.workers("AB"), asking, calls.worker("D")], journal=journal
    )


async def inside(graph: Any, config: Any = CONFIG) -> Any:
    """Return the state of the graph of the plan."""
    return (await graph.aget_state(config, subgraphs=True)).tasks[0].state


async def history(graph: Any) -> list[Any]:
    """Return the states of the graph of the plan of the first call of the node, the latest first."""
    states = [each async for each in graph.aget_state_history(CONFIG)]
    before = next(each for each in reversed(states) if each.next == ("conductor",))
    place = (await inside(graph, before.config)).config["configurable"]["checkpoint_ns"]
    config: Any = {"configurable": {"thread_id": "1", "checkpoint_ns": place}}
    return [each async for each in graph.aget_state_history(config)]


@EXECUTORS
async def test_a_step_that_waits_is_seen_with_what_has_ended(executor: Executor, calls: Calls) -> None:
    """And with the plan, the interrupt and the node that is next."""
    graph = around(diamond(calls), executor=executor, checkpointer=InMemorySaver())
    await graph.ainvoke(ASKED, CONFIG)
    state = await inside(graph)
    assert state.next == ("2 C",)
    assert [each.value for each in state.interrupts] == ["may I?"]
    assert [state.values["steps"][name]["text"] for name in "01"] == ["A()", "B(A())"]
    assert Plan.from_json(state.values["podium"]["plan"]) == Plan(DIAMOND.steps)
    assert state.values["podium"]["status"] == "planned"


async def test_a_step_that_runs_is_seen(calls: Calls) -> None:
    """From another task, in the same thread."""
    begun, seen = anyio.Event(), anyio.Event()

    async def work(step_input: StepInput) -> str:
        begun.set()
        await seen.wait()
        return "done"

    plan, slow = Plan((Step(0, "a"), Step(1, "b", (0,)))), FunctionWorker(work, card=Card(name="B"))
    conductor = Conductor(FixedPlanner(plan), [calls.worker("A"), slow])
    graph = around(conductor, executor="langgraph", checkpointer=InMemorySaver())
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(graph.ainvoke, ASKED, CONFIG)
        with anyio.fail_after(10):
            await begun.wait()
            while (state := await inside(graph)).next != ("1 B",):
                await anyio.lowlevel.checkpoint()
        assert state.values["steps"]["0"]["text"] == "A()"
        seen.set()


@EXECUTORS
@RECORDS
async def test_an_outcome_is_edited(executor: Executor, calls: Calls, *, is_recorded: bool) -> None:
    """While a step waits: its readers are called again, and nothing else."""
    graph = around(diamond(calls, is_recorded=is_recorded), executor=executor, checkpointer=InMemorySaver())
    await graph.ainvoke(ASKED, CONFIG)
    state = await inside(graph)
    edited = {**state.values["steps"]["0"], "text": "EDITED"}
    await graph.aupdate_state(state.config, {"steps": {"0": edited}}, as_node="0 A")
    calls.names.clear()
    asked = (await graph.ainvoke(None, CONFIG))["__interrupt__"]
    assert [each.value for each in asked] == ["may I?"]
    assert (await inside(graph)).values["steps"]["1"]["text"] == "B(EDITED)"
    ended = await graph.ainvoke(Command(resume="yes"), CONFIG)
    assert ended["messages"][-1].text == "D(B(EDITED),C(EDITED yes))"
    assert sorted(calls.names) == ["B", "C", "C", "D"]
    assert [each["text"] for each in ended["podium"]["outcomes"]][:2] == ["EDITED", "B(EDITED)"]


@EXECUTORS
@RECORDS
@pytest.mark.parametrize("edit", [None, "FORKED"])
async def test_a_run_that_has_ended_is_forked(
    executor: Executor, edit: str | None, calls: Calls, *, is_recorded: bool
) -> None:
    """From the checkpoint of a step, as it was or edited: a new run has the outcomes until then, for free."""
    graph = around(diamond(calls, is_recorded=is_recorded), executor=executor, checkpointer=InMemorySaver())
    await graph.ainvoke(ASKED, CONFIG)
    first = await graph.ainvoke(Command(resume="yes"), CONFIG)
    assert first["messages"][-1].text == "D(B(A()),C(A() yes))"
    state = next(each for each in await history(graph) if each.next == ("3 D",))
    config = state.config
    if edit is not None:
        config = await graph.aupdate_state(config, {"steps": {"1": {"text": edit}}}, as_node="1 B")
    calls.names.clear()
    forked = await graph.ainvoke(None, config)
    assert forked["messages"][-1].text == f"D({edit or 'B(A())'},C(A() yes))"
    assert calls.names == ["D"]
    assert forked["podium"]["run_id"] != first["podium"]["run_id"]
    assert [each.get("reused", False) for each in forked["podium"]["outcomes"]] == [True, True, True, False]


async def test_going_back_to_the_first_step(calls: Calls) -> None:
    """The steps behind it run again, and ask again."""
    graph = around(diamond(calls), executor="langgraph", checkpointer=InMemorySaver())
    await graph.ainvoke(ASKED, CONFIG)
    await graph.ainvoke(Command(resume="yes"), CONFIG)
    state = next(each for each in await history(graph) if set(each.next) == {"1 B", "2 C"})
    calls.names.clear()
    assert "__interrupt__" in await graph.ainvoke(None, state.config)
    ended = await graph.ainvoke(Command(resume="no"), CONFIG)
    assert ended["messages"][-1].text == "D(B(A()),C(A() no))"
    assert sorted(calls.names) == ["B", "C", "C", "D"]


MAP = """{"steps": [
    {"worker": "list", "subtask": "list", "access": [], "returns": ["string"]},
    {"worker": "read", "subtask": "{{item}}", "access": [], "each": "{{0}}"},
    {"worker": "ask", "subtask": "sum up", "access": [1]}]}"""


def mapping(calls: Calls) -> Conductor:
    """Return a conductor of a map whose reader asks a person."""
    workers = [
        calls.worker("list", lambda _: '["a", "b"]'),
        calls.worker("read", lambda given: f"read {given.subtask}"),
        calls.asking("ask", lambda given: f"{given.visible[0].output} {interrupt('may I?')}"),
    ]
    return Conductor(FixedPlanner(parse_plan(MAP, workers=("list", "read", "ask"))), workers)


@EXECUTORS
@pytest.mark.parametrize("what", ["item", "map", "list"])
async def test_a_part_of_a_map_is_edited(executor: Executor, what: str, calls: Calls) -> None:
    """An item, its whole output, or the list: what depends on it is made again."""
    graph = around(mapping(calls), executor=executor, checkpointer=InMemorySaver())
    await graph.ainvoke(ASKED, CONFIG)
    state = await inside(graph)
    found = {name: each.get("text") for name, each in state.values["steps"].items()}
    assert found == {"0": '["a","b"]', "1[0]": "read a", "1[1]": "read b", "1": None}
    edits: dict[str, tuple[dict[str, Any], str]] = {
        "item": ({"1[1]": {"text": "skipped b"}}, "1[] read"),
        "map": ({"1": {"text": '["all"]'}}, "1 read"),
        "list": ({"0": {"text": '["b", "c"]'}}, "0 list"),
    }
    edit, node = edits[what]
    await graph.aupdate_state(state.config, {"steps": edit}, as_node=node)
    calls.names.clear()
    ended = await graph.ainvoke(None, CONFIG)
    while "__interrupt__" in ended:
        ended = await graph.ainvoke(Command(resume="yes"), CONFIG)
    answers = {
        "item": '["read a","skipped b"] yes',
        "map": '["all"] yes',
        "list": '["read b","read c"] yes',
    }
    assert ended["messages"][-1].text == answers[what]
    assert calls.names.count("read") == (1 if what == "list" else 0)  # b was read before
    assert "list" not in calls.names


async def test_the_items_are_seen_in_updates(calls: Calls) -> None:
    """Each as a node that was sent, before the node of the map."""
    graph = around(mapping(calls), executor="langgraph", checkpointer=InMemorySaver())
    seen = [
        name
        async for namespace, update in graph.astream(ASKED, CONFIG, stream_mode="updates", subgraphs=True)
        for name in update
        if namespace
    ]
    assert seen[0] == "0 list"
    assert [name for name in seen if name == "1[] read"] == ["1[] read"] * 2
    assert seen[-2:] == ["1 read", "__interrupt__"]


async def test_an_outcome_that_is_edited_to_nonsense_is_refused(calls: Calls) -> None:
    """Before anything is paid for; it can be edited again."""
    graph = around(diamond(calls), executor="langgraph", checkpointer=InMemorySaver())
    await graph.ainvoke(ASKED, CONFIG)
    calls.names.clear()
    state = await inside(graph)
    await graph.aupdate_state(state.config, {"steps": {"0": {"text": 7, "status": "fine"}}}, as_node="0 A")
    with pytest.raises(ConfigError, match="step 0 in the graph's state is invalid"):
        await graph.ainvoke(None, CONFIG)
    assert calls.names == []
    await graph.aupdate_state(
        (await inside(graph)).config, {"steps": {"0": {"text": "right"}}}, as_node="0 A"
    )
    await graph.ainvoke(None, CONFIG)
    assert calls.names == ["B", "C"]


def test_code_that_is_not_async_reads_and_edits_too(calls: Calls, tmp_path: Path) -> None:
    """With a checkpointer that is not async."""
    with SqliteSaver.from_conn_string(str(tmp_path / "threads.db")) as saver:
        graph = around(diamond(calls), checkpointer=saver)
        graph.invoke(ASKED, CONFIG)
        state = graph.get_state(CONFIG, subgraphs=True).tasks[0].state
        assert state.next == ("2 C",)
        place: Any = {
            "configurable": {
                "thread_id": "1",
                "checkpoint_ns": state.config["configurable"]["checkpoint_ns"],
            }
        }
        assert [each.next for each in graph.get_state_history(place)][-1] == ("__start__",)
        graph.update_state(state.config, {"steps": {"1": {"text": "EDITED"}}}, as_node="1 B")
        ended = graph.invoke(Command(resume="yes"), CONFIG)
    assert ended["messages"][-1].text == "D(EDITED,C(A() yes))"


async def test_a_later_round_has_a_graph_of_its_own(calls: Calls) -> None:
    """Its state is the one that is seen."""
    asking = calls.asking("B", lambda _: str(interrupt("may I?")))
    conductor = Conductor(
        Plans(Plan((Step(0, "try"),)), Plan((Step(1, "try harder"),))),
        [calls.worker("A"), asking],
        limits=Limits(rounds=2),
        accept=lambda question, answer: answer != "A()",
    )
    graph = around(conductor, executor="langgraph", checkpointer=InMemorySaver())
    await graph.ainvoke(ASKED, CONFIG)
    state = await inside(graph)
    assert (state.values["podium"]["round"], state.next) == (2, ("0 B",))
    assert state.config["configurable"]["checkpoint_ns"].endswith("|1")


async def test_a_graph_inside_of_another(calls: Calls) -> None:
    """The steps are seen from the outermost graph."""
    team = around(diamond(calls))
    outer = StateGraph(dict).add_node("team", team).add_edge(START, "team")
    graph = outer.compile(checkpointer=InMemorySaver())
    await graph.ainvoke(ASKED, CONFIG)
    state = (await graph.aget_state(CONFIG, subgraphs=True)).tasks[0].state.tasks[0].state
    assert (state.next, state.values["steps"]["0"]["text"]) == (("2 C",), "A()")
