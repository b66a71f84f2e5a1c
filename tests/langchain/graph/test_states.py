"""The state of the graph that the node builds: seen while it runs, edited, forked, and gone back to."""

from typing import Any

import pytest
from graphs.conducted import ASKED, CONFIG, DIAMOND, Calls, around
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt

from langchain_podium.graph.conducted import Executor
from podium import Card, Conductor, FunctionWorker, Plan, Step
from podium.errors import RunFailed
from podium.journal import MemoryJournal
from podium.planners import FixedPlanner
from podium.workers import StepInput

pytestmark = pytest.mark.anyio
RECORDS = pytest.mark.parametrize(("executor", "is_recorded"), [("podium", False), ("langgraph", True)])


def _diamond(calls: Calls, *, is_recorded: bool = False) -> Conductor:
    asking = calls.asking("C", lambda given: f"C({given.visible[0].output} {interrupt('may I?')})")
    journal = MemoryJournal() if is_recorded else None
    return Conductor(
        FixedPlanner(DIAMOND), [*calls.workers("AB"), asking, calls.worker("D")], journal=journal
    )


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
    ],
    ids=["a list", "an item", "a map", "a wrong list", "a wrong item"],
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
    assert forked["messages"][-1].text == "D(FORKED,C(A() yes))"
    assert calls.names == ["D"]
    assert forked["podium"]["run_id"] != first["podium"]["run_id"]
    assert [each.get("reused", False) for each in forked["podium"]["outcomes"]] == [True, True, True, False]
