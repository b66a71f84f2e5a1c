"""Results add up, and say in words what was decided."""

from podium.errors import WorkerTimeout
from podium.types import Outcome, Plan, Problem, Proposal, Result, Round, Step
from podium.usage import Usage


def _outcome(step: int, worker: str = "w", **values: object) -> Outcome:
    made = {"round": 1, "step": step, "worker": worker, "status": "ok", "attempts": 1}
    return Outcome(**{**made, "started": 0.5, "ended": 2.0, **values})  # type: ignore[arg-type]


def _result(*outcomes: Outcome, proposals: tuple[Proposal, ...] = (), **values: object) -> Result:
    plan = Plan(tuple(Step(0, f"do {i}", tuple(range(i))) for i in range(len(outcomes))))
    rounds = (Round(number=1, plan=plan, outcomes=outcomes, proposals=proposals),)
    return Result(**{"run_id": "r", "answer": "a", "status": "ok", "rounds": rounds, **values})  # type: ignore[arg-type]


def test_a_check_is_counted() -> None:
    """What a judge cost is in the total, under its name."""
    plan = Plan((Step(0, "go"),))
    check = _outcome(1, "judge", usage=Usage(5, 5), cost=0.5)
    current = Round(number=1, plan=plan, outcomes=(_outcome(0, cost=0.25),), check=check)
    result = Result(run_id="r", answer="a", status="ok", rounds=(current,))
    assert result.cost == 0.75
    assert result.usage_by_worker["judge"] == Usage(5, 5)
    assert [outcome.worker for outcome in result.outcomes] == ["w", "judge"]


def test_the_account_names_every_step_and_what_it_sees() -> None:
    """One line per decision, in words."""
    problem = Problem.of(WorkerTimeout("too slow"))
    failed = _outcome(2, "v", status="failed", problem=problem)
    lines = (
        _result(_outcome(0), _outcome(1), failed, status="partial", problem=problem).explain().splitlines()
    )
    assert lines[0].startswith("Run r: answered in part (worker_timeout: too slow)")
    assert "  Step 1, w, seeing 0: ok; 0.50 to 2.00 s, 0 tokens, $0." in lines
    assert any("Step 2, v, seeing 0, 1: failed (worker_timeout: too slow)" in line for line in lines)
