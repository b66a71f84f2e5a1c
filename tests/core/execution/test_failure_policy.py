"""What becomes of a run when a step of it fails, and of steps of which some are enough."""

from typing import Any

import pytest
from core.actors import Actor, answering, boss, codes, never, plan_of, problem_of, rows, sent, told
from core.virtual_clock import anyio_backend  # noqa: F401 - a fixture

from podium import Card, Conductor, Limits, Plan, Price, ScriptedWorker, Step, parse_plan
from podium.errors import PlanInvalid, WorkerRefused
from podium.usage import Usage

pytestmark = pytest.mark.anyio

NO = WorkerRefused("SECRET-REASON")
TWO = plan_of((0, "fails", ()), (1, "stands", ()), (2, "join both", (0, 1)))
FIRST = rows((0, "risky part", ()), (1, "sure part", ()), (2, "join both", (0, 1)))
SECOND = rows((1, "sure part", ()), (1, "risky part", ()), (2, "join both", (0, 1)))
ENOUGH = rows((0, "a", ()), (0, "b", ())) + '{"worker": 0, "subtask": "c", "access": [0, 1], "Enough": %s}'


def _team() -> tuple[ScriptedWorker, ScriptedWorker, ScriptedWorker]:
    return ScriptedWorker("bad", NO), ScriptedWorker("a", "A-OUTPUT"), ScriptedWorker("join", "JOINED")


async def test_a_step_is_run_with_the_gap_stated() -> None:
    bad, a, join = _team()
    result = await Conductor(boss(""), [bad, a, join]).run(TWO)
    assert codes(result.outcomes) == ["failed worker_refused", "ok", "ok"]
    text = sent(join.requests[0])
    assert "Step 0 was given this subtask and has no output: it failed." in text
    assert "A-OUTPUT" in text
    assert "SECRET-REASON" not in text
    assert result.outcomes[2].shown == (1,)


async def test_the_first_failure_ends_the_run() -> None:
    plan = plan_of((0, "fails", ()), (1, "done", ()), (2, "slow", ()), (1, "join", (0, 1, 2)))
    bad, slow = ScriptedWorker("bad", NO, latency=2.0), Actor("slow", never)
    workers = [bad, ScriptedWorker("a", "A", latency=1.0), slow]
    result = await Conductor(boss(""), workers, on_failure="fail").run(plan)
    assert (result.status, result.answer, result.seconds) == ("failed", "", 2.0)
    assert problem_of(result).message == "step 0 (bad): SECRET-REASON"
    assert codes(result.outcomes) == ["failed worker_refused", "ok", "cancelled aborted", "skipped aborted"]
    assert (slow.stopped, result.outcomes[1].text) == (1, "A")


async def test_a_new_plan_goes_around_what_failed_and_pays_nothing_twice() -> None:
    planner, (bad, a, join) = boss(FIRST, SECOND), _team()
    result = await Conductor(planner, [bad, a, join], on_failure="replan").run("Q?")
    assert (result.answer, result.status, len(result.rounds)) == ("JOINED", "ok", 2)
    assert [request.step_input.subtask for request in a.requests] == ["sure part", "risky part"]
    again = result.rounds[1].outcomes[0]
    assert (again.round, again.step, again.text) == (2, 0, "A-OUTPUT")
    assert (again.reused, again.usage, again.cost, again.attempts) == (True, Usage(), 0.0, 0)
    assert all(text in result.explain() for text in (", reused", "because step 0 (bad): SECRET-REASON"))
    lost, paid = told(planner, 1).split("some of its steps came to nothing")[1].split("These have one")
    assert all(text in lost for text in ("risky part", "worker_refused: SECRET-REASON", "join both"))
    assert all(text in paid for text in ("sure part", "A-OUTPUT"))
    assert "SECRET-REASON" not in paid


@pytest.mark.parametrize("replans", [1, 2])
async def test_there_are_no_more_new_plans_than_allowed(replans: int) -> None:
    bad, a, join = _team()
    conductor = Conductor(boss(FIRST), [bad, a, join], limits=Limits(replans=replans), on_failure="replan")
    result = await conductor.run("Q?")
    assert (result.answer, result.status, len(result.rounds)) == ("JOINED", "partial", 1 + replans)
    assert (len(a.requests), len(join.requests)) == (1, 1)
    assert "has no output" in sent(join.requests[0])


@pytest.mark.parametrize(
    ("policy", "limits", "told"),
    [
        ("replan", Limits(calls=2, replans=3), "3 calls, and the run has 2 calls left of its 2 calls"),
        ("skip", Limits(steps=2), "3 steps, and the run has 2 steps left of its 2 steps"),
        ("fail", Limits(output_tokens=150), "192 output tokens, and the run has 150 output tokens left"),
    ],
)
async def test_a_plan_that_does_not_fit_is_refused_first(policy: Any, limits: Limits, told: str) -> None:
    worker = ScriptedWorker("a", "A")
    plan = plan_of((0, "x", ()), (0, "y", ()), (0, "join", (0, 1)))
    result = await Conductor(boss(""), [worker], limits=limits, on_failure=policy).run(plan)
    assert (result.answer, result.status, len(worker.requests), len(result.rounds)) == ("", "failed", 0, 1)
    assert f"the plan needs at least {told}" in problem_of(result).message
    assert "raise Limits." in problem_of(result).message


@pytest.mark.parametrize("limit", [{"cost": 2.5}, {"output_tokens": 2_500_000}])
async def test_answers_beyond_their_cap_leave_the_rest_to_the_last_step(limit: dict[str, Any]) -> None:
    limits = Limits(answer_tokens=1_000_000, **limit)
    price = Price(input=0.0, output=1.0)
    dear = Actor(Card(name="dear", price=price), answering("D", usage=Usage(100, 1_000_000), latency=1.0))
    last = Actor(Card(name="last", price=price), answering("L", usage=Usage(100, 400_000)))
    plan = plan_of((0, "x", ()), (0, "y", ()), (1, "join", (0, 1)))
    result = await Conductor(boss(""), [dear, last], limits=limits).run(plan)
    caps = [request.sampling.max_tokens for request in (*dear.requests, *last.requests)]
    assert (caps, result.answer, result.status, result.cost) == ([833_333, 833_333, 500_000], "L", "ok", 2.4)


def _group(enough: int | None, *workers: int) -> Plan:
    """Return a plan of one step per worker, joined by worker 0 as soon as so many are there."""
    steps = [Step(worker, f"try {worker}") for worker in workers]
    return Plan((*steps, Step(0, "join", tuple(range(len(workers))), enough)))


def _workers(*latencies: float) -> list[ScriptedWorker]:
    outputs = [ScriptedWorker(f"w{i}", f"OUT-{i}", latency=s) for i, s in enumerate(latencies, 1)]
    return [ScriptedWorker("join", "J"), *outputs]


async def test_the_first_good_one_is_enough() -> None:
    slow = Actor("slow", never)
    result = await Conductor(boss(""), [*_workers(3.0, 1.0), slow]).run(_group(1, 1, 2, 3))
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
    workers = [*_workers(5.0), ScriptedWorker("bad", WorkerRefused("no"))]
    result = await Conductor(boss(""), workers, on_failure=policy).run(_group(2, 1, 2, 2))  # type: ignore[arg-type]  # parametrized
    assert (codes(result.outcomes), result.status) == (ends, ("partial" if policy == "note" else "failed"))


async def test_what_only_serves_a_stopped_step_is_stopped_too() -> None:
    slow = Actor("slow", never)
    workers = [*_workers(1.0), slow]
    steps = (Step(2, "far"), Step(1, "from far", (0,)), Step(1, "near"), Step(0, "join", (1, 2), 1))
    result = await Conductor(boss(""), workers).run(Plan(steps))
    assert codes(result.outcomes) == ["cancelled enough", "skipped enough", "ok", "ok"]
    assert (slow.stopped, result.seconds) == (1, 1.0)


@pytest.mark.parametrize(("written", "enough"), [('"1"', 1), ("2", None), ("null", None), ('"all"', None)])
def test_what_people_write_is_read(written: str, enough: int | None) -> None:
    assert parse_plan(ENOUGH % written, workers=1).steps[2].enough == enough


@pytest.mark.parametrize("written", ["0", "3", "true", '"some"'])
def test_what_makes_no_sense_is_told_with_its_step(written: str) -> None:
    text = ENOUGH % written
    with pytest.raises(PlanInvalid) as caught:
        parse_plan(text, workers=1)
    assert (caught.value.code, caught.value.step) == ("bad_enough", 2)
    assert caught.value.position == text.index(written, text.index("Enough"))
