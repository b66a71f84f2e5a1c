"""Results as JSON data and as lines of text. Knows no terminal."""

from dataclasses import asdict
from typing import Any

from podium.types.conclusion import steps_of
from podium.types.forecast import within
from podium.types.result import Result

_ENDS = {
    "ok": "answered",
    "partial": "partial answer",
    "failed": "no answer",
    "waiting": "waiting for approval",
}


def result_json(result: Result) -> dict[str, Any]:
    """Write a result as plain JSON data."""
    return {
        "run_id": result.run_id,
        "status": result.status,
        "answer": result.answer,
        "problem": None if result.problem is None else asdict(result.problem),
        "planner": None if result.planner is None else asdict(result.planner),
        "workers": list(result.workers),
        "plans": [plan.to_json() for plan in result.plans],
        "proposals": [asdict(proposal) for proposal in result.proposals],
        "outcomes": [asdict(outcome) for outcome in result.outcomes],
        "usage": asdict(result.usage),
        "estimated_usage": asdict(result.estimated_usage),
        "usage_by_worker": {name: asdict(usage) for name, usage in result.usage_by_worker.items()},
        "cost": result.cost,
        "cost_by_worker": result.cost_by_worker,
        "seconds": result.seconds,
        "forecast": _forecast_json(result),
        "tool_calls": [dict(call) for call in result.tool_calls],
        "explain": result.explain(),
    }


def _forecast_json(result: Result) -> dict[str, Any] | None:
    """Write the forecast of the first plan, and whether the run stayed within it."""
    if result.forecast is None:
        return None
    outcomes = result.rounds[0].outcomes if result.rounds else ()
    return {**asdict(result.forecast), "within": within(result.forecast, outcomes) if outcomes else None}


def step_outputs(result: Result) -> list[str]:
    """Return the output of each step under a line that names the step; a step without text has none."""
    several = len(result.plans) > 1
    texts = []
    for outcome in result.outcomes:
        if outcome.text:
            place = f"round {outcome.round}, step {outcome.step}" if several else f"step {outcome.step}"
            texts.append(f"--- {place} ({outcome.worker}): {outcome.status} ---\n{outcome.text}")
    return texts


def status_line(result: Result) -> str:
    """Say in one line how the run ended and what it used."""
    told = _ENDS[result.status]
    if result.problem is not None and result.status != "waiting":
        told += f" ({result.problem.code}: {result.problem.message})"
    about = "about " if result.usage.estimated else ""
    cost = "cost unknown" if result.cost is None else f"${result.cost:.4f}"
    return (
        f"{told}{_steps(result)}, {about}{result.usage.total_tokens:,} tokens, {cost}, {result.seconds:.1f} s"
    )


def _steps(result: Result) -> str:
    """Say how many steps were planned, who planned them, and how many were not called."""
    if not result.rounds:
        return ""
    steps = [outcome for current in result.rounds for outcome in steps_of(current)]
    told = f", {len(steps)} step{'' if len(steps) == 1 else 's'}"
    if result.planner is not None:
        told += f" planned by {result.planner.name}" + (
            ", the fallback" if result.planner.is_fallback else ""
        )
    uncalled = sum(not outcome.attempts for outcome in steps)
    return f"{told} ({uncalled} not called)" if uncalled else told
