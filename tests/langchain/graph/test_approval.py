"""Plans that wait at an interrupt, with each checkpointer, in this process and in a later one."""

import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from graphs import conducted
from graphs.conducted import ASKED, CONFIG, DIAMOND, EXECUTORS, LATER, Calls, Plans, around, decided
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.types import Command, interrupt
from servers.postgres import postgres_server, postgres_url

from podium import ChatPlanner, Conductor, Plan, ScriptedWorker, Step
from podium.errors import ConfigError
from podium.planners import FixedPlanner, Planner
from podium.policy import Policy
from podium.workers import PersonWorker, Request, Worker

__all__ = ["postgres_server", "postgres_url"]

pytestmark = pytest.mark.anyio
IN_MEMORY = InMemorySaver()
Executor = conducted.Executor


@asynccontextmanager
async def _saver(kind: str, request: pytest.FixtureRequest) -> AsyncGenerator[BaseCheckpointSaver[Any], None]:
    """Open a saver over the same database as the last, as another process would."""
    if kind == "memory":
        yield IN_MEMORY
    elif kind == "sqlite":
        path: Path = request.getfixturevalue("tmp_path") / "threads.db"
        async with AsyncSqliteSaver.from_conn_string(str(path)) as saver:
            yield saver
    else:
        url = request.getfixturevalue("postgres_url")
        async with AsyncPostgresSaver.from_conn_string(url) as saver:
            await saver.setup()
            yield saver


def _asking(calls: Calls) -> list[Worker]:
    """Return the workers of the diamond, of which the third asks a person."""
    third = calls.asking("C", lambda step_input: f"told {interrupt('may I?')}")
    return [*calls.workers("AB"), third, calls.worker("D")]


@pytest.mark.parametrize(
    ("kind", "executor"),
    [
        ("memory", "podium"),
        ("memory", "langgraph"),
        pytest.param("sqlite", "langgraph", marks=pytest.mark.long),
        pytest.param("postgres", "langgraph", marks=pytest.mark.long),
    ],
)
async def test_a_plan_is_approved_in_another_process(
    kind: str, executor: Executor, request: pytest.FixtureRequest, calls: Calls
) -> None:
    """It finds all it needs in the checkpointer; and so does a third one after an interrupt in a step."""
    planners = [Plans(DIAMOND), *(Plans("nobody may plan again") for _ in range(2))]
    config: Any = {"configurable": {"thread_id": executor}}

    async def call(process: int, given: Any) -> Any:
        async with _saver(kind, request) as saver:
            conductor = Conductor(planners[process], _asking(calls))
            graph = around(conductor, executor=executor, policy=LATER, checkpointer=saver)
            return await graph.ainvoke(given, config)

    (asked,) = (await call(0, ASKED))["__interrupt__"]
    (action,), (review,) = asked.value["action_requests"], asked.value["review_configs"]
    assert [step["worker"] for step in action["args"]["steps"]] == list("ABCD")
    assert "A: begin" in action["description"]
    assert review["action_name"] == action["name"] == "plan"
    assert review["allowed_decisions"] == ["approve", "edit", "reject", "respond"]
    own = asked.value["podium"]
    assert (own["plan"], own["forecast"]["calls"]["likely"]) == (Plan(DIAMOND.steps).to_json(), 4)
    assert "s0 --> s1" in own["mermaid"]
    assert calls.names == []
    (asked,) = (await call(1, decided()))["__interrupt__"]
    assert asked.value == "may I?"
    state = await call(2, Command(resume="yes"))
    assert (state["messages"][-1].content, state["podium"]["status"]) == ("D(B(A()),told yes)", "ok")
    assert [planner.asked for planner in planners] == [1, 0, 0]
    assert sorted(calls.names) == ["A", "B", "C", "C", "D"]


@EXECUTORS
async def test_a_question_of_a_step_waits_at_an_interrupt(executor: Executor, calls: Calls) -> None:
    """`Command(resume=...)` answers it; an answer that does not fit is asked for again, with the reason."""
    workers = [*calls.workers("AB"), PersonWorker("C", choices=["yes", "no"]), calls.worker("D")]
    conductor = Conductor(FixedPlanner(DIAMOND), workers)
    with pytest.raises(ConfigError, match="no checkpointer"):
        await around(conductor, executor=executor).ainvoke(ASKED, CONFIG)
    graph = around(conductor, executor=executor, checkpointer=InMemorySaver())
    (asked,) = (await graph.ainvoke(ASKED, CONFIG))["__interrupt__"]
    (request,) = asked.value["action_requests"]
    own = asked.value["podium"]
    assert (own["kind"], own["step"], request["name"]) == ("question", "2", "C")
    args = request["args"]
    assert (args["question"], args["choices"]) == ("right\n\nStep 0: begin\nA()", ("yes", "no"))
    (asked,) = (await graph.ainvoke(decided("respond", message="perhaps"), CONFIG))["__interrupt__"]
    assert "write one of 'yes', 'no'" in asked.value["podium"]["problem"]
    state = await graph.ainvoke(decided("respond", message="yes"), CONFIG)
    assert (state["messages"][-1].content, sorted(calls.names)) == ("D(B(A()),yes)", list("ABD"))


def _graph_of(planner: Planner, workers: Sequence[Worker], executor: Executor = "podium", **own: Any) -> Any:
    """Return a graph whose plans wait, with options of the conductor."""
    options: Any = {"executor": executor, "policy": LATER, "checkpointer": InMemorySaver()}
    return around(Conductor(planner, workers, **own), **options)


ONE = {"worker": "C", "subtask": "do it", "access": []}


@pytest.mark.parametrize(
    ("executor", "edit"),
    [("podium", {"steps": [ONE]}), ("langgraph", {"schema": 1, "steps": [{**ONE, "worker": 2}]})],
)
async def test_an_edited_plan_is_carried_out(executor: Executor, edit: object, calls: Calls) -> None:
    planner = Plans(DIAMOND)
    graph = _graph_of(planner, calls.workers("ABCD"), executor)
    await graph.ainvoke(ASKED, CONFIG)
    state = await graph.ainvoke(decided("edit", edited_action={"name": "plan", "args": edit}), CONFIG)
    steps = [step["worker"] for step in state["podium"]["plan"]["steps"]]
    assert (state["messages"][-1].content, steps, calls.names, planner.asked) == ("C()", [2], ["C"], 1)


NONSENSE: list[Any] = [
    "lgtm",
    {"decisions": [{"type": "approve"}, {"type": "approve"}]},
    decided("perhaps").resume,
    decided("edit", edited_action={"name": "plan", "args": 3}).resume,
    decided("edit", edited_action={"name": "A", "args": {"steps": [ONE]}}).resume,
    conducted.edited({**ONE, "worker": "nobody"}).resume,
    conducted.edited({**ONE, "worker": "E"}).resume,
]


@EXECUTORS
async def test_nonsense_is_asked_about_again_and_nothing_is_lost(executor: Executor, calls: Calls) -> None:
    """The question says what was wrong or is forbidden, and the plan is still there."""
    planner = Plans(DIAMOND)
    graph = _graph_of(planner, calls.workers("ABCDE"), executor, policy=Policy(allowed=list("ABCD")))
    state = await graph.ainvoke(ASKED, CONFIG)
    told = []
    for said in NONSENSE:
        state = await graph.ainvoke(Command(resume={state["__interrupt__"][0].id: said}), CONFIG)
        (asked,) = state["__interrupt__"]
        assert asked.value["podium"]["plan"] == Plan(DIAMOND.steps).to_json()
        told.append(asked.value["podium"]["problem"])
    assert all(told)
    assert ("nobody" in told[-2], "E" in told[-1]) == (True, True)
    state = await graph.ainvoke(decided(), CONFIG)
    assert (state["messages"][-1].content, planner.asked) == ("D(B(A()),C(A()))", 1)


@EXECUTORS
async def test_a_refused_plan_is_not_carried_out(executor: Executor, calls: Calls) -> None:
    """The answer says so, with the reason."""
    graph = _graph_of(FixedPlanner(DIAMOND), calls.workers("ABCD"), executor)
    await graph.ainvoke(ASKED, CONFIG)
    state = await graph.ainvoke(decided("reject", message="That is far too dear."), CONFIG)
    answer = state["messages"][-1].content
    assert (calls.names, state["podium"]["problem"]["code"]) == ([], "refused")
    assert ("refused" in answer, "That is far too dear." in answer) == (True, True)


@EXECUTORS
async def test_a_response_goes_back_to_the_planner(executor: Executor, calls: Calls) -> None:
    """It is shown the words and plans again, as often as a person asks; the new plan waits, too."""
    told: list[str] = []

    def model(request: Request) -> str:
        told.append(request.messages[-1].text)
        return json.dumps({"steps": [{"worker": "ABC"[len(told) - 1], "subtask": "do it", "access": []}]})

    planner = ChatPlanner(ScriptedWorker("boss", model), spelling="json")
    graph = _graph_of(planner, calls.workers("ABC"), executor)
    await graph.ainvoke(ASKED, CONFIG)
    for words in ("Let B do it.", "No, C."):
        state = await graph.ainvoke(decided("respond", message=words), CONFIG)
        assert words in told[-1]
    (request,) = state["__interrupt__"][0].value["action_requests"]
    assert (request["args"]["steps"][0]["worker"], calls.names) == ("C", [])
    state = await graph.ainvoke(decided(), CONFIG)
    assert (state["podium"]["status"], state["messages"][-1].content, len(told)) == ("ok", "C()", 3)


@pytest.mark.parametrize(
    ("decision", "answer"),
    [(decided(), "C(A())"), (decided("reject", message="not this one"), "not this one")],
    ids=["approved", "refused"],
)
async def test_an_edited_state_waits_for_one_answer(decision: Any, answer: str, calls: Calls) -> None:
    """The first answer to the interrupt, which is not asked again, decides on it."""
    planner = Plans(Plan((Step(0, "a"), Step(1, "b", (0,)))))
    graph = _graph_of(planner, calls.workers("ABC"))
    await graph.ainvoke(ASKED, CONFIG)
    inner = (await graph.aget_state(CONFIG, subgraphs=True)).tasks[0].state
    other = {**inner.values["podium"], "plan": Plan((Step(0, "a"), Step(2, "c", (0,)))).to_json()}
    await graph.aupdate_state(inner.config, {"podium": other})
    state = await graph.ainvoke(decision, CONFIG)
    assert answer in state["messages"][-1].content
    assert (calls.names, planner.asked) == ([] if answer == "not this one" else ["A", "C"], 1)


async def test_a_graph_that_cannot_wait_is_refused_before_the_planner_is_paid(calls: Calls) -> None:
    """Without a checkpointer nobody could answer; a `thread_id` alone keeps nothing."""
    plans = Plans(DIAMOND)
    graph = around(Conductor(plans, calls.workers("ABCD")), policy=LATER)
    for config in ({}, CONFIG):
        with pytest.raises(ConfigError, match="no checkpointer"):
            await graph.ainvoke(ASKED, config)
    assert (plans.asked, calls.names) == (0, [])
