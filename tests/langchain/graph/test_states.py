"""The state of the graph that the node builds: seen while it runs, edited, forked, and gone back to."""

from typing import Any

import pytest
from graphs.conducted import ASKED, CONFIG, DIAMOND, Calls, around
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt

from langchain_podium.graph.conducted import Executor
from podium import Conductor
from podium.journal import MemoryJournal
from podium.planners import FixedPlanner

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
