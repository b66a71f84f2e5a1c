"""Groups of steps of which some are enough: the first good one, or a quorum."""

from collections.abc import AsyncGenerator

import anyio
import pytest
from core.actors import Actor, boss, never, rows
from core.run_state.test_resume import prefix, recorded
from core.virtual_clock import anyio_backend  # noqa: F401 - a fixture

from podium.conductor import Conductor
from podium.errors import PlanInvalid, WorkerRefused
from podium.journal import MemoryJournal
from podium.plan_text import parse_plan, write_plan
from podium.planners import FixedPlanner
from podium.types import Completion, Outcome, Plan, Step, StepEnded
from podium.workers import Request, ScriptedWorker

pytestmark = pytest.mark.anyio


def _codes(outcomes: tuple[Outcome, ...]) -> list[str]:
    return [o.status if o.problem is None else f"{o.status} {o.problem.code}" for o in outcomes]


def _sent(request: Request) -> str:
    return "\n".join(message.text for message in request.messages)


def _group(enough: int | None, *workers: int) -> Plan:
    """Return a plan of one step per worker, joined by worker 0 as soon as so many are there."""
    steps = [Step(worker, f"try {worker}") for worker in workers]
    return Plan((*steps, Step(0, "join", tuple(range(len(workers))), enough)))


def _workers(*latencies: float) -> list[ScriptedWorker]:
    outputs = [ScriptedWorker(f"w{i}", f"OUT-{i}", latency=s) for i, s in enumerate(latencies, 1)]
    return [ScriptedWorker("join", "J"), *outputs]


async def test_the_first_good_one_is_enough() -> None:
    slow = Actor("slow", never)
    workers = [*_workers(3.0, 1.0), slow]
    result = await Conductor(boss(""), workers).run(_group(1, 1, 2, 3))
    assert _codes(result.outcomes) == ["cancelled enough", "ok", "cancelled enough", "ok"]
    assert (result.status, result.seconds, slow.stopped) == ("ok", 1.0, 1)
    assert result.outcomes[2].usage.estimated
    assert result.outcomes[3].shown == (1,)
    assert "seeing 1 of 0, 1, 2" in result.explain()


async def test_it_is_shown_those_and_told_nothing_of_the_others() -> None:
    workers = _workers(3.0, 1.0, 2.0)
    await Conductor(boss(""), workers).run(_group(2, 1, 2, 3))
    text = _sent(workers[0].requests[0])
    for word, there in {"OUT-1": False, "try 1": False, "OUT-2": True, "OUT-3": True}.items():
        assert (word in text) == there
    assert "no output" not in text


async def test_a_failure_that_leaves_enough_is_no_lack() -> None:
    workers = [*_workers(1.0, 2.0), ScriptedWorker("bad", WorkerRefused("no"))]
    result = await Conductor(boss(""), workers).run(_group(2, 1, 2, 3))
    assert _codes(result.outcomes) == ["ok", "ok", "failed worker_refused", "ok"]
    assert (result.status, result.problem) == ("ok", None)


@pytest.mark.parametrize(
    ("policy", "codes"),
    [
        ("skip", ["ok", "failed worker_refused", "failed worker_refused", "skipped dependency"]),
        ("note", ["ok", "failed worker_refused", "failed worker_refused", "ok"]),
        ("fail", ["cancelled aborted", "failed worker_refused", "failed worker_refused", "skipped aborted"]),
    ],
)
async def test_too_many_failures_are_the_policys(policy: str, codes: list[str]) -> None:
    bad = ScriptedWorker("bad", WorkerRefused("no"))
    workers = [*_workers(5.0), bad]
    result = await Conductor(boss(""), workers, on_failure=policy).run(_group(2, 1, 2, 2))  # type: ignore[arg-type]  # parametrized
    assert _codes(result.outcomes) == codes
    assert result.status == ("partial" if policy == "note" else "failed")


async def test_what_only_serves_a_stopped_step_is_stopped_too() -> None:
    slow = Actor("slow", never)
    workers = [*_workers(1.0), slow]
    steps = (Step(2, "far"), Step(1, "from far", (0,)), Step(1, "near"), Step(0, "join", (1, 2), 1))
    result = await Conductor(boss(""), workers).run(Plan(steps))
    assert _codes(result.outcomes) == ["cancelled enough", "skipped enough", "ok", "ok"]
    assert (slow.stopped, result.seconds) == (1, 1.0)


async def test_rows_that_started_early_are_stopped_once_the_plan_is_known() -> None:
    text = rows((0, "a", ()), (1, "b", ())) + '{"worker": 2, "subtask": "c", "access": [0, 1], "enough": 1}\n'
    slow = Actor("slow", never)
    workers = [ScriptedWorker("q", "Q", latency=1.0), slow, ScriptedWorker("j", "J", latency=1.0)]
    result = await Conductor(boss(text, piece=10), workers).run("Q?")
    assert _codes(result.outcomes) == ["ok", "cancelled enough", "ok"]
    assert (result.answer, result.seconds) == ("J", 2.0)


async def test_of_steps_that_ask_the_same_each_keeps_its_place_when_the_run_goes_on() -> None:
    waits = iter([3.0, 2.0, 1.0])

    async def in_turn(request: Request) -> AsyncGenerator[str | Completion, None]:
        seconds = next(waits)
        await anyio.sleep(seconds)
        yield Completion(f"after {seconds:g}")

    journal, asked = MemoryJournal(), [Step(1, "try")] * 3
    plan = FixedPlanner(write_plan(Plan((*asked, Step(0, "join", (0, 1, 2), 2))), "rows"))
    first = Conductor(plan, [ScriptedWorker("join", "J"), Actor("w", in_turn)], journal=journal)
    whole = await first.run("What?", run_id="R")
    events = await recorded(journal, "R")
    ends = [index for index, event in enumerate(events) if isinstance(event, StepEnded)]
    left = await prefix(events[: ends[1] + 1], "R")
    join, idle = ScriptedWorker("join", "J"), Actor("w", never)
    result = await Conductor(plan, [join, idle], journal=left).resume("R")
    assert result.outcomes[3].shown == whole.outcomes[3].shown == (1, 2)
    assert [outcome.text for outcome in result.outcomes[1:3]] == ["after 2", "after 1"]


@pytest.mark.parametrize("enough", [0, -1, 3, True, 1.0, "1"])
def test_a_number_that_cannot_be_met_is_refused(enough: object) -> None:
    with pytest.raises(PlanInvalid) as caught:
        Step(0, "x", (0, 1), enough)  # type: ignore[arg-type]  # what is refused
    assert caught.value.code == "bad_enough"


PLAN = Plan((Step(0, "a"), Step(1, "b"), Step(0, "join", (0, 1), 1)))


def test_it_is_kept_in_json_and_by_renumbering() -> None:
    assert Plan.from_json(PLAN.to_json()) == PLAN
    assert PLAN.to_json()["steps"][2]["enough"] == 1
    assert "enough" not in PLAN.to_json()["steps"][0]
    assert '"access": [0, 1], "enough": 1}' in write_plan(PLAN, "rows")
    assert PLAN.renumbered([1, 0]).steps[2].enough == 1
    assert "after 1 of 2" in PLAN.to_mermaid()


@pytest.mark.parametrize(
    ("written", "enough"),
    [("1", 1), ('"1"', 1), ("2", None), ("null", None), ('"all"', None), ("None", None)],
)
def test_what_people_write_is_read(written: str, enough: int | None) -> None:
    head = '{"worker": 0, "subtask": "a", "access": []}\n{"worker": 0, "subtask": "b", "access": []}\n'
    text = head + f'{{"worker": 0, "subtask": "c", "access": [0, 1], "Enough": {written}}}'
    assert parse_plan(text, workers=1).steps[2].enough == enough


@pytest.mark.parametrize("written", ["0", "3", "true", "[1]", '"some"', "-1"])
def test_what_makes_no_sense_is_told_with_its_step(written: str) -> None:
    head = '{"worker": 0, "subtask": "a", "access": []}\n{"worker": 0, "subtask": "b", "access": []}\n'
    text = head + f'{{"worker": 0, "subtask": "c", "access": [0, 1], "enough": {written}}}'
    with pytest.raises(PlanInvalid) as caught:
        parse_plan(text, workers=1)
    assert (caught.value.code, caught.value.step) == ("bad_enough", 2)
    assert caught.value.position == text.index(written, text.index("enough"))
