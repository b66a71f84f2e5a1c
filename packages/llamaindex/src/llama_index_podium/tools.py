"""Tools with which an agent asks a conductor."""

from llama_index.core.callbacks import CallbackManager
from llama_index.core.tools.tool_spec.base import BaseToolSpec

from llama_index_podium.tracing import Steps
from podium.aio import run_sync
from podium.conductor import Conductor
from podium.hosts import answered, plan_lines, whole_answers


class ConductorToolSpec(BaseToolSpec):
    """Two tools: `ask_team` has a question planned and answered; `plan_for_team` only shows the plan.

    Args:
        conductor: who is asked.
        callback_manager: who is told of steps; `None` takes that of `Settings`.
    """

    spec_functions = [("ask_team", "aask_team"), ("plan_for_team", "aplan_for_team")]  # noqa: RUF012 - as LlamaIndex has it

    def __init__(self, conductor: Conductor, *, callback_manager: CallbackManager | None = None) -> None:
        self.conductor = conductor
        self._callbacks = callback_manager or CallbackManager()

    async def aask_team(self, question: str) -> str:
        """Have a team of specialists work out a question of several parts; returns the answer."""
        steps = Steps(self._callbacks)
        middleware = whole_answers(steps.middleware)
        run = self.conductor.run(question, middleware=middleware, on_event=steps.tell)
        result = answered(await run)
        lacks = "" if result.problem is None else f"\n\n(Not complete: {result.problem.message})"
        return result.answer + lacks

    def ask_team(self, question: str) -> str:
        """Have a team of specialists work out a question of several parts; returns the answer."""
        return run_sync(lambda: self.aask_team(question))

    async def aplan_for_team(self, question: str) -> str:
        """Show how the team of specialists would go about a question, without doing it."""
        plan = await self.conductor.plan(question)
        lines = plan_lines(plan, self.conductor.pool.names)
        if plan.planner is not None and plan.planner.is_fallback:
            lines.append(f"(Written by the fallback planner {plan.planner.name!r}: {plan.planner.why})")
        return "\n".join(lines)

    def plan_for_team(self, question: str) -> str:
        """Show how the team of specialists would go about a question, without doing it."""
        return run_sync(lambda: self.aplan_for_team(question))
