"""Tools with which an agent asks a conductor."""

from collections.abc import Collection
from uuid import uuid4

from llama_index.core.base.response.schema import Response
from llama_index.core.callbacks import CallbackManager
from llama_index.core.tools.tool_spec.base import BaseToolSpec

from llama_index_podium.conducted import ConductedCall, bound_conductor
from podium.aio import run_sync
from podium.conductor import Conductor
from podium.hosts import Partial
from podium.hosts.results import check_partial, plan_lines
from podium.policy import Policy


class ConductorToolSpec(BaseToolSpec):
    """Two tools: `ask_team` plans and answers a question; `plan_for_team` only returns the plan.

    The raw output of `ask_team` is a `Response`, with the nodes behind the answer and the run's metadata.
    With a journal, a question that is asked again continues its run if that run waits, was interrupted, or
    failed after an action.

    Args:
        conductor: the conductor that plans and runs each question.
        partial: whether an incomplete answer is returned, with a sentence that says so, or raised as
            `RunFailed`.
        labels: labels of each query; see `Conductor.bind`.
        policy: applies in addition to the conductor's policy.
        callback_manager: gets the steps; `None` uses the callback manager of `Settings`.
    """

    spec_functions = [("ask_team", "aask_team"), ("plan_for_team", "aplan_for_team")]  # noqa: RUF012 - as LlamaIndex has it

    def __init__(
        self,
        conductor: Conductor,
        *,
        partial: Partial = "return",
        labels: Collection[str] = (),
        policy: Policy | None = None,
        callback_manager: CallbackManager | None = None,
    ) -> None:
        self.conductor = bound_conductor(conductor, "ConductorToolSpec", labels, policy)
        self.partial: Partial = check_partial(partial)
        self._callbacks = callback_manager or CallbackManager()
        self._session = uuid4().hex

    async def aask_team(self, question: str) -> Response:
        """Have a team of specialists work out a question of several parts; returns the answer."""
        call = ConductedCall(
            self.conductor, self._callbacks, question, partial=self.partial, session=self._session
        )
        return Response((await call.run()).text, call.nodes, call.metadata)

    def ask_team(self, question: str) -> Response:
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
