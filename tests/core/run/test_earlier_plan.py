"""If a new plan does not fit the limits or gives no answer, the first plan continues as with `note`."""

import pytest
from core.actors import boss, problem_of, rows, told

from podium.budget import Limits
from podium.conductor import Conductor
from podium.errors import ConfigError, WorkerFailed, WorkerRefused, WorkerUnavailable
from podium.execution import Retry
from podium.journal import MemoryJournal
from podium.planners import FixedPlanner, RulePlanner
from podium.types import Result
from podium.workers import Card, ScriptedWorker
from podium.workers.simple import Reply

pytestmark = pytest.mark.anyio
FIRST = rows((0, "Collect.", ()), (1, "Check.", ()), (0, "Answer.", (0, 1)))
SECOND = rows((0, "Collect more.", ()), (0, "Answer better.", (0,)))
ONCE = Retry(attempts=1, first_wait=0.01)


def conductor(*plans: Reply, **options: object) -> Conductor:
    workers = [ScriptedWorker("a", "330 m"), ScriptedWorker("b", WorkerUnavailable("down"))]
    return Conductor(boss(*plans), workers, retry=ONCE, on_failure="replan", **options)  # type: ignore[arg-type]  # a test names them right


def planner_calls(result: Result) -> list[int]:
    return [len(one.proposals) for one in result.rounds]


@pytest.mark.parametrize(
    ("limits", "asked", "status", "told"),
    [
        (Limits(calls=4), [1, 1, 0], "partial", "the rest of the earlier plan need at least 3 calls"),
        (Limits(steps=3), [1, 1, 0], "partial", "the rest of the earlier plan need at least 2 steps"),
        (Limits(calls=6), [1, 1, 0], "partial", "the new plan of round 2 gave no answer"),
        (Limits(calls=7), [1, 1], "ok", ""),
    ],
)
async def test_the_answer_of_the_first_plan_is_not_lost(
    limits: Limits, asked: list[int], status: str, told: str
) -> None:
    result = await conductor(FIRST, SECOND, limits=limits).run("How tall?")
    assert (planner_calls(result), result.status, result.answer) == (asked, status, "330 m")
    if told:
        assert told in problem_of(result).message
        assert "step 1 (b): down" in problem_of(result).message


@pytest.mark.parametrize(
    ("inner", "outer", "whose"),
    [
        (Limits(calls=1), Limits(), "the nested run has 1 call left of its 1 call"),
        (Limits(), Limits(calls=3), "the outer run has 1 call left of its 3 calls"),
    ],
)
async def test_a_step_whose_nested_run_meets_a_limit(inner: Limits, outer: Limits, whose: str) -> None:
    chain = FixedPlanner(rows((0, "x", ()), (0, "y", (0,))))
    team = Conductor(chain, [ScriptedWorker("w", "inner")], limits=inner, card=Card(name="team"))
    plan = FixedPlanner(FIRST)
    result = await Conductor(plan, [ScriptedWorker("a", "330 m"), team], limits=outer).run("How tall?")
    problem = problem_of(result.outcomes[1])
    assert (problem.code, result.status) == ("limit", "partial")
    assert whose in problem.message


@pytest.mark.parametrize("calls", range(5, 12))
async def test_early_steps_leave_room_for_a_plan_after_an_unusable_text(calls: int) -> None:
    cut = rows((0, "One.", ()), (0, "Two.", ())) + '{"worker": 9, "subtask": "x", "access": []}\n'
    planner = boss(cut, rows((0, "Three.", ()), (0, "Four.", ()), (0, "Answer.", (0, 1))), piece=20)
    result = await Conductor(planner, [ScriptedWorker("a", "A")], limits=Limits(calls=calls)).run("Why?")
    assert (result.status, result.answer) == ("ok", "A")


SAY = rows((0, "Say A.", ()), (1, "Say B.", (0,)))
KEEP = '{"steps": []}'


async def test_without_an_answer_there_is_nothing_to_keep() -> None:
    planner, journal = boss(SAY, KEEP), MemoryJournal()
    workers = [ScriptedWorker("a", "A"), ScriptedWorker("b", WorkerFailed("no luck"))]
    conductor = Conductor(planner, workers, retry=ONCE, on_failure="replan")
    result = await conductor.run("What?", journal=journal)
    assert result.status == "failed"
    assert problem_of(result).code == "planner_unusable"
    assert "nothing_to_keep" in problem_of(result).message
    assert "step 1 (b): no luck" in problem_of(result).message
    assert [call.role for call in result.proposals] == ["plan", "plan", "repair"]
    assert KEEP not in told(planner, 1)

    able = Conductor(boss(rows((0, "Say C.", ()))), workers, retry=ONCE, on_failure="replan")
    resumed = await able.resume(result.run_id, journal=journal)
    assert (resumed.status, resumed.answer) == ("ok", "A")


async def test_a_planner_that_fails_after_a_step_failed_leaves_both_reasons() -> None:
    workers = [ScriptedWorker("a", "A"), ScriptedWorker("b", WorkerFailed("no luck"))]
    conductor = Conductor(boss(SAY, WorkerRefused("401")), workers, retry=ONCE, on_failure="replan")
    result = await conductor.run("What?")
    assert result.status == "failed"
    assert problem_of(result).code == "planner_refused"
    assert "401" in problem_of(result).message
    assert "step 1 (b): no luck" in problem_of(result).message


def test_an_unknown_failure_policy_is_refused() -> None:
    with pytest.raises(ConfigError, match="'bogus': write one of 'note', 'skip', 'replan', 'fail'"):
        Conductor(RulePlanner(), [ScriptedWorker("a", "A")], on_failure="bogus")  # type: ignore[arg-type]  # what is refused
