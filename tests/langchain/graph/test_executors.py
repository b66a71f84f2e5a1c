"""Both executors carry out the same plans with the same results, and continue them in the same way."""

import json
from collections.abc import Callable, Sequence
from copy import deepcopy
from itertools import count
from typing import Any, NamedTuple

import anyio
import pytest
from core.cycles import left_by
from graphs.conducted import LATER, Calls, around, decided
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt

from langchain_podium.graph.conducted import Executor
from podium import Conductor, Plan
from podium.errors import WorkerFailed
from podium.execution import Retry
from podium.journal import MemoryJournal
from podium.plan_text import parse_plan
from podium.planners import FixedPlanner
from podium.policy import Policy
from podium.workers import Card, PersonWorker, StepInput, Worker
from podium.workers.simple import FunctionWorker

pytestmark = pytest.mark.anyio
ASKED = {"messages": [("user", "How many?")]}
CONFIG: Any = {"configurable": {"thread_id": "1"}}
EXECUTORS = pytest.mark.parametrize("executor", ["podium", "langgraph"])
RECORDS = pytest.mark.parametrize("is_recorded", [False, True], ids=["checkpointer", "journal"])
NAMES = ("list", "read", "sum", "ask", "judge", "person")
Steps = Sequence[dict[str, Any]]

LIST: dict[str, Any] = {"worker": "list", "subtask": "list", "access": [], "returns": {"names": ["string"]}}
READ: dict[str, Any] = {"worker": "read", "subtask": "{{item}}", "access": [], "each": "{{0.names}}"}
SUM: dict[str, Any] = {"worker": "sum", "subtask": "sum", "access": [1]}
JUDGE: dict[str, Any] = {"worker": "judge", "subtask": "judge", "access": [], "returns": {"kind": "x|y"}}


def on(kind: str, number: int = 0) -> dict[str, Any]:
    """Return a condition on the judge."""
    return {"ref": f"{{{{{number}.kind}}}}", "is": kind}


def inner(worker: str, subtask: str, access: Sequence[int] = (), **more: Any) -> dict[str, Any]:
    """Return a step of a block."""
    return {"worker": worker, "subtask": subtask, "access": list(access), **more}


class Case(NamedTuple):
    """A plan and its end."""

    steps: Steps
    answer: str
    status: str = "ok"
    called: str = ""
    """Who was called, in the order of their names."""
    said: Sequence[Any] = ()
    """The answers to the interrupts, in the order of the texts that these show."""
    options: Any = {}  # noqa: RUF012 - of a tuple
    """Options of the node."""


ASK_BLOCK: Steps = (LIST, {"steps": [inner("ask", "ask {{item}}")], "each": "{{0.names}}", "access": []})
CASES = {
    "map": Case((LIST, READ, SUM), 'sum(["read a","read b"])', called="list read read sum"),
    "map over a map": Case(
        (LIST, READ, {**READ, "each": "{{1}}"}, {**SUM, "access": [2]}),
        'sum(["read read a","read read b"])',
        called="list read read read read sum",
    ),
    "block for each": Case(
        (
            LIST,
            {
                "steps": [inner("read", "{{item}}"), inner("sum", "sum", [0])],
                "each": "{{0.names}}",
                "access": [],
            },
        ),
        '["sum(read a)","sum(read b)"]',
        called="list read read sum sum",
    ),
    "branch that is taken": Case(
        (JUDGE, inner("read", "one", when=on("x")), inner("read", "two", when=on("y"))),
        "read one",
        called="judge read",
    ),
    "reader of a branch that is not taken": Case(
        (JUDGE, inner("read", "one", when=on("y")), inner("read", "two"), inner("sum", "sum", [1, 2])),
        "sum(read two)",
        called="judge read sum",
    ),
    "else": Case(
        (
            JUDGE,
            inner("read", "one"),
            inner("read", "two", when=on("y"), **{"else": 1}),
            inner("sum", "sum", [2]),
        ),
        "sum(read one)",
        called="judge read sum",
    ),
    "loop": Case(
        (
            {
                "steps": [inner("read", "turn"), inner("judge", "judge", [0], returns={"kind": "x|y"})],
                "until": {"ref": "{{1.kind}}", "is": "x"},
                "most": 3,
                "access": [],
            },
            inner("sum", "sum", [0]),
        ),
        'sum({"kind":"x"})',
        called="judge read sum",
    ),
    "loop that does not converge": Case(
        (
            {
                "steps": [inner("read", "turn"), inner("judge", "judge", [0], returns={"kind": "x|y"})],
                "until": {"ref": "{{1.kind}}", "is": "y"},
                "most": 2,
                "access": [],
            },
        ),
        '{"kind":"x"}',
        status="partial",
        called="judge judge read read",
    ),
    "item that fails": Case(
        ({**LIST, "subtask": "list b and fail"}, READ, SUM),
        'sum([null,"read b"])',
        status="partial",
        called="list read read sum",
    ),
    "enough": Case(
        ({**LIST, "subtask": "list b and fail"}, {**READ, "enough": 1}, SUM),
        'sum([null,"read b"])',
        called="list read read sum",
    ),
    "interrupts in items": Case(
        ASK_BLOCK, '["A","B"]', called="ask ask ask ask list", said=[("ask a?", "A"), ("ask b?", "B")]
    ),
    "interrupt in a turn": Case(
        (
            {
                "steps": [inner("ask", "ask"), inner("judge", "judge", [0], returns={"kind": "x|y"})],
                "until": {"ref": "{{1.kind}}", "is": "x"},
                "most": 2,
                "access": [],
            },
        ),
        '{"kind":"x"}',
        called="ask ask judge",
        said=[("ask?", "yes")],
    ),
    "questions to a person for each item": Case(
        (LIST, {**READ, "worker": "person"}, SUM),
        'sum(["A","B"])',
        called="list sum",
        said=[("a", "respond A"), ("b", "respond B")],
    ),
    "interrupt behind a branch": Case(
        (JUDGE, inner("ask", "one", when=on("x")), inner("ask", "two", when=on("y"))),
        "yes",
        called="ask ask judge",
        said=[("one?", "yes")],
    ),
    "approval of a map": Case(
        (LIST, READ, SUM),
        'sum(["read a","read b"])',
        called="list read read sum",
        said=[("2 items", "approve")],
        options={"policy": Policy(ask="fan-outs", approve="later", ask_above={"calls": 2})},
    ),
    "approval of the plan": Case(
        (LIST, READ, SUM),
        'sum(["read a","read b"])',
        called="list read read sum",
        said=[("calls", "approve")],
        options={"policy": LATER},
    ),
    "refused plan": Case(
        (LIST, READ, SUM),
        "the plan of round 1 was refused by interrupt",
        status="failed",
        said=[("calls", "reject")],
        options={"policy": LATER},
    ),
}  # fmt: skip


def workers(calls: Calls) -> list[Worker]:
    """Return the workers of the cases."""

    def read(step_input: StepInput) -> str:
        if step_input.subtask == "fail":
            raise ValueError("no luck")
        return f"read {step_input.subtask}"

    def listed(step_input: StepInput) -> str:
        return json.dumps({"names": ["fail", "b"] if "fail" in step_input.subtask else ["a", "b"]})

    return [
        calls.worker("list", listed),
        calls.worker("read", read),
        calls.worker("sum"),
        calls.asking("ask", lambda step_input: str(interrupt(f"{step_input.subtask}?"))),
        calls.worker("judge", lambda _: '{"kind": "x"}'),
        PersonWorker("person"),
    ]


def plan_of(steps: Steps) -> Plan:
    """Return the plan of these steps."""
    return parse_plan(json.dumps({"steps": list(steps)}), workers=NAMES)


def made(case: Case, calls: Calls, executor: Executor, *, is_recorded: bool, saver: Any = None) -> Any:
    """Return a graph for a case."""
    journal = MemoryJournal() if is_recorded else None
    conductor = Conductor(
        FixedPlanner(plan_of(case.steps)), workers(calls), journal=journal, retry=Retry(attempts=1)
    )
    return around(conductor, executor=executor, checkpointer=saver or InMemorySaver(), **case.options)


def shown(asked: Any) -> str:
    """Return what an interrupt shows: the words of a worker, or the description of a decision."""
    value = asked.value
    return value if isinstance(value, str) else str(value["action_requests"][0]["description"])


def answer(asked: Any, said: str) -> Any:
    """Return the answer to an interrupt of a worker, or a decision: its type, and words."""
    kind, _, words = said.partition(" ")
    decision = decided(kind, message=words) if words else decided(kind)
    return said if isinstance(asked.value, str) else decision.resume


def ends(state: Any) -> list[tuple[str, str, str]]:
    """Return how the steps and the executions inside have ended."""
    found = [(each.get("path") or str(each["step"]), each) for each in state["podium"]["outcomes"]]
    return sorted((name, each["status"], each.get("text", "")) for name, each in found)


RESULTS: dict[tuple[str, bool], list[tuple[str, str, str]]] = {}
"""The ends of a case under the first executor."""


@EXECUTORS
@RECORDS
@pytest.mark.parametrize("name", CASES)
async def test_plans(name: str, executor: Executor, calls: Calls, *, is_recorded: bool) -> None:
    """Each ends in the same way, with the same calls."""
    case = CASES[name]
    graph = made(case, calls, executor, is_recorded=is_recorded)
    state = await graph.ainvoke(ASKED, CONFIG)
    if case.said:
        asked = sorted(state["__interrupt__"], key=shown)
        assert all(words in shown(each) for (words, _), each in zip(case.said, asked, strict=True))
        values = (await graph.aget_state(CONFIG, subgraphs=True)).tasks[0].state.values
        assert values["podium"]["plan"]["steps"]
        has_ended = name not in ("interrupt in a turn", "approval of the plan", "refused plan")
        assert bool(values["steps"]) == has_ended
        answers = {each.id: answer(each, said) for each, (_, said) in zip(asked, case.said, strict=True)}
        state = await graph.ainvoke(Command(resume=answers), CONFIG)
    assert "__interrupt__" not in state
    assert (state["podium"]["status"], state["messages"][-1].text.split("\n\n(")[0]) == (
        case.status,
        case.answer,
    )
    assert sorted(calls.names) == case.called.split()
    assert RESULTS.setdefault((name, is_recorded), ends(state)) == ends(state)


@EXECUTORS
@RECORDS
@pytest.mark.parametrize("name", ["map over a map", "block for each", "loop", "else"])
@pytest.mark.parametrize("last", range(1, 6))
async def test_a_node_that_is_stopped(
    name: str, last: int, executor: Executor, calls: Calls, *, is_recorded: bool
) -> None:
    """Nothing that has ended is called again."""
    case = CASES[name]
    with anyio.CancelScope() as scope:
        names = list[str]()

        class Stopping(Calls):
            def worker(self, name: str, says: Callable[[StepInput], str] | None = None) -> Worker:
                def work(step_input: StepInput) -> str:
                    names.append(name)
                    if len(names) == last:
                        scope.cancel()
                    shown = ",".join(step.output for step in step_input.visible)
                    return f"{name}({shown})" if says is None else says(step_input)

                return super().worker(name, work)

        graph = made(case, Stopping(), executor, is_recorded=is_recorded)
        await graph.ainvoke(ASKED, CONFIG)
    if scope.cancelled_caught:
        state = await graph.ainvoke(None, CONFIG)
    else:
        state = (await graph.aget_state(CONFIG)).values
    assert state["messages"][-1].text == case.answer
    again = sorted(names)
    for each in case.called.split():
        again.remove(each)
    assert len(again) <= 2  # what was under way


@EXECUTORS
async def test_a_process_that_dies(executor: Executor, calls: Calls) -> None:
    """Without a journal, what the nodes have delivered to the checkpointer is not paid for again."""
    saver, kept, case = InMemorySaver(), list[InMemorySaver](), CASES["map"]

    async def sum_up(step_input: StepInput) -> str:
        await anyio.sleep(0.3)  # the checkpointer stores what has ended
        kept.append(deepcopy(saver))
        return "sum()"

    conductor = Conductor(
        FixedPlanner(plan_of(case.steps)),
        [
            FunctionWorker(sum_up, card=Card(name="sum")) if each == "sum" else worker
            for each, worker in zip(NAMES, workers(Calls()), strict=True)
        ],
    )
    await around(conductor, executor=executor, checkpointer=saver).ainvoke(ASKED, CONFIG)
    state = await made(case, calls, executor, is_recorded=False, saver=kept[0]).ainvoke(None, CONFIG)
    assert state["messages"][-1].text == case.answer
    assert calls.names == ["sum"]


@EXECUTORS
async def test_a_step_that_fails_runs_again_alone(executor: Executor, calls: Calls) -> None:
    """When the graph goes on."""
    luck = [False]

    def read(step_input: StepInput) -> str:
        if step_input.subtask == "b" and not luck[0]:
            raise WorkerFailed("no luck")
        return f"read {step_input.subtask}"

    steps = (LIST, {**READ, "enough": 2}, SUM)
    pool = [
        calls.worker("list", lambda _: '{"names": ["a", "b"]}'),
        calls.worker("read", read),
        calls.worker("sum"),
    ]
    conductor = Conductor(FixedPlanner(plan_of(steps)), pool, retry=Retry(attempts=1), on_failure="skip")
    graph = around(conductor, executor=executor, checkpointer=InMemorySaver())
    with pytest.raises(Exception, match="no luck"):
        await graph.ainvoke(ASKED, CONFIG)
    luck[0] = True
    state = await graph.ainvoke(None, CONFIG)
    assert state["messages"][-1].text == 'sum(["read a","read b"])'
    assert sorted(calls.names) == ["list", "read", "read", "read", "sum"]


@EXECUTORS
@pytest.mark.parametrize("saver", [None, InMemorySaver()], ids=["no checkpointer", "checkpointer"])
async def test_a_node_leaves_no_cycles(executor: Executor, saver: InMemorySaver | None, calls: Calls) -> None:
    """The garbage collector, which blocks the event loop, has no work with the runs that have ended."""
    case = CASES["map"]
    lister = calls.worker("list", lambda _: '{"names": ["a", "b"]}')
    pool = [lister, calls.worker("read"), calls.worker("sum")]
    conductor = Conductor(FixedPlanner(plan_of(case.steps)), pool)
    graph, threads = around(conductor, executor=executor, checkpointer=saver), count()

    async def run() -> None:
        state = await graph.ainvoke(ASKED, {"configurable": {"thread_id": str(next(threads))}})
        assert state["messages"][-1].text.startswith("sum(")

    assert await left_by(run) == []
