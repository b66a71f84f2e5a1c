"""Starts steps while the planner writes the rest of the plan."""

from collections.abc import Callable
from typing import Final

from podium.budget.spend import NOTHING, Remaining, Spend
from podium.errors import PodiumError
from podium.execution.run_context import RunContext
from podium.execution.step_amounts import CALL, amount_of, expected_step, is_metered
from podium.planners.planner import asked_steps
from podium.prompts.subtask import check_names
from podium.types.plan import Plan, Step

REPAIRED: Final = 5
"""Number of steps of a repaired plan for which early steps leave room."""


class EarlyStart:
    """Starts the steps of a plan text as they are read, if the policy allows.

    The policy checks and changes each step in the same way as in the complete plan. Tools and sampling
    settings of the caller apply only to the last step of the plan. If the caller gave any, a step waits until
    the next step arrives, which shows that it is not the last.

    While the limits have no room for as many steps as the planner is asked for, no step starts early: the
    plan's last step could lack its call. The text may turn out to be unusable, so early steps also leave room
    for another call of the planner and for `REPAIRED` steps of its plan.

    Args:
        context: the context of the run.
        start: starts a step, whose worker is a number of the pool.
    """

    def __init__(self, context: RunContext, start: Callable[[Step], None]) -> None:
        self._context = context
        self._start = start
        self._read: tuple[Step, ...] = ()
        self._started = 0
        self._left: Remaining | None = None
        """What the limits allowed when the first step arrived."""
        self._early: tuple[Spend, ...] = ()
        """The worst cases of the started steps."""
        self.repair = NOTHING
        """The worst case of another call of the planner."""
        policy = context.policy
        most = context.settings.limits.plan_steps
        self._asked = asked_steps(min(most, policy.most_steps or most), len(context.settings.pool))
        self._stopped = policy.asks_plans or policy.needs_whole_plan

    def add(self, step: Step) -> None:
        """Add the next step. If the policy forbids a step, this step and all later steps are not started."""
        if self._stopped:
            return
        self._read = (*self._read, step)
        try:
            plan = self._checked()
        except PodiumError:  # the check of the complete plan raises it again, for the repair
            self._stopped = True
            return
        held_back = int(self._context.last_step_differs)
        while self._started < len(plan.steps) - held_back:
            if not self._has_room(plan, self._started):
                self._stopped = True
                return
            self._started += 1
            self._start(plan.steps[self._started - 1])

    def _has_room(self, plan: Plan, index: int) -> bool:
        """Return whether the limits have room for this step, and for what may follow; if so, count it."""
        context, early = self._context, len(self._early)
        if self._left is None:  # before the first step: steps that start reserve their calls later
            self._left = context.ledger.left
        worst = CALL.worst
        if is_metered(context):
            visible = tuple(expected_step(context, plan, seen) for seen in plan.steps[index].access)
            worst = amount_of(context, plan.steps[index], visible).worst
        self._early = (*self._early, worst)
        whole = max(self._asked, early + 2) - early - 1  # with a last step after this one
        repaired = min(self._asked, REPAIRED)
        return self._fits([worst] * whole, early + 1 + whole) and self._fits(
            [self.repair, *[worst] * repaired], early + 1 + repaired
        )

    def _fits(self, following: list[Spend], steps: int) -> bool:
        """Return whether the limits have room for the early steps, and for these calls after them."""
        left, calls = self._left or Remaining(), [*self._early, *following]
        unpriced = self._context.settings.limits.unpriced or 0.0
        costs = sum(unpriced * call.calls if call.cost is None else call.cost for call in calls)
        needed = (
            (left.steps, steps),
            (left.calls, sum(call.calls for call in calls)),
            (left.input_tokens, sum(call.input_tokens for call in calls)),
            (left.output_tokens, sum(call.output_tokens for call in calls)),
            (left.cost, costs),
        )
        return all(most is None or amount <= most for most, amount in needed)

    def _checked(self) -> Plan:
        """Return the plan so far, checked and changed by the policy."""
        context = self._context  # of the first round, so there is no previous round
        check_names(self._read[-1].subtask, context.request.context)
        return context.policy.check(Plan(self._read), context.settings.pool.cards, context.labels)
