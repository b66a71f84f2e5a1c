"""Creates the errors and problems of runs without a plan, and of runs with a plan of the fallback planner."""

from collections.abc import Sequence
from itertools import groupby
from typing import get_args

from podium.errors import (
    LimitExceeded,
    PlanError,
    PlanForbidden,
    PlannerError,
    PlannerErrorCode,
    PodiumError,
    WorkerBroken,
    WorkerRefused,
    WorkerTimeout,
    WorkerUnavailable,
)
from podium.types.outcome import Problem, Proposal, Round, spent, total_cost
from podium.types.plan import PlannedBy
from podium.types.result import Result
from podium.usage import Usage

FALLBACK = "planner_fallback"
"""Problem code: the fallback planner wrote a plan."""
CODES: tuple[PlannerErrorCode, ...] = get_args(PlannerErrorCode)


def no_plan(run_id: str, error: PodiumError | None, calls: Sequence[Proposal]) -> PlannerError:
    """Return the error for a round without a plan."""
    return PlannerError(
        f"there is no plan: {_told(calls)}",
        code=_cause(error, calls),
        run_id=run_id,
        calls=calls,
        usage=Usage.total(call.usage for call in calls),
        cost=total_cost(call.cost for call in calls),
    )


def raise_unplanned(result: Result, cause: BaseException | None) -> None:
    """Raise `PlannerError` if a run has no answer because its first round has no plan."""
    problem = result.problem
    is_planned = any(current.plan is not None for current in result.rounds)
    if problem is None or result.status != "failed" or is_planned:
        return
    for code in CODES:
        if code == problem.code:
            error = PlannerError(
                problem.message,
                code=code,
                run_id=result.run_id,
                calls=result.proposals,
                usage=result.usage,
                cost=result.cost,
            )
            error.actions = result.actions
            raise with_bill(error) from cause


def with_bill(error: PlannerError) -> PlannerError:
    """Add the run's id, tokens and cost to the message of an error, and return the error."""
    error.args = (f"run {error.run_id}: {error.args[0]}; the run used {spent(error.usage, error.cost)}",)
    return error


def for_people(problem: Problem) -> str:
    """Return the message of a problem of a planner, without the advice to the planner."""
    return "its text has no plan" if problem.code == "no_plan" else problem.message


def fallback_problem(rounds: Sequence[Round]) -> Problem | None:
    """Return the problem of a run with a plan of the fallback planner; `None` for other runs."""
    for current in rounds:
        if current.planner is not None and current.planner.is_fallback:
            failed = [call for call in current.proposals if call.problem is not None]
            why = _told(failed) if failed else current.planner.why
            told = f"the fallback planner {current.planner.name!r} wrote the plan"
            return Problem(FALLBACK, f"{told}: {why}" if why else told)
    return None


def planned_by(calls: Sequence[Proposal]) -> PlannedBy:
    """Return the planner of the plan that these calls gave."""
    last = calls[-1]
    if last.role != "fallback":
        return PlannedBy(last.planner, last.why)
    return PlannedBy(last.planner, _told(calls), is_fallback=True)


def _cause(error: PodiumError | None, calls: Sequence[Proposal]) -> PlannerErrorCode:
    match error:
        case LimitExceeded():
            return "planner_limit"
        case WorkerRefused():
            return "planner_refused"
        case WorkerUnavailable() | WorkerTimeout() | WorkerBroken():
            return "planner_unreachable"
        case PlanForbidden() if not calls or not calls[-1].asked:
            return "planner_refused"
        case PlanError():
            return "planner_unusable"
        case _:
            return "planner_failed"


def _told(calls: Sequence[Proposal]) -> str:
    """Return the failed planner calls as text; equal consecutive failures are listed once."""
    said = []
    for (planner, problem), group in groupby(calls, key=lambda call: (call.planner, call.problem)):
        if problem is not None:
            times = len(list(group))
            often = f", {times} times" if times > 1 else ""
            said.append(f"planner {planner!r}: {problem.code}{often}: {for_people(problem)}")
    return "; ".join(said)
