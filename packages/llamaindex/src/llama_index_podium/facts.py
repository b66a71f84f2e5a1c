"""What a run came to, as metadata, which is plain JSON, or as an error. It knows no LlamaIndex."""

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from podium.errors import RunFailed
from podium.secrets import scrub_data
from podium.types import Outcome, Plan, Result
from podium.usage import Usage


def facts_of(result: Result) -> dict[str, Any]:
    """Return a run's id, status, plan, usage and cost, and what each of its steps wrote and came to."""
    plans = {current.number: current.plan for current in result.rounds}
    told: dict[str, Any] = scrub_data(
        {
            "run_id": result.run_id,
            "status": result.status,
            "problem": None if result.problem is None else asdict(result.problem),
            "plan": plan_of(result.plans[-1]) if result.plans else None,
            "workers": list(result.workers),
            "steps": [_step(outcome, plans[outcome.round]) for outcome in result.outcomes],
            "usage": counts_of(result.usage),
            "cost": result.cost,
            "seconds": result.seconds,
        }
    )
    return told


def plan_of(plan: Plan) -> dict[str, Any]:
    """Return a plan as JSON, without the query."""
    return replace(plan, query=()).to_json()


def counts_of(usage: Usage) -> dict[str, Any]:
    """Return usage under the names that OpenAI's clients, and LlamaIndex's counters, read."""
    read = usage.input_tokens + usage.orchestration_input_tokens
    written = usage.output_tokens + usage.orchestration_output_tokens
    counts = {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}
    return {**counts, "cached_tokens": usage.cached_tokens, "estimated": usage.estimated}


def answered(result: Result) -> Result:
    """Return a result that holds an answer, if in part.

    Raises:
        RunFailed: it does not; `result` is what the run came to.
    """
    problem = result.problem
    told = f" ({problem.code}: {problem.message})" if problem is not None else ""
    if result.status == "failed":
        raise failed(f"the run came to no answer{told}", result)
    if result.status == "waiting":
        raise failed(f"run {result.run_id} waits for its plan to be approved: decide, then resume it", result)
    return result


def failed(told: str, result: Result) -> RunFailed:
    """Return what is raised for a result that is no answer."""
    error = RunFailed(told)
    error.result = result
    return error


class Sent:
    """What of an answer was sent on; a step that is tried again goes on from there, if it writes the same."""

    def __init__(self) -> None:
        self.text = ""
        self._again: str | None = None
        """What the attempt at hand has written, where another wrote what was sent."""
        self._attempt: object = None

    def more(self, text: str, attempt: object) -> str:
        """Return what of a piece is new; nothing, once it contradicts what was sent.

        Args:
            text: the piece.
            attempt: what tells the call that wrote it from others.
        """
        if self._attempt not in (None, attempt):
            self._again = ""
        self._attempt = attempt
        if self._again is None:
            self.text += text
            return text
        self._again += text
        if not self._again.startswith(self.text):
            return ""
        new, self.text, self._again = self._again[len(self.text) :], self._again, None
        return new

    def rest(self, result: Result) -> str:
        """Return what of the answer was not sent yet.

        Raises:
            RunFailed: it is another than what was sent.
        """
        if not result.answer.startswith(self.text):
            raise failed("the answer is another than what was streamed of it: see the result", result)
        return result.answer[len(self.text) :]


def _step(outcome: Outcome, plan: Plan | None) -> Mapping[str, Any]:
    step = plan.steps[outcome.step] if plan is not None and outcome.step < len(plan.steps) else None
    return {
        "round": outcome.round,
        "step": outcome.step,
        "worker": outcome.worker,
        "subtask": "" if step is None else step.subtask,
        "access": [] if step is None else list(step.access),
        "status": outcome.status,
        "output": outcome.text,
        "problem": None if outcome.problem is None else asdict(outcome.problem),
        "usage": counts_of(outcome.usage),
        "cost": outcome.cost,
        "seconds": outcome.seconds,
        "attempts": outcome.attempts,
        "reused": outcome.reused,
    }
