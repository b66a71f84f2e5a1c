"""The budget of a batch: reserves the cost limits of its runs, and counts what they cost."""

import anyio

from podium_server.keys import BudgetSpent

_ROUNDING = 1e-9


class Budget:
    """Reserves the cost limit of each run before it begins, and waits while running runs reserve too much.

    Args:
        most: the budget in USD; `None` for no budget.
    """

    def __init__(self, most: float | None) -> None:
        self.most = most
        self.spent = 0.0
        """The cost of all runs of the batch so far, in USD."""
        self.unknown = 0
        """The number of runs of unknown cost."""
        self._reserved = 0.0
        self._earlier: dict[str, float] = {}
        """What runs that are continued had cost before, by their ids."""
        self._changed = anyio.Event()

    @property
    def left(self) -> float | None:
        """What is left, in USD; `None` without a budget."""
        return None if self.most is None else max(self.most - self.spent, 0.0)

    def charge(self, cost: float | None) -> None:
        """Count the cost of a run that has ended; `None` if it is unknown."""
        if cost is None:
            self.unknown += 1
        else:
            self.spent += cost

    def charge_so_far(self, run_id: str, cost: float) -> None:
        """Count what a run has cost that an earlier command began, and that this command may continue."""
        self._earlier[run_id] = cost
        self.spent += cost

    async def reserve(self, run_id: str, limit: float) -> None:
        """Reserve the cost limit of a run, which includes what the run has cost before.

        Raises:
            BudgetSpent: the run does not fit what is left of the budget.
        """
        before = self._earlier.get(run_id, 0.0)
        if self.most is not None:
            while self.spent - before + self._reserved + limit > self.most + _ROUNDING:
                if not self._reserved:
                    left = f"${self.left:.6g} of the budget is left"
                    told = f"the run may cost ${limit:g}, and {left}: raise --budget, and repeat the command"
                    raise BudgetSpent(told, 0.0)
                await self._changed.wait()
        self._earlier.pop(run_id, None)
        self.spent -= before
        self._reserved += limit

    def settle(self, limit: float, cost: float | None) -> None:
        """Replace the reservation of a run by its cost.

        Args:
            limit: what was reserved.
            cost: what the run has cost; `None` if it is unknown, so that its limit is charged.
        """
        self._reserved -= limit
        if self._reserved < _ROUNDING:
            self._reserved = 0.0
        self.charge(limit or None if cost is None else cost)
        self._changed.set()
        self._changed = anyio.Event()
