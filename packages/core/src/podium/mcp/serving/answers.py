"""Converts results, plans and errors to tool results of MCP."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from podium.errors import PodiumError
from podium.hosts import plan_lines, result_metadata
from podium.secrets import scrub
from podium.types import Plan, Result
from podium.types.forecast import Forecast, explain_forecast


def answer(result: Result) -> dict[str, Any]:
    """Return the result of a run: its answer as text, and its metadata as structured content.

    A run without an answer is an error. For a partial answer, a second text names the missing parts.
    """
    metadata = {**result_metadata(result), "answer": result.answer}
    facts = {name: metadata[name] for name in ("run_id", "status", "problem")}
    whole = {"structuredContent": metadata, "_meta": {"podium": facts}}
    if result.problem is None:
        return {"content": [_text(result.answer)], **whole}
    code, message = result.problem.code, result.problem.message
    if result.status == "partial":
        told = f"The answer is partial ({code}: {message})."
        return {"content": [_text(result.answer), _text(told)], **whole}
    return _error(code, f"run {result.run_id}: {message}", metadata)


def failure(error: PodiumError) -> dict[str, Any]:
    """Return an error as the failure of a tool, with its code."""
    return _error(error.code, str(error), {})


def refusal(code: str, message: str, result: Result) -> dict[str, Any]:
    """Return an error with the metadata of a run that has no answer."""
    return _error(code, message, result_metadata(result))


def plan_answer(plan: Plan, workers: Sequence[str], forecast: Forecast) -> dict[str, Any]:
    """Return a plan as text, and as structured content for `run_plan`.

    Args:
        plan: the plan.
        workers: the names of the pool's workers.
        forecast: the forecast of the plan.
    """
    rows = plan.to_json()
    for row in rows["steps"]:
        row["worker"] = workers[row["worker"]]
    lines = [*plan_lines(plan, workers), explain_forecast(forecast)]
    structured = {"plan": rows, "workers": list(workers), "forecast": asdict(forecast)}
    return {"content": [_text("\n".join(lines))], "structuredContent": structured}


def _error(code: str, message: str, metadata: dict[str, Any]) -> dict[str, Any]:
    clean = scrub(message)
    return {
        "content": [_text(f"{code}: {clean}")],
        "structuredContent": {**metadata, "code": code, "message": clean},
        "isError": True,
    }


def _text(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}
