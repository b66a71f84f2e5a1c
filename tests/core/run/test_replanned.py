"""A run whose planner is asked again after a step failed, and gives no plan that could help."""

import pytest
from core.actors import boss, problem_of, rows, told

from podium.conductor import Conductor
from podium.errors import ConfigError, WorkerFailed, WorkerRefused
from podium.execution import Retry
from podium.journal import MemoryJournal
from podium.planners import RulePlanner
from podium.workers import ScriptedWorker

pytestmark = pytest.mark.anyio
FIRST = rows((0, "Say A.", ()), (1, "Say B.", (0,)))
KEEP = '{"steps": []}'
ONCE = Retry(attempts=1)


async def test_without_an_answer_there_is_nothing_to_keep() -> None:
    planner, journal = boss(FIRST, KEEP), MemoryJournal()
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
    conductor = Conductor(boss(FIRST, WorkerRefused("401")), workers, retry=ONCE, on_failure="replan")
    result = await conductor.run("What?")
    assert result.status == "failed"
    assert problem_of(result).code == "planner_refused"
    assert "401" in problem_of(result).message
    assert "step 1 (b): no luck" in problem_of(result).message


def test_an_unknown_failure_policy_is_refused() -> None:
    with pytest.raises(ConfigError, match="'bogus': write one of 'note', 'skip', 'replan', 'fail'"):
        Conductor(RulePlanner(), [ScriptedWorker("a", "A")], on_failure="bogus")  # type: ignore[arg-type]  # what is refused


@pytest.mark.parametrize(("verdict", "status"), [("", "ok"), ("too short", "partial"), (None, "partial")])
async def test_an_empty_reason_accepts(verdict: str | None, status: str) -> None:
    """A check may return the reason against an answer, which is empty where there is none."""

    def accept(question: str, answer: str) -> str | bool:
        return False if verdict is None else verdict

    conductor = Conductor(boss(rows((0, "Say A.", ()))), [ScriptedWorker("a", "A")], accept=accept)
    assert (await conductor.run("What?")).status == status
