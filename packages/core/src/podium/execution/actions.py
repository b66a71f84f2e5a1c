"""The actions of a round: what each is asked to do, what was done before, and who must approve it."""

from collections.abc import Awaitable, Callable
from dataclasses import replace

from podium.errors import PlanInvalid, PodiumError
from podium.execution.context import RunContext
from podium.execution.graph import StepState
from podium.execution.paid import StoredCalls
from podium.prompts.prompt import step_input
from podium.run_state.action_log import (
    Execution,
    Level,
    action_key,
    again_problem,
    outcome_again,
    plan_hash,
    undecided_problem,
)
from podium.types.outcome import Action, Outcome, Problem
from podium.types.plan import Plan

Approver = Callable[[Action, Plan, frozenset[str]], Awaitable[Problem | None]]
"""Returns why an action of a plan is not carried out; `None` if it is approved. The labels are those of the
data that its worker sees."""


class RoundActions:
    """The actions of one round; the k-th asking for equal actions takes the k-th one that was carried out."""

    def __init__(self, context: RunContext, number: int, stored: StoredCalls) -> None:
        self._context = context
        self._log = context.actions
        self._number = number
        self._stored = stored
        context.actions.new_plan()

    def accept(self, plan: Plan) -> None:
        """Set the plan whose steps ask for the actions."""
        self._log.plan = plan_hash(plan, self._context.settings.pool.names)

    def recall(self, state: StepState) -> Outcome | None:
        """Return the outcome of an action that must not be carried out now; `None` if it must."""
        if state.action is None and (asked := self._asked(state)) is not None:
            state.action, state.key = asked, asked.key
        action, log = state.action, self._log
        if action is None:  # no worker is called
            return None
        if (undecided := log.undecided(action)) is not None:
            state.took = undecided
            ended = self._stored.never_ran(state, undecided_problem(undecided), "failed")
            return replace(ended, action="unknown")
        if (missed := self._not_reached(action)) is not None:
            return missed
        if (execution := log.recorded(action)) is None:
            return None
        log.take(execution)
        state.took = execution.action
        return outcome_again(execution, action)

    def stored(self, state: StepState, outcome: Outcome) -> None:
        """Count the actions of a step whose outcome a host has stored, unless the log has them."""
        log, run_id = self._log, self._context.request.run_id
        log.take_inside(Level(run_id, outcome.round, outcome.step, ""))
        if not state.acts or outcome.action in (None, "not_done"):
            return
        if (action := state.action or self._asked(state)) is None:
            return
        state.action, state.key = action, action.key
        if (execution := log.recorded(action)) is None:
            path, levels = log.path(action.worker), log.levels(action.round, action.step)
            execution = Execution(action, path=path, levels=levels)
            log.begin(execution)
            execution.end(outcome)
        else:
            log.take(execution)

    def _not_reached(self, action: Action) -> Outcome | None:
        """Return the recorded failure of an action that did not reach its worker in an earlier round."""
        paid_results = self._context.paid_results
        place = (action.key, action.round, action.step)
        known = None if paid_results is None else paid_results.position(*place)
        if paid_results is None or known is None or known[0]:
            return None
        return paid_results.take(*place)

    def repeats(self, state: StepState) -> Problem | None:
        """Return the problem of an agent that acted for another plan, too; `None` for other workers."""
        action = state.action
        if action is None or not self._context.settings.pool.workers[state.step.worker].reads_prose:
            return None
        other = self._log.of_another_plan(action)
        return None if other is None else again_problem(other, action.asked)

    def _asked(self, state: StepState) -> Action | None:
        """Return what the action is asked to do; `None` if the input is too long for any worker."""
        context, settings = self._context, self._context.settings
        worker = settings.pool.workers[state.step.worker]
        query = context.request.query if context.shows_question else ()
        most, texts = settings.limits.output_chars, context.request.context
        try:
            shown = step_input(worker, state.step, state.visible or (), query, most_chars=most, texts=texts)
        except PlanInvalid:
            return None
        try:
            asked = worker.asked(shown)
        except PodiumError:  # a fallback may accept the input
            asked = shown.subtask
        return Action(
            run_id=context.request.run_id,
            round=self._number,
            step=state.index,
            worker=worker.card.name,
            asked=asked,
            key=action_key(worker.card.name, asked),
        )
