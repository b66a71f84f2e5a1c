"""Counts the calls of step outcomes that a host has stored, each once."""

from podium.budget.spend import Spend
from podium.execution.run_context import RunContext
from podium.execution.step_state import STOPPED, StepState
from podium.types.outcome import Call, Outcome, Problem, StepStatus, totals


class StoredCalls:
    """The stored calls of one round's steps.

    Args:
        context: the context of the run.
        number: the round's number, from 1.
    """

    def __init__(self, context: RunContext, number: int) -> None:
        self._context = context
        self._number = number
        self._repeated: dict[int, tuple[Call, ...]] = {}
        """For each step that runs again, the earlier calls that the record of the run does not have."""

    def charge(self, index: int, outcome: Outcome) -> tuple[Call, ...]:
        """Count the calls of a stored outcome that are not counted yet, and return them."""
        if not outcome.attempts:
            return ()
        paid_results = self._context.paid_results
        charged = set() if paid_results is None else paid_results.charged
        known = {call.attempt for call in self._repeated.get(index, ())}
        calls = tuple(
            call
            for call in outcome.calls or (outcome.as_call(),)
            if call.attempt not in known and (self._number, index, call.attempt) not in charged
        )
        if calls:
            bill = totals(calls)
            self._context.ledger.charge(Spend.of(bill["usage"], bill["cost"], calls=len(calls)), steps=1)
        return calls

    def repeat(self, index: int, outcome: Outcome) -> None:
        """Count a stored outcome of a step that runs again, and keep its calls for the step's new outcome."""
        self._repeated[index] = (*self._repeated.get(index, ()), *self.charge(index, outcome))

    def lost(self, index: int) -> tuple[Call, ...]:
        """Remove the earlier calls of a step that gave no result, and return them."""
        repeated, paid_results = self._repeated.pop(index, ()), self._context.paid_results
        lost = () if paid_results is None else paid_results.lost.pop((self._number, index), ())
        return (*repeated, *lost)

    def never_ran(self, state: StepState, problem: Problem, status: StepStatus | None = None) -> Outcome:
        """Return the outcome of a step that did not run, with its earlier calls.

        Args:
            state: the state of the step.
            problem: why the step did not run.
            status: the status; `None` means `skipped`, or `cancelled` if the run was stopped.
        """
        calls = self.lost(state.index)
        return Outcome(
            round=self._number,
            step=state.index,
            worker=self._context.settings.pool.names[state.step.worker],
            status=status or ("cancelled" if problem is STOPPED else "skipped"),
            problem=problem,
            **totals(calls),
            calls=calls,
        )
