"""On what terms a conductor works, and what its hosts are told of a run. It knows no framework."""

from collections.abc import Sequence
from typing import Any, TypedDict

from podium.budget import Limits
from podium.errors import RunFailed
from podium.execution import Accept, OnFailure, Retry
from podium.journal import Cache, Journal
from podium.planners import Planner
from podium.policy import Policy
from podium.types import Plan, Result


class Terms(TypedDict, total=False):
    """What may be said of a conductor besides who works and who plans: as `podium.Conductor` takes it."""

    limits: Limits | None
    fallback: Planner | None
    strict: bool
    direct: bool
    accept: Accept | None
    policy: Policy | None
    retry: Retry | None
    on_failure: OnFailure
    cache: Cache | None
    journal: Journal | None
    show_question: bool


def plan_text(plan: Plan, workers: Sequence[str]) -> str:
    """Return a plan in words, a line for each step."""
    lines = []
    for index, step in enumerate(plan.steps):
        sees = f" (sees {', '.join(map(str, step.access))})" if step.access else ""
        lines.append(f"{index}. {workers[step.worker]}{sees}: {step.subtask}")
    return "\n".join(lines)


def facts_of(result: Result) -> dict[str, Any]:
    """Return what hosts are told of a run beside its answer, as plain data, without what the steps wrote."""
    problem = result.problem
    return {
        "run_id": result.run_id,
        "status": result.status,
        "problem": "" if problem is None else problem.code,
        "why": "" if problem is None else problem.message,
        "cost": result.cost,
        "seconds": result.seconds,
        "steps": [
            {
                "round": outcome.round,
                "step": outcome.step,
                "worker": outcome.worker,
                "status": outcome.status,
                "why": "" if outcome.problem is None else outcome.problem.message,
                "input_tokens": outcome.usage.input_tokens + outcome.usage.orchestration_input_tokens,
                "output_tokens": outcome.usage.output_tokens + outcome.usage.orchestration_output_tokens,
                "cost": outcome.cost,
                "seconds": outcome.seconds,
                "attempts": outcome.attempts,
                "reused": outcome.reused,
            }
            for outcome in result.outcomes
        ],
    }


def answered(result: Result) -> Result:
    """Return the result, if it has an answer, be it in part.

    Raises:
        RunFailed: it has none.
    """
    if result.status not in ("failed", "waiting"):
        return result
    problem = result.problem
    why = f" ({problem.code}: {problem.message})" if problem is not None else ""
    told = f"the run came to no answer{why}"
    if result.status == "waiting":
        told = (
            f"run {result.run_id} waits for its plan to be approved, and nobody can wait here: give "
            "Policy(approve=...) a function, or decide and resume it on the podium.Conductor"
        )
    error = RunFailed(told)
    error.result = result
    raise error
