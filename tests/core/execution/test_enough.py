"""Groups of steps of which some are enough: the first good one, or a quorum."""

import pytest
from core.actors import Actor, boss, codes, never
from core.virtual_clock import anyio_backend  # noqa: F401 - a fixture

from podium.conductor import Conductor
from podium.errors import PlanInvalid, WorkerRefused
from podium.plan_text import parse_plan, write_plan
from podium.types import Plan, Step
from podium.workers import ScriptedWorker

pytestmark = pytest.mark.anyio


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
    assert codes(result.outcomes) == ["cancelled enough", "ok", "cancelled enough", "ok"]
    assert (result.status, result.seconds, slow.stopped) == ("ok", 1.0, 1)
    assert result.outcomes[2].usage.estimated
    assert result.outcomes[3].shown == (1,)
    assert "seeing 1 of 0, 1, 2" in result.explain()


@pytest.mark.parametrize(
    ("policy", "ends"),
    [
        ("skip", ["ok", "failed worker_refused", "failed worker_refused", "skipped dependency"]),
        ("note", ["ok", "failed worker_refused", "failed worker_refused", "ok"]),
        ("fail", ["cancelled aborted", "failed worker_refused", "failed worker_refused", "skipped aborted"]),
    ],
)
async def test_too_many_failures_are_the_policys(policy: str, ends: list[str]) -> None:
    bad = ScriptedWorker("bad", WorkerRefused("no"))
    workers = [*_workers(5.0), bad]
    result = await Conductor(boss(""), workers, on_failure=policy).run(_group(2, 1, 2, 2))  # type: ignore[arg-type]  # parametrized
    assert codes(result.outcomes) == ends
    assert result.status == ("partial" if policy == "note" else "failed")


async def test_what_only_serves_a_stopped_step_is_stopped_too() -> None:
    slow = Actor("slow", never)
    workers = [*_workers(1.0), slow]
    steps = (Step(2, "far"), Step(1, "from far", (0,)), Step(1, "near"), Step(0, "join", (1, 2), 1))
    result = await Conductor(boss(""), workers).run(Plan(steps))
    assert codes(result.outcomes) == ["cancelled enough", "skipped enough", "ok", "ok"]
    assert (slow.stopped, result.seconds) == (1, 1.0)


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
