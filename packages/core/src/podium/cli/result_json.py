"""Formats results as JSON data and as lines of text."""

from collections import Counter
from dataclasses import asdict
from typing import Any

from podium.cli.numbers import duration, money
from podium.config.toml_names import in_toml
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
    """Return a result as JSON data."""
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
        "actions": [asdict(action) for action in result.actions],
        "usage": asdict(result.usage),
        "estimated_usage": asdict(result.estimated_usage),
        "usage_by_worker": {name: asdict(usage) for name, usage in result.usage_by_worker.items()},
        "cost": result.cost,
        "cost_by_worker": result.cost_by_worker,
        "maybe_paid": result.maybe_paid,
        "usage_note": result.usage_note,
        "seconds": result.seconds,
        "forecast": _forecast_json(result),
        "tool_calls": [dict(call) for call in result.tool_calls],
        "explain": result.explain(),
    }


def _forecast_json(result: Result) -> dict[str, Any] | None:
    """Return the forecast of the first plan, and whether the run stayed within it, as JSON data."""
    if result.forecast is None:
        return None
    outcomes = result.rounds[0].outcomes if result.rounds else ()
    return {**asdict(result.forecast), "within": within(result.forecast, outcomes) if outcomes else None}


def step_outputs(result: Result) -> list[str]:
    """Return the output of each step that has text, under a line that names the step."""
    several = len(result.plans) > 1
    texts = []
    for outcome in result.outcomes:
        if outcome.text:
            place = f"round {outcome.round}, step {outcome.step}" if several else f"step {outcome.step}"
            texts.append(f"--- {place} ({outcome.worker}): {outcome.status} ---\n{outcome.text}")
    return texts


def status_line(result: Result) -> str:
    """Return one line with the run's status, steps, tokens, cost and time."""
    about = "about " if result.usage.estimated else ""
    cost = "cost unknown" if result.cost is None else money(result.cost)
    facts = [*_steps(result), f"{about}{result.usage.total_tokens:,} tokens", cost, duration(result.seconds)]
    return f"{_ENDS[result.status]}{_answered_by(result)}: {', '.join(facts)}"


def charge_line(result: Result) -> str:
    """Return why the cost may differ from what is billed; empty if it does not."""
    unsure = "part of the cost may not be billed" if result.maybe_paid else ""
    return ": ".join(filter(None, [unsure, result.usage_note]))


def problem_line(result: Result) -> str:
    """Return the code and the message of the run's problem; empty if there is none or the run waits."""
    if result.problem is None or result.status == "waiting":
        return ""
    return f"{result.problem.code}: {in_toml(result.problem.message)}"


def _answered_by(result: Result) -> str:
    """Return ` by ` and the worker that wrote the answer; empty if there is no answer or no such step."""
    for current in reversed(result.rounds):
        steps = steps_of(current)
        if result.answer and steps and steps[-1].text == result.answer:
            return f" by {steps[-1].worker}"
    return ""


def _steps(result: Result) -> list[str]:
    """Return the number of steps per status, and the planner."""
    steps = [outcome for current in result.rounds for outcome in steps_of(current)]
    if result.status == "waiting":  # the steps that have not begun are recorded as cancelled
        steps = [outcome for outcome in steps if outcome.started is not None]
    ends = Counter(outcome.status for outcome in steps)
    facts = [
        f"{ends[status]} {status}" for status in ("ok", "failed", "skipped", "cancelled") if ends[status]
    ]
    if facts:
        first, _, end = facts[0].partition(" ")
        facts[0] = f"{first} step{'' if first == '1' else 's'} {end}"
    if result.rounds and result.planner is not None:
        fallback = ", the fallback" if result.planner.is_fallback else ""
        facts.append(f"planned by {result.planner.name}{fallback}")
    return facts
