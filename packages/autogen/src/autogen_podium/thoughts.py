"""Write the `thought` of a result: the plan, and the thought of the model that wrote the answer."""

from collections.abc import AsyncGenerator
from dataclasses import replace

from autogen_podium.workers.model import ModelWorker
from podium.hosts import answer_sources, lack_of, plan_lines
from podium.types import Completion, Result
from podium.workers import Request, Worker


class Thoughts:
    """Collects the thoughts of the models of one run."""

    def __init__(self) -> None:
        self._heard: dict[tuple[str, int, int, int], str] = {}
        """The thoughts by run, round, step and attempt."""

    def middleware(self, worker: Worker, request: Request) -> AsyncGenerator[str | Completion, None]:
        """Call a worker, and store the thought of its model."""
        caller = request.caller
        if caller is None or not isinstance(worker, ModelWorker):
            return worker.call(request)
        key = (caller.run_id, caller.round, caller.step, caller.attempt)
        return worker.call_listened(request, lambda thought: self._heard.update({key: thought}))

    def thought_of(self, result: Result, *, has_plan: bool) -> str | None:
        """Return the thought of a result; `None` if there is none.

        Args:
            result: the run's result.
            has_plan: whether the plan is part of the thought. The thought of an incomplete answer always has
                the plan and the missing parts.
        """
        lines = _plan_lines(result) if has_plan or result.status == "partial" else []
        if result.status == "partial" and result.problem is not None:
            lines.append(lack_of(result.problem))
        for source in answer_sources(result)[-1:]:
            key = (result.run_id, source.round, source.step, source.attempts)
            lines += [self._heard[key]] if key in self._heard else []
        return "\n".join(lines) or None


def _plan_lines(result: Result) -> list[str]:
    """Return lines for the last plan: the steps, the inputs that they were shown, and their failures."""
    current = next((current for current in reversed(result.rounds) if current.plan is not None), None)
    if current is None or current.plan is None:
        return []
    ended = current.outcomes[: len(current.plan.steps)]
    shown = [
        step if outcome.shown is None else replace(step, access=outcome.shown, enough=None)
        for step, outcome in zip(current.plan.steps, ended, strict=False)
    ]
    steps = (*shown, *current.plan.steps[len(shown) :])
    lines = plan_lines(replace(current.plan, steps=steps), result.workers)
    for index, outcome in enumerate(ended):
        if outcome.status != "ok" and outcome.problem is not None:
            lines[index] += f" ({outcome.status}: {outcome.problem.message})"
    return lines
