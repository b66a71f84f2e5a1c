"""Plans that wait at an interrupt, with each checkpointer, in this process and in a later one."""

import json
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from graphs.conducted import DIAMOND, LATER, Calls, Plans, around, decided, edited
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.types import Command, interrupt
from servers.postgres import postgres_server, postgres_url

from langchain_podium.graph.conducted import Executor
from podium import ChatPlanner, Conductor, Limits, Plan, ScriptedWorker, Step
from podium.errors import ConfigError
from podium.journal import MemoryJournal
from podium.planners import FixedPlanner
from podium.policy import ApprovalRequest, Policy
from podium.workers import PersonWorker, Request

__all__ = ["postgres_server", "postgres_url"]

pytestmark = pytest.mark.anyio

Saver = BaseCheckpointSaver[Any]
Open = Callable[[], AbstractAsyncContextManager[Saver]]
"""Opens a saver over the same database as the last, as another process would."""
ASKED = {"messages": [("user", "How many?")]}
CONFIG: Any = {"configurable": {"thread_id": "1"}}
EXECUTORS = pytest.mark.parametrize("executor", ["podium", "langgraph"])


def _memory(_: pytest.FixtureRequest) -> Open:
    saver = InMemorySaver()

    @asynccontextmanager
    async def opened() -> AsyncGenerator[Saver, None]:
        yield saver

    return opened


def _sqlite(request: pytest.FixtureRequest) -> Open:
    path: Path = request.getfixturevalue("tmp_path") / "threads.db"

    @asynccontextmanager
    async def opened() -> AsyncGenerator[Saver, None]:
        async with AsyncSqliteSaver.from_conn_string(str(path)) as saver:
            yield saver

    return opened


def _postgres(request: pytest.FixtureRequest) -> Open:
    url = request.getfixturevalue("postgres_url")

    @asynccontextmanager
    async def opened() -> AsyncGenerator[Saver, None]:
        async with AsyncPostgresSaver.from_conn_string(url) as saver:
            await saver.setup()
            yield saver

    return opened


@pytest.fixture(params=[_memory, _sqlite, _postgres], ids=["memory", "sqlite", "postgres"])
def open_saver(request: pytest.FixtureRequest) -> Open:
    """Return what opens a saver of each kind."""
    opened: Open = request.param(request)
    return opened


@pytest.mark.long
@EXECUTORS
async def test_a_plan_is_approved_in_another_process(
    open_saver: Open, executor: Executor, calls: Calls
) -> None:
    """It finds all it needs in the checkpointer."""
    planners = [Plans(DIAMOND), Plans("nobody may plan again")]
    async with open_saver() as saver:
        graph = around(
            Conductor(planners[0], calls.workers("ABCD")), executor=executor, policy=LATER, checkpointer=saver
        )
        state = await graph.ainvoke(ASKED, CONFIG)
        (asked,) = state["__interrupt__"]
        (request,) = asked.value["action_requests"]
        assert [step["worker"] for step in request["args"]["steps"]] == list("ABCD")
        assert "A: begin" in request["description"]
        (review,) = asked.value["review_configs"]
        assert review["action_name"] == request["name"] == "plan"
        assert review["allowed_decisions"] == ["approve", "edit", "reject", "respond"]
        assert asked.value["podium"]["plan"] == Plan(DIAMOND.steps).to_json()
        assert "s0 --> s1" in asked.value["podium"]["mermaid"]
        assert asked.value["podium"]["forecast"]["calls"]["likely"] == 4
        assert calls.names == []
    async with open_saver() as saver:
        graph = around(
            Conductor(planners[1], calls.workers("ABCD")), executor=executor, policy=LATER, checkpointer=saver
        )
        state = await graph.ainvoke(decided(), CONFIG)
    assert state["messages"][-1].content == "D(B(A()),C(A()))"
    assert state["podium"]["status"] == "ok"
    assert [planner.asked for planner in planners] == [1, 0]
    assert sorted(calls.names) == list("ABCD")


async def test_an_interrupt_in_a_step_goes_on_in_another_process(open_saver: Open, calls: Calls) -> None:
    """So do the outcomes of the steps that had ended."""

    def workers() -> list[Any]:
        asking = calls.asking("C", lambda step_input: f"told {interrupt('may I?')}")
        return [*calls.workers("AB"), asking, calls.worker("D")]

    planner = Plans(DIAMOND)
    async with open_saver() as saver:
        graph = around(Conductor(planner, workers()), executor="langgraph", checkpointer=saver)
        await graph.ainvoke(ASKED, CONFIG)
    async with open_saver() as saver:
        graph = around(Conductor(planner, workers()), executor="langgraph", checkpointer=saver)
        state = await graph.ainvoke(Command(resume="yes"), CONFIG)
    assert state["messages"][-1].content == "D(B(A()),told yes)"
    assert sorted(calls.names) == ["A", "B", "C", "C", "D"]
    assert planner.asked == 1


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
    assert request["args"]["question"] == "right\n\nStep 0: begin\nA()"
    assert request["args"]["choices"] == ("yes", "no")
    (asked,) = (await graph.ainvoke(decided("respond", message="perhaps"), CONFIG))["__interrupt__"]
    assert "write one of 'yes', 'no'" in asked.value["podium"]["problem"]
    state = await graph.ainvoke(decided("respond", message="yes"), CONFIG)
    assert state["messages"][-1].content == "D(B(A()),yes)"
    assert sorted(calls.names) == list("ABD")


@pytest.mark.long
@EXECUTORS
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_savers_that_are_not_async_do_as_well(
    kind: Any, executor: Executor, request: pytest.FixtureRequest, tmp_path: Path, calls: Calls
) -> None:
    """From the first node to the steps inside."""
    planner = Plans(DIAMOND)
    where = (
        SqliteSaver.from_conn_string(str(tmp_path / "threads.db"))
        if kind == "sqlite"
        else PostgresSaver.from_conn_string(request.getfixturevalue("postgres_url"))
    )
    asking = calls.asking("C", lambda step_input: f"told {interrupt('may I?')}")
    workers = [
        *calls.workers("AB"),
        asking,
        calls.worker("D"),
    ]
    with where as saver:
        saver.setup()
        graph = around(Conductor(planner, workers), executor=executor, policy=LATER, checkpointer=saver)
        state = graph.invoke(ASKED, CONFIG)
        while "__interrupt__" in state:
            state = graph.invoke(decided(), CONFIG)
    assert state["messages"][-1].content.startswith("D(B(A()),told {'decisions'")
    assert planner.asked == 1


ONE = {"worker": "C", "subtask": "do it", "access": []}
EDITS: dict[str, Any] = {
    "names": {"steps": [ONE]},
    "numbers": {"steps": [{**ONE, "worker": 2}]},
    "plan": {"schema": 1, "steps": [{**ONE, "worker": 2}]},
}


@EXECUTORS
@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS.keys())
async def test_an_edited_plan_is_the_one_that_is_carried_out(
    edit: object, executor: Executor, calls: Calls
) -> None:
    """In whichever way it is written."""
    planner = Plans(DIAMOND)
    graph = around(
        Conductor(planner, calls.workers("ABCD")),
        executor=executor,
        policy=LATER,
        checkpointer=InMemorySaver(),
    )
    await graph.ainvoke(ASKED, CONFIG)
    state = await graph.ainvoke(decided("edit", edited_action={"name": "plan", "args": edit}), CONFIG)
    assert state["messages"][-1].content == "C()"
    assert calls.names == ["C"]
    assert planner.asked == 1
    assert [step["worker"] for step in state["podium"]["plan"]["steps"]] == [2]


MAP: list[dict[str, Any]] = [
    {"worker": "A", "subtask": "list", "access": [], "returns": {"names": ["string"]}},
    {
        "access": [0],
        "steps": [{"worker": "B", "subtask": "read {{item}}", "access": []}],
        "each": "{{0.names}}",
    },
    {"worker": "C", "subtask": "sum up", "access": [1]},
]


@EXECUTORS
async def test_workflows(executor: Executor, calls: Calls) -> None:
    """An approved plan may have maps and blocks, which can be edited; the planner is told."""
    told: list[bool] = []

    def model(request: Request) -> str:
        told.append('"each"' in request.messages[-1].text)
        return json.dumps({"steps": MAP})

    listing = calls.worker("A", lambda _: '{"names": ["x", "y"]}')
    reading = calls.worker("B", lambda step_input: step_input.subtask)
    planner = ChatPlanner(ScriptedWorker("boss", model), spelling="json", workflows=True)
    conductor = Conductor(planner, [listing, reading, calls.worker("C")])
    graph = around(conductor, executor=executor, policy=LATER, checkpointer=InMemorySaver())
    state = await graph.ainvoke(ASKED, CONFIG)
    assert told == [True]
    said = edited(MAP[0], MAP[1] | {"steps": [MAP[1]["steps"][0] | {"subtask": "skim {{item}}"}]}, MAP[2])
    state = await graph.ainvoke(said, CONFIG)
    assert state["messages"][-1].content == 'C(["skim x","skim y"])'


NONSENSE: list[Any] = [
    None,
    7,
    True,
    "lgtm",
    "no",
    [],
    {},
    {"type": "approve"},
    {"decisions": []},
    {"decisions": [{"type": "approve"}, {"type": "approve"}]},
    {"decisions": [{"type": "perhaps"}]},
    *(
        decided(**each).resume
        for each in (
            {"kind": "respond"},
            {"kind": "reject", "message": 7},
            {"kind": "edit"},
            {"kind": "edit", "edited_action": {"name": "plan", "args": 3}},
            *(
                {"kind": "edit", "edited_action": {"args": {"steps": steps}}}
                for steps in (
                    [],
                    3,
                    [{**ONE, "worker": "nobody"}],
                    [{**ONE, "worker": 99}],
                    [{**ONE, "access": [4]}],
                    [ONE] * 33,
                )
            ),
        )
    ),
]


@pytest.mark.long
@EXECUTORS
async def test_nonsense_is_asked_about_again_and_nothing_is_lost(executor: Executor, calls: Calls) -> None:
    """The question says what was wrong, and the plan is still there."""
    planner = Plans(DIAMOND)
    graph = around(
        Conductor(planner, calls.workers("ABCD")),
        executor=executor,
        policy=LATER,
        checkpointer=InMemorySaver(),
    )
    state = await graph.ainvoke(ASKED, CONFIG)
    told = []
    for said in NONSENSE:
        state = await graph.ainvoke(Command(resume={state["__interrupt__"][0].id: said}), CONFIG)
        (asked,) = state["__interrupt__"]
        assert asked.value["podium"]["plan"] == Plan(DIAMOND.steps).to_json()
        told.append(asked.value["podium"]["problem"])
    assert all(told)
    assert any("nobody" in problem for problem in told)
    state = await graph.ainvoke(decided(), CONFIG)
    assert state["messages"][-1].content == "D(B(A()),C(A()))"
    assert planner.asked == 1


@EXECUTORS
@pytest.mark.parametrize("why", ["", "That is far too dear."])
async def test_a_refused_plan_is_not_carried_out_and_the_answer_says_so(
    why: str, executor: Executor, calls: Calls
) -> None:
    """Somebody wanted it so: nothing is raised."""
    conductor = Conductor(FixedPlanner(DIAMOND), calls.workers("ABCD"))
    graph = around(conductor, executor=executor, policy=LATER, checkpointer=InMemorySaver())
    await graph.ainvoke(ASKED, CONFIG)
    state = await graph.ainvoke(decided("reject", message=why), CONFIG)
    assert calls.names == []
    assert "refused" in state["messages"][-1].content
    assert why in state["messages"][-1].content
    assert state["podium"]["problem"]["code"] == "refused"


@EXECUTORS
async def test_a_response_goes_back_to_the_planner(executor: Executor, calls: Calls) -> None:
    """It is shown the words and plans again, as often as a person asks; the new plan waits, too."""
    told: list[str] = []

    def model(request: Request) -> str:
        told.append(request.messages[-1].text)
        return json.dumps({"steps": [{"worker": "ABC"[len(told) - 1], "subtask": "do it", "access": []}]})

    planner = ChatPlanner(ScriptedWorker("boss", model), spelling="json")
    conductor = Conductor(planner, calls.workers("ABC"))
    graph = around(conductor, executor=executor, policy=LATER, checkpointer=InMemorySaver())
    await graph.ainvoke(ASKED, CONFIG)
    for words in ("Let B do it.", "No, C."):
        state = await graph.ainvoke(decided("respond", message=words), CONFIG)
        assert words in told[-1]
    (request,) = state["__interrupt__"][0].value["action_requests"]
    assert request["args"]["steps"][0]["worker"] == "C"
    assert calls.names == []
    state = await graph.ainvoke(decided(), CONFIG)
    assert (state["podium"]["status"], state["messages"][-1].content) == ("ok", "C()")
    assert len(told) == 3


@EXECUTORS
async def test_each_rounds_plan_waits(executor: Executor, calls: Calls) -> None:
    """A later round is approved as the first one is."""
    planner = Plans(Plan((Step(0, "try"),)), Plan((Step(1, "try harder"),)))
    conductor = Conductor(
        planner, calls.workers("AB"), limits=Limits(rounds=2), accept=lambda question, answer: answer == "B()"
    )
    graph = around(conductor, executor=executor, policy=LATER, checkpointer=InMemorySaver())
    asked = []
    state = await graph.ainvoke(ASKED, CONFIG)
    while "__interrupt__" in state:
        asked.append(state["__interrupt__"][0].value["podium"]["round"])
        state = await graph.ainvoke(decided(), CONFIG)
    assert asked == [1, 2]
    assert state["messages"][-1].content == "B()"
    assert calls.names == ["A", "B"]
    assert planner.asked == 2


@EXECUTORS
async def test_who_else_must_approve_is_asked_before_and_once(executor: Executor, calls: Calls) -> None:
    """The conductor's own policy holds too."""
    seen: list[int] = []

    def look(request: ApprovalRequest) -> bool:
        seen.append(request.round)
        return True

    conductor = Conductor(FixedPlanner(DIAMOND), calls.workers("ABCD"), policy=Policy(approve=look))
    graph = around(conductor, executor=executor, policy=LATER, checkpointer=InMemorySaver())
    await graph.ainvoke(ASKED, CONFIG)
    assert seen == [1]
    state = await graph.ainvoke(decided(), CONFIG)
    assert state["podium"]["status"] == "ok"
    assert seen == [1]


@EXECUTORS
async def test_without_an_interrupt_who_must_approve_may_edit_and_is_asked_once(
    executor: Executor, calls: Calls
) -> None:
    """Also where the plan is kept before it is carried out."""
    seen: list[int] = []

    def look(request: ApprovalRequest) -> Plan:
        seen.append(request.round)
        return Plan((Step(2, "do it"),))

    conductor = Conductor(FixedPlanner(DIAMOND), calls.workers("ABCD"), policy=Policy(approve=look))
    state = await around(conductor, executor=executor, checkpointer=InMemorySaver()).ainvoke(ASKED, CONFIG)
    assert state["messages"][-1].content == "C()"
    assert seen == [1]


@EXECUTORS
async def test_a_conductor_whose_plans_wait_anyway_waits_at_an_interrupt(
    executor: Executor, calls: Calls
) -> None:
    """Else the graph would go on with no answer."""
    journal = MemoryJournal()
    conductor = Conductor(
        FixedPlanner(DIAMOND), calls.workers("ABCD"), policy=Policy(approve="later"), journal=journal
    )
    graph = around(conductor, executor=executor, checkpointer=InMemorySaver())
    state = await graph.ainvoke(ASKED, CONFIG)
    assert "__interrupt__" in state
    state = await graph.ainvoke(decided(), CONFIG)
    assert state["messages"][-1].content == "D(B(A()),C(A()))"


@EXECUTORS
async def test_what_was_decided_in_the_conductors_journal_is_not_asked_again(
    executor: Executor, calls: Calls
) -> None:
    """Who comes second finds it decided."""
    journal = MemoryJournal()
    conductor = Conductor(FixedPlanner(DIAMOND), calls.workers("ABCD"), journal=journal)
    graph = around(conductor, executor=executor, policy=LATER, checkpointer=InMemorySaver())
    state = await graph.ainvoke(ASKED, CONFIG)
    run_id = state["__interrupt__"][0].value["podium"]["run_id"]
    await conductor.decide(run_id, approved=True, plan=Plan((Step(2, "do it"),)))
    state = await graph.ainvoke(decided("reject"), CONFIG)  # too late
    assert state["messages"][-1].content == "C()"


@EXECUTORS
async def test_what_the_policy_forbids_is_not_approved(executor: Executor, calls: Calls) -> None:
    """It is told, and asked again."""
    conductor = Conductor(FixedPlanner(DIAMOND), calls.workers("ABCDE"), policy=Policy(allowed=list("ABCD")))
    graph = around(conductor, executor=executor, policy=LATER, checkpointer=InMemorySaver())
    await graph.ainvoke(ASKED, CONFIG)
    state = await graph.ainvoke(edited({"worker": "E", "subtask": "do it", "access": []}), CONFIG)
    assert "E" in state["__interrupt__"][0].value["podium"]["problem"]
    state = await graph.ainvoke(decided(), CONFIG)
    assert state["podium"]["status"] == "ok"


@EXECUTORS
@pytest.mark.parametrize("kept_by", ["state", "journal"])
async def test_a_plan_that_was_edited_in_the_state_is_carried_out_once_it_is_approved(
    executor: Executor, kept_by: str, calls: Calls
) -> None:
    """By the first answer to the interrupt, which is not asked again."""
    planner = Plans(Plan((Step(0, "a"), Step(1, "b", (0,)))))
    journal = MemoryJournal() if kept_by == "journal" else None
    conductor = Conductor(planner, calls.workers("ABC"), journal=journal)
    graph = around(conductor, executor=executor, policy=LATER, checkpointer=InMemorySaver())
    await graph.ainvoke(ASKED, CONFIG)
    inner = (await graph.aget_state(CONFIG, subgraphs=True)).tasks[0].state
    edited = {**inner.values["podium"], "plan": Plan((Step(0, "a"), Step(2, "c", (0,)))).to_json()}
    await graph.aupdate_state(inner.config, {"podium": edited})
    state = await graph.ainvoke(decided(), CONFIG)
    assert state["messages"][-1].content == "C(A())"
    assert state["podium"]["status"] == "ok"
    assert calls.names == ["A", "C"]
    assert planner.asked == 1


async def test_a_plan_that_was_edited_in_the_state_can_be_refused(calls: Calls) -> None:
    """Then nobody is called."""
    conductor = Conductor(FixedPlanner(DIAMOND), calls.workers("ABCD"))
    graph = around(conductor, policy=LATER, checkpointer=InMemorySaver())
    await graph.ainvoke(ASKED, CONFIG)
    inner = (await graph.aget_state(CONFIG, subgraphs=True)).tasks[0].state
    edited = {**inner.values["podium"], "plan": Plan((Step(0, "a"),)).to_json()}
    await graph.aupdate_state(inner.config, {"podium": edited})
    state = await graph.ainvoke(decided("reject", message="not this one"), CONFIG)
    assert "not this one" in state["messages"][-1].content
    assert calls.names == []


@EXECUTORS
async def test_a_graph_that_cannot_wait_is_refused_before_the_planner_is_paid(
    executor: Executor, calls: Calls
) -> None:
    """Without a checkpointer nobody could answer; a `thread_id` alone keeps nothing."""
    plans = Plans(DIAMOND)
    graph = around(Conductor(plans, calls.workers("ABCD")), executor=executor, policy=LATER)
    for config in ({}, CONFIG):
        with pytest.raises(ConfigError, match="no checkpointer"):
            await graph.ainvoke(ASKED, config)
    assert (plans.asked, calls.names) == (0, [])


async def test_the_status_of_the_second_run_of_a_thread_while_it_waits(calls: Calls) -> None:
    """It is in the state of the node; the graph has the run before until the node ends."""
    conductor = Conductor(FixedPlanner(Plan((Step(0, "a"),))), [calls.worker("A")])
    graph = around(conductor, checkpointer=InMemorySaver(), policy=LATER)
    for before in (None, "ok"):
        state = await graph.ainvoke(ASKED, CONFIG)
        inner = (await graph.aget_state(CONFIG, subgraphs=True)).tasks[0].state
        told = state.get("podium") or {"status": None}
        assert (told["status"], inner.values["podium"]["status"]) == (before, "waiting")
        state = await graph.ainvoke(decided(), CONFIG)
        assert state["podium"]["status"] == "ok"
