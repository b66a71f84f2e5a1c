"""What is said of a run that has no plan, and of one that the fallback planner planned."""

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
from podium.types.explain import spent
from podium.types.outcome import Problem, Proposal, Round, total_cost
from podium.types.plan import PlannedBy
from podium.types.result import Result
from podium.usage import Usage

FALLBACK = "planner_fallback"
"""Code of the problem that the fallback planner wrote a plan."""
CODES: tuple[PlannerErrorCode, ...] = get_args(PlannerErrorCode)


def no_plan(run_id: str, error: PodiumError | None, calls: Sequence[Proposal]) -> PlannerError:
    """Return the error for a round that nobody planned.

    Args:
        run_id: the run's id.
        error: how the last call of the conductor's own planner ended.
        calls: the calls that were made.
    """
    return PlannerError(
        f"there is no plan: {_told(calls)}",
        code=_cause(error, calls),
        run_id=run_id,
        calls=calls,
        usage=Usage.total(call.usage for call in calls),
        cost=total_cost(call.cost for call in calls),
    )


def raise_unplanned(result: Result, cause: BaseException | None) -> None:
    """Raise `PlannerError` if a run has no answer because nobody planned its first round.

    Args:
        result: the result of the run.
        cause: the error of the planner, where it is known.
    """
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
            raise with_bill(error) from cause


def with_bill(error: PlannerError) -> PlannerError:
    """Return the error as it leaves the run: its message names the run and what it used."""
    error.args = (f"run {error.run_id}: {error}; the run used {spent(error.usage, error.cost)}",)
    return error


def fallback_problem(rounds: Sequence[Round]) -> Problem | None:
    """Return the problem of a run of which the fallback planner planned a round; `None` for any other run."""
    for current in rounds:
        if current.planner is not None and current.planner.is_fallback:
            failed = [call for call in current.proposals if call.problem is not None]
            why = _told(failed) if failed else current.planner.why
            told = f"the fallback planner {current.planner.name!r} wrote the plan"
            return Problem(FALLBACK, f"{told}: {why}" if why else told)
    return None


def planned_by(calls: Sequence[Proposal]) -> PlannedBy:
    """Return who wrote the plan of these calls, as the plan itself says it: without the calls."""
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
    """Say which planners were called, and what was wrong; equal failures in a row are told once."""
    said = []
    for (planner, problem), group in groupby(calls, key=lambda call: (call.planner, call.problem)):
        if problem is not None:
            times = len(list(group))
            often = f", {times} times" if times > 1 else ""
            said.append(f"planner {planner!r}: {problem.code}{often}: {problem.message}")
    return "; ".join(said)
