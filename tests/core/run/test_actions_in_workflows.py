"""Actions in maps, blocks and loops: each is carried out once, or the run says which was not."""

import json
from typing import Any

import anyio
import pytest
from core.actors import ONCE, boss, problem_of
from core.execution.flows import block, when
from core.run_state.test_resume import journal_of

from podium import Card, Conductor, FunctionWorker, Limits, Plan, Step, parse_plan
from podium.errors import ToolFailed, WorkerBroken
from podium.journal import MemoryJournal
from podium.planners import FixedPlanner
from podium.types import NestedRunEnded, RunEnded
from podium.workers import FREE, StepInput, Worker

pytestmark = pytest.mark.anyio
NAMES = ["act", "list", "broken", "writer"]
LIST: dict[str, Any] = {"worker": "list", "subtask": "list", "access": [], "returns": {"ids": ["string"]}}
BROKEN = {**LIST, "worker": "broken"}
MAP = {**LIST, "subtask": "{{item}}", "each": "{{0.ids}}"}
NEXT = {**LIST, "subtask": "of {{item}}", "each": "{{1.ids}}"}
END: dict[str, Any] = {"worker": "writer", "subtask": "end", "access": []}


def act(subtask: str, *access: int, **keys: Any) -> dict[str, Any]:
    return {"worker": "act", "subtask": subtask, "access": list(access), **keys}


def text_of(*steps: dict[str, Any]) -> str:
    return json.dumps({"steps": steps})


def team() -> tuple[list[str], list[Worker]]:
    """Return a list of what was done, and the workers; to do `x` fails."""
    done: list[str] = []

    async def acting(step: StepInput) -> str:
        done.append(step.subtask)
        await anyio.sleep(0.05 if step.subtask == "slow" else 0)
        if step.subtask == "x":
            raise ToolFailed("no", maybe_paid=True)
        return step.subtask

    async def listing(step: StepInput) -> dict[str, Any]:
        if step.subtask == "x":
            raise WorkerBroken("broken")
        return {"ids": ["a", "x", "a"]}

    async def breaking(step: StepInput) -> str:
        raise WorkerBroken("broken")

    async def writing(step: StepInput) -> str:
        return "text"

    acts: list[Any] = [acting, listing, breaking, writing]
    workers = [
        FunctionWorker(each, card=Card(name=name, price=FREE), acts=name == "act")
        for name, each in zip(NAMES, acts, strict=True)
    ]
    return done, list(workers)


EACH, OF, LAST = (
    act("{{item}}", each="{{0.ids}}"),
    act("of {{item}}", each="{{1.ids}}"),
    {**END, "access": [1]},
)
ITEM, IS_Z = block(act("{{item}}"), LIST, each="{{0.ids}}"), when("{{1.ids}}", is_=["z"])
LACKING: dict[str, tuple[list[dict[str, Any]], list[str], str]] = {
    "a map without a list": ([BROKEN, EACH, END], [], "step 1 (act)"),
    "a map with too many items": ([LIST, EACH, END], [], "step 1 (act)"),
    "an item": ([LIST, EACH, END], ["a", "x"], "step 1[1] (act)"),
    "an item that is not needed": ([LIST, EACH | {"enough": 1}, LAST], ["a", "x"], "step 1[1] (act)"),
    "an item of an incomplete list": ([LIST, MAP, OF, END], ["of a", "of x"], "step 2 (act)"),
    "an action that reads an incomplete list": ([LIST, MAP, NEXT, act("a", 2), END], [], "step 3 (act)"),
    "an item of a list of an incomplete list": (
        [LIST, MAP, NEXT, OF | {"each": "{{2.ids}}"}, END],
        ["of a", "of x"],
        "step 3 (act)",
    ),
    "a step of an item": ([LIST, ITEM, LAST], ["a", "x"], "step 1[1].0 (act)"),
    "a step of a block": ([block(act("x"), LIST), END], ["x"], "step 0.0 (act)"),
    "a step of a block that lacks an input": ([block(BROKEN, act("a", 0), LIST), END], [], "step 0.1 (act)"),
    "a block that lacks an input": ([BROKEN, block(act("a"), access=[0]), END], [], "step 1 (block)"),
    "a turn": ([block(act("a"), BROKEN, until=IS_Z, most=2), END], ["a"], "step 0 (block)"),
}
"""The steps of a plan, what is done, and the step that the problem names."""


@pytest.mark.parametrize("lacking", LACKING)
async def test_a_run_without_one_of_its_actions_is_not_ok(lacking: str) -> None:
    steps, expected, name = LACKING[lacking]
    done, workers = team()
    plan = parse_plan(text_of(*steps), workers=NAMES)
    limits = Limits(items=2 if "too many" in lacking else 256)
    result = await Conductor(FixedPlanner(plan), workers, retry=ONCE, limits=limits).run(plan)
    assert (result.status, result.answer, sorted(done)) == ("partial", "text", expected)
    assert name in problem_of(result).message


async def test_a_block_that_is_not_needed_carries_out_its_actions() -> None:
    done, workers = team()
    slow = block(act("slow"), act("a", 0))
    plan = parse_plan(text_of(slow, LIST, {**END, "access": [0, 1], "enough": 1}), workers=NAMES)
    result = await Conductor(FixedPlanner(plan), workers).run(plan)
    assert (result.status, done) == ("ok", ["slow", "a"])


AGAIN: dict[str, tuple[list[dict[str, Any]], list[str]]] = {
    "a loop with more steps than the plan": (
        [block(act("a"), LIST, LIST, LIST, until=when("{{3.ids}}", is_=["z"]), most=2), BROKEN],
        ["a", "a"],
    ),
    "equal items of a list": ([act("{{item}}", each=["a", "b", "a"]), BROKEN], ["a", "b"]),
    "turns": (
        [block(act("a"), LIST, until=IS_Z, most=2), act("slow"), block(LIST, access=[1]), BROKEN],
        ["a", "a", "slow"],
    ),
}
"""The steps of a plan, of which the last fails, and what is done."""


@pytest.mark.parametrize("name", AGAIN)
@pytest.mark.parametrize("more", [(), (act("c"),)], ids=["the same plan", "another plan"])
async def test_another_plan_does_not_repeat_actions(name: str, more: tuple[dict[str, Any], ...]) -> None:
    """In the second plan, the executions have other numbers."""
    (steps, expected), (done, workers) = AGAIN[name], team()
    end = {**END, "access": list(range(len(steps)))}
    plans = text_of(*steps, end), text_of(*steps, *more, end)
    conductor = Conductor(boss(*plans), workers, on_failure="replan", retry=ONCE)
    result = await conductor.run("What?")
    assert (len(result.plans) > 1, sorted(done)) == (True, sorted([*expected, *["c" for _ in more]]))


async def test_a_nested_run_that_a_crash_interrupted_does_not_repeat_its_actions_for_another_plan() -> None:
    """Other workers have been called in the step that started the nested run."""
    done, workers = team()
    inner = FixedPlanner(text_of(act("a"), {**END, "access": [0]}))
    pool = [Conductor(inner, workers, card=Card(name="team")), workers[3]]
    whole, left = MemoryJournal(), list[list[Any]]()
    plan = Plan((Step(0, "order"), Step(1, "end", (0,))))
    first = await Conductor(FixedPlanner(""), pool, journal=whole).run(plan, run_id="R")
    for run_id in ("R", first.actions[-1].run_id):  # the process dies before the nested run ends
        events = [entry.event for entry in await whole.read(run_id)]
        is_end = [isinstance(e, RunEnded | NestedRunEnded) or getattr(e, "step", None) == 1 for e in events]
        left.append(events[: is_end.index(True)])
    outer = Conductor(FixedPlanner(""), pool, journal=await journal_of(*left))
    for plan in (
        Plan((Step(1, "write"), Step(1, "end", (0,)))),
        Plan((Step(1, "write more"), Step(1, "end", (0,)))),
        Plan((Step(1, "first"), Step(0, "order"), Step(1, "end", (1,)))),
    ):
        result = await outer.resume("R", plan=plan)
    assert (result.status, done) == ("ok", ["a"])
