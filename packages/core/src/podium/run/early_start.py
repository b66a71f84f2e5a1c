"""Which steps start while the rest of their plan is still being written."""

from collections.abc import Callable

from podium.errors import PodiumError
from podium.execution.run_context import RunContext
from podium.prompts.subtask import check_names
from podium.types.plan import Plan, Step


class EarlyStart:
    """Passes the steps of a plan text on as they are read, as far as they may start.

    The steps arrive one by one. Each is checked and changed by the policy as it will be in the
    whole plan. Where the run's caller gave tools or sampling, which apply to the plan's last step
    alone, a step is held back until the next one arrives.

    Args:
        context: the run's.
        start: starts a step, whose worker is a number of the pool.
    """

    def __init__(self, context: RunContext, start: Callable[[Step], None]) -> None:
        self._context = context
        self._start = start
        self._read: tuple[Step, ...] = ()
        self._started = 0
        policy = context.policy
        self._stopped = bool(policy.approvers) or policy.needs_whole_plan

    def add(self, step: Step) -> None:
        """Take the next step; once the policy forbids a step, neither it nor a later step is started."""
        if self._stopped:
            return
        self._read = (*self._read, step)
        try:
            plan = self._checked()
        except PodiumError:  # the whole plan is checked as well, and raises this for the planner to see
            self._stopped = True
            return
        held_back = int(self._context.last_step_differs)
        for ready in plan.steps[self._started : len(plan.steps) - held_back]:
            self._started += 1
            self._start(ready)

    def _checked(self) -> Plan:
        """Return the plan so far, as the policy lets it pass; the policy decides step by step."""
        context = self._context  # of the first round, in which no step is shown a round before
        check_names(self._read[-1].subtask, context.request.context)
        return context.policy.check(Plan(self._read), context.settings.pool.cards, context.labels)
