"""Both executors carry out the same plans with the same results, and continue them in the same way."""

import json
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, NamedTuple

import anyio
import pytest
from core.cycles import left_by
from graphs.conducted import ASKED, CONFIG, EXECUTORS, Calls, around, decided
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt

from langchain_podium.graph.conducted import Executor
from podium import Conductor, Plan
from podium.execution import Retry
from podium.journal import MemoryJournal
from podium.plan_text import parse_plan
from podium.planners import FixedPlanner
from podium.policy import Policy
from podium.workers import PersonWorker, StepInput, Worker

pytestmark = pytest.mark.anyio
NAMES = ("list", "read", "sum", "ask", "judge", "person")
Steps = Sequence[dict[str, Any]]

LIST: dict[str, Any] = {"worker": "list", "subtask": "list", "access": [], "returns": {"names": ["string"]}}
READ: dict[str, Any] = {"worker": "read", "subtask": "{{item}}", "access": [], "each": "{{0.names}}"}
SUM: dict[str, Any] = {"worker": "sum", "subtask": "sum", "access": [1]}
JUDGE: dict[str, Any] = {"worker": "judge", "subtask": "judge", "access": [], "returns": {"kind": "x|y"}}


def _on(kind: str, number: int = 0) -> dict[str, Any]:
    return {"ref": f"{{{{{number}.kind}}}}", "is": kind}


def _inner(worker: str, subtask: str, access: Sequence[int] = (), **more: Any) -> dict[str, Any]:
    return {"worker": worker, "subtask": subtask, "access": list(access), **more}


class _Case(NamedTuple):
    steps: Steps
    answer: str
    status: str = "ok"
    called: str = ""
    """Who was called, in the order of their names."""
    said: Sequence[Any] = ()
    """The answers to the interrupts, in the order of the texts that these show."""
    options: Any = {}  # noqa: RUF012 - of a tuple
    """Options of the node."""


ASK_BLOCK: Steps = (LIST, {"steps": [_inner("ask", "ask {{item}}")], "each": "{{0.names}}", "access": []})
CASES = {
    "map": _Case((LIST, READ, SUM), 'sum(["read a","read b"])', called="list read read sum"),
    "map over a map": _Case(
        (LIST, READ, {**READ, "each": "{{1}}"}, {**SUM, "access": [2]}),
        'sum(["read read a","read read b"])',
        called="list read read read read sum",
    ),
    "block for each": _Case(
        (
            LIST,
            {
                "steps": [_inner("read", "{{item}}"), _inner("sum", "sum", [0])],
                "each": "{{0.names}}",
                "access": [],
            },
        ),
        '["sum(read a)","sum(read b)"]',
        called="list read read sum sum",
    ),
    "reader of a branch that is not taken": _Case(
        (JUDGE, _inner("read", "one", when=_on("y")), _inner("read", "two"), _inner("sum", "sum", [1, 2])),
        "sum(read two)",
        called="judge read sum",
    ),
    "else": _Case(
        (
            JUDGE,
            _inner("read", "one"),
            _inner("read", "two", when=_on("y"), **{"else": 1}),
            _inner("sum", "sum", [2]),
        ),
        "sum(read one)",
        called="judge read sum",
    ),
    "loop": _Case(
        (
            {
                "steps": [_inner("read", "turn"), _inner("judge", "judge", [0], returns={"kind": "x|y"})],
                "until": {"ref": "{{1.kind}}", "is": "x"},
                "most": 3,
                "access": [],
            },
            _inner("sum", "sum", [0]),
        ),
        'sum({"kind":"x"})',
        called="judge read sum",
    ),
    "loop that does not converge": _Case(
        (
            {
                "steps": [_inner("read", "turn"), _inner("judge", "judge", [0], returns={"kind": "x|y"})],
                "until": {"ref": "{{1.kind}}", "is": "y"},
                "most": 2,
                "access": [],
            },
        ),
        '{"kind":"x"}',
        status="partial",
        called="judge judge read read",
    ),
    "item that fails": _Case(
        ({**LIST, "subtask": "list b and fail"}, READ, SUM),
        'sum([null,"read b"])',
        status="partial",
        called="list read read sum",
    ),
    "enough": _Case(
        ({**LIST, "subtask": "list b and fail"}, {**READ, "enough": 1}, SUM),
        'sum([null,"read b"])',
        called="list read read sum",
    ),
    "interrupts in items": _Case(
        ASK_BLOCK, '["A","B"]', called="ask ask ask ask list", said=[("ask a?", "A"), ("ask b?", "B")]
    ),
    "interrupt in a turn": _Case(
        (
            {
                "steps": [_inner("ask", "ask"), _inner("judge", "judge", [0], returns={"kind": "x|y"})],
                "until": {"ref": "{{1.kind}}", "is": "x"},
                "most": 2,
                "access": [],
            },
        ),
        '{"kind":"x"}',
        called="ask ask judge",
        said=[("ask?", "yes")],
    ),
    "questions to a person for each item": _Case(
        (LIST, {**READ, "worker": "person"}, SUM),
        'sum(["A","B"])',
        called="list sum",
        said=[("a", "respond A"), ("b", "respond B")],
    ),
    "interrupt behind a branch": _Case(
        (JUDGE, _inner("ask", "one", when=_on("x")), _inner("ask", "two", when=_on("y"))),
        "yes",
        called="ask ask judge",
        said=[("one?", "yes")],
    ),
    "approval of a map": _Case(
        (LIST, READ, SUM),
        'sum(["read a","read b"])',
        called="list read read sum",
        said=[("2 items", "approve")],
        options={"policy": Policy(ask="fan-outs", approve="later", ask_above={"calls": 2})},
    ),
}  # fmt: skip


def _workers(calls: Calls) -> list[Worker]:
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


def _plan_of(steps: Steps) -> Plan:
    return parse_plan(json.dumps({"steps": list(steps)}), workers=NAMES)


def _made(case: _Case, calls: Calls, executor: Executor, *, is_recorded: bool, saver: Any = None) -> Any:
    journal = MemoryJournal() if is_recorded else None
    conductor = Conductor(
        FixedPlanner(_plan_of(case.steps)), _workers(calls), journal=journal, retry=Retry(attempts=1)
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


def _ends(state: Any) -> list[tuple[str, str, str]]:
    found = [(each.get("path") or str(each["step"]), each) for each in state["podium"]["outcomes"]]
    return sorted((name, each["status"], each.get("text", "")) for name, each in found)


RESULTS: dict[str, list[tuple[str, str, str]]] = {}
"""The ends of a case under the first executor."""


@EXECUTORS
@pytest.mark.parametrize(("name", "is_recorded"), [(name, at % 3 == 0) for at, name in enumerate(CASES)])
async def test_plans(name: str, executor: Executor, calls: Calls, *, is_recorded: bool) -> None:
    """Each ends in the same way, with the same calls; each third one with a journal."""
    case = CASES[name]
    graph = _made(case, calls, executor, is_recorded=is_recorded)
    state = await graph.ainvoke(ASKED, CONFIG)
    if case.said:
        asked = sorted(state["__interrupt__"], key=shown)
        assert all(words in shown(each) for (words, _), each in zip(case.said, asked, strict=True))
        values = (await graph.aget_state(CONFIG, subgraphs=True)).tasks[0].state.values
        assert values["podium"]["plan"]["steps"]
        has_ended = name != "interrupt in a turn"
        assert bool(values["steps"]) == has_ended
        answers = {each.id: answer(each, said) for each, (_, said) in zip(asked, case.said, strict=True)}
        state = await graph.ainvoke(Command(resume=answers), CONFIG)
    assert "__interrupt__" not in state
    assert (state["podium"]["status"], state["messages"][-1].text.split("\n\n(")[0]) == (
        case.status,
        case.answer,
    )
    assert sorted(calls.names) == case.called.split()
    assert RESULTS.setdefault(name, _ends(state)) == _ends(state)


@EXECUTORS
@pytest.mark.parametrize(
    ("name", "last", "is_recorded"),
    [
        ("map over a map", 2, False),
        ("map over a map", 4, True),
        ("block for each", 2, True),
        ("block for each", 3, False),
        ("loop", 1, False),
        ("loop", 2, True),
        ("else", 2, False),
    ],
)
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

        graph = _made(case, Stopping(), executor, is_recorded=is_recorded)
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
async def test_a_node_leaves_no_cycles(executor: Executor, calls: Calls) -> None:
    """The garbage collector, which blocks the event loop, has no work with the runs that have ended."""
    case = CASES["map"]
    lister = calls.worker("list", lambda _: '{"names": ["a", "b"]}')
    pool = [lister, calls.worker("read"), calls.worker("sum")]
    conductor = Conductor(FixedPlanner(_plan_of(case.steps)), pool)
    graph, threads = around(conductor, executor=executor, checkpointer=InMemorySaver()), count()

    async def run() -> None:
        state = await graph.ainvoke(ASKED, {"configurable": {"thread_id": str(next(threads))}})
        assert state["messages"][-1].text.startswith("sum(")

    assert await left_by(run) == []
