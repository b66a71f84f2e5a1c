"""Bills calls of steps that a host has stored, each once."""

from podium.budget.spend import Spend
from podium.execution.run_context import RunContext
from podium.types.outcome import Call, Outcome, total_cost
from podium.usage import Usage


class StoredCalls:
    """The stored calls of one round's steps.

    Args:
        context: the run's.
        number: the round's number, from 1.
    """

    def __init__(self, context: RunContext, number: int) -> None:
        self._context = context
        self._number = number
        self._repeated: dict[int, tuple[Call, ...]] = {}
        """By step, the calls that the run's record lacks, where the step runs again."""

    def charge(self, index: int, outcome: Outcome) -> tuple[Call, ...]:
        """Charge and return those calls of a stored outcome that are not charged yet."""
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
            usage, cost = Usage.total(call.usage for call in calls), total_cost(call.cost for call in calls)
            self._context.ledger.charge(Spend.of(usage, cost, calls=len(calls)), steps=1)
        return calls

    def repeat(self, index: int, outcome: Outcome) -> None:
        """Charge a stored outcome of a step that runs again, and keep its calls for the step's bill."""
        self._repeated[index] = (*self._repeated.get(index, ()), *self.charge(index, outcome))

    def lost(self, index: int) -> tuple[Call, ...]:
        """Return, once, the calls that were made for a step before, stored or recorded, to no end."""
        repeated, paid_results = self._repeated.pop(index, ()), self._context.paid_results
        lost = () if paid_results is None else paid_results.lost.pop((self._number, index), ())
        return (*repeated, *lost)
