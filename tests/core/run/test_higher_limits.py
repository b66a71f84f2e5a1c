"""A higher limit never gives a worse status."""

from typing import Literal

import anyio
import pytest
from core.actors import boss, rows
from core.virtual_clock import OPTIONS
from hypothesis import given, strategies as st

from podium.budget import Limits
from podium.conductor import Conductor
from podium.errors import PlannerError, WorkerUnavailable
from podium.execution import Retry
from podium.types import Completion, Plan, Result, Step
from podium.usage import Usage
from podium.workers import Card, Price, Request, ScriptedWorker
from podium.workers.simple import Reply

pytestmark = pytest.mark.timeout(180)
Policy = Literal["note", "skip", "replan", "fail"]
WORST = {"failed": 0, "partial": 1, "ok": 2}
GRIDS: dict[str, list[float]] = {
    "calls": [*range(1, 16)],
    "steps": [*range(1, 12)],
    "cost": [number / 2_000 for number in range(1, 40)],
    "output_tokens": [50 * number for number in range(1, 40)],
    "input_tokens": [250 * number for number in range(1, 60)],
}


def team(fails: list[bool], *, billed: bool) -> list[ScriptedWorker]:
    """Return workers; each always answers or always fails."""
    return [worker(number, is_down=is_down, billed=billed) for number, is_down in enumerate(fails)]


def worker(number: int, *, is_down: bool, billed: bool) -> ScriptedWorker:
    """Return a worker; the answers of every second worker are long, and its failed calls may be billed."""

    def reply(request: Request) -> Reply:
        if is_down:
            return WorkerUnavailable("down", maybe_paid=billed and bool(number % 2))
        return Completion("word " * 20, usage=Usage(60, 80 if number % 2 else 20))

    return ScriptedWorker(Card(name=f"w{number}", price=Price(input=2.0, output=8.0)), reply)


@st.composite
def plans(draw: st.DrawFn, workers: int) -> Plan:
    steps = []
    for index in range(draw(st.integers(1, 5))):
        access = draw(st.sets(st.integers(0, index - 1), max_size=3)) if index else set[int]()
        steps.append(Step(draw(st.integers(0, workers - 1)), f"part {index}", tuple(sorted(access))))
    return Plan(tuple(steps))


def status(name: str, most: float, plans: tuple[Plan, ...], fails: list[bool], policy: Policy) -> str:
    """Return the status of a run with one limit; `failed` if the limit allows no plan."""
    texts = [rows(*[(step.worker, step.subtask, step.access) for step in plan.steps]) for plan in plans]
    retry = Retry(attempts=2, first_wait=0.01, break_after=None)
    limits = Limits(answer_tokens=100, **{name: most})  # type: ignore[arg-type]  # the grid has the type of the field

    async def run() -> Result:
        # with `replan`, billed retries take from the new plan
        workers = team(fails, billed=policy != "replan")
        conductor = Conductor(boss(*texts), workers, limits=limits, retry=retry, on_failure=policy)
        return await conductor.run("Why?")

    try:
        return anyio.run(run, backend_options=OPTIONS).status
    except PlannerError as error:
        return "failed" if error.code == "planner_limit" else error.code


@pytest.mark.long
@given(
    data=st.data(),
    fails=st.lists(st.booleans(), min_size=2, max_size=3),
    policy=st.sampled_from(["note", "skip", "replan", "fail"]),
    name=st.sampled_from(sorted(GRIDS)),
)
def test_a_higher_limit_never_gives_a_worse_status(
    data: st.DataObject, fails: list[bool], policy: Policy, name: str
) -> None:
    """If the workers do the same at each limit, the status is the same or better at each higher limit."""
    written = data.draw(plans(len(fails))), data.draw(plans(len(fails)))
    seen = [(most, status(name, most, written, fails, policy)) for most in GRIDS[name]]
    ranks = [WORST[found] for _, found in seen]
    assert ranks == sorted(ranks), seen


@pytest.mark.long
@given(
    data=st.data(),
    fails=st.lists(st.booleans(), min_size=2, max_size=3),
    name=st.sampled_from(sorted(GRIDS)),
)
def test_a_new_plan_never_loses_the_answer_of_the_first(
    data: st.DataObject, fails: list[bool], name: str
) -> None:
    """At each limit, `replan` gives the status of `note` or a better one."""
    written = data.draw(plans(len(fails))), data.draw(plans(len(fails)))
    for most in GRIDS[name]:
        new, old = (status(name, most, written, fails, policy) for policy in ("replan", "note"))
        assert WORST[new] >= WORST[old], (most, new, old)
