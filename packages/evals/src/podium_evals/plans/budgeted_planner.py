"""A planner whose calls share one budget."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace

from podium.budget import Spend
from podium.budget.ledger import Ledger, Reservation, charge, charged_by
from podium.errors import LimitExceeded, WorkerError
from podium.planners import Planner, PlanRequest, PlanText
from podium.usage import Usage
from podium_evals.arms.planners import WrappedPlanner


class BudgetedPlanner(WrappedPlanner):
    """Calls another planner if the worst case of the call fits the budget.

    Args:
        planner: the other planner.
        ledger: the budget of all calls.
    """

    def __init__(self, planner: Planner, ledger: Ledger) -> None:
        super().__init__(planner)
        self._ledger = ledger
        self.stopped = ""
        """The limit that was reached; empty if no limit was reached."""

    def shown(self, request: PlanRequest) -> PlanRequest:
        """Return the request. If the budget needs it, the request gets a limit for the length of the text."""
        if request.max_tokens is None and self._ledger.limits_any("cost", "output_tokens"):
            return replace(request, max_tokens=self._ledger.limits.answer_tokens)
        return request

    async def plan(self, request: PlanRequest) -> AsyncGenerator[str | PlanText, None]:
        """Call the other planner.

        Raises:
            LimitExceeded: the call does not fit the budget.
            PodiumError: the other planner gave no plan text.
        """
        reservation = await self._reserve(request)
        spent = charge(reservation.amount, Usage(), None, "reservation")  # as long as its end is unknown
        try:
            async with aclosing(super().plan(request)) as pieces:
                async for piece in pieces:
                    if isinstance(piece, PlanText):
                        spent = charge(reservation.amount, piece.usage, piece.cost, charged_by(piece.usage))
                    yield piece
        except WorkerError as error:
            if error.usage is not None or not error.maybe_paid:
                usage = error.usage or Usage()
                cost = error.cost if error.usage is not None else 0.0
                spent = charge(reservation.amount, usage, cost, charged_by(usage))
            raise
        finally:
            self._ledger.settle(reservation, spent)

    async def _reserve(self, request: PlanRequest) -> Reservation:
        worst: Spend = self.worst_case(request, self._ledger.limits.answer_tokens)
        while True:
            try:
                return self._ledger.reserve(worst)
            except LimitExceeded as limit:
                if not await self._ledger.freed():
                    self.stopped = str(limit)
                    raise
