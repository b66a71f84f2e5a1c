"""The budget of a batch: admits its runs, and counts what they cost."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import anyio

from podium.conductor import Conductor
from podium.journal import Journal
from podium.run import RunOptions
from podium.types import Result
from podium_server.keys import Admission, Ask, BudgetSpent, Caller, NoKeys
from podium_server.keys.recorded import recorded_run

_ROUNDING = 1e-9


@dataclass(slots=True)
class RunAdmission(Admission):
    """The admission of one run."""

    options: RunOptions
    headers: Mapping[str, str] = field(default_factory=dict)
    result: Result | None = None

    def settle(self, result: Result) -> None:
        """Keep the result, whose cost is charged at the end."""
        self.result = result


class Budget(NoKeys):
    """Reserves the cost limit of each run before it begins, and waits while running runs reserve too much.

    Args:
        most: the budget in USD; `None` for no budget.
        run_cost: replaces the cost limit of each run, in USD; `None` keeps the limits of the models.
        journal: has the costs of runs that ended without a result.
    """

    def __init__(self, most: float | None, run_cost: float | None, journal: Journal) -> None:
        self.most = most
        self.spent = 0.0
        """The cost of all runs of the batch so far, in USD."""
        self.unknown = 0
        """The number of runs of unknown cost."""
        self._run_cost = run_cost
        self._journal = journal
        self._reserved = 0.0
        self._earlier: dict[str, float] = {}
        """What runs that are continued had cost before, by their ids."""
        self._ended: set[str] = set()
        """Runs whose recorded results are returned; they are charged already."""
        self._results: dict[str, Result] = {}
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

    def charge_recorded(self, run_id: str, cost: float | None, *, is_continued: bool) -> None:
        """Count the cost of a recorded run of an earlier command.

        Args:
            run_id: its id.
            cost: its cost; `None` if it is unknown.
            is_continued: whether the run is continued; otherwise its recorded result is returned.
        """
        if not is_continued:
            self._ended.add(run_id)
            self.charge(cost)
        elif cost is not None:
            self._earlier[run_id] = cost
            self.spent += cost

    def result(self, run_id: str) -> Result | None:
        """Return the result of a run that has ended, once; `None` if it has none."""
        return self._results.pop(run_id, None)

    @asynccontextmanager
    async def admit(self, caller: Caller, ask: Ask) -> AsyncGenerator[Admission, None]:
        """Reserve the cost limit of a run.

        Raises:
            BudgetSpent: the run does not fit what is left of the budget.
        """
        del caller
        options, conductor = RunOptions(), ask.conductor
        assert isinstance(conductor, Conductor)  # a hosted conductor has no journal
        limit = conductor.limits.cost
        if self._run_cost is not None:
            limit = self._run_cost
            options["limits"] = replace(conductor.limits, cost=limit)
        if ask.run_id in self._ended:
            yield RunAdmission(options)
            return
        reserved = limit or 0.0
        await self._reserve(ask.run_id, reserved)
        admission = RunAdmission(options)
        try:
            yield admission
        except Exception:
            await self._end(ask.run_id, admission, reserved)
            raise
        await self._end(ask.run_id, admission, reserved)

    async def _reserve(self, run_id: str, limit: float) -> None:
        before = self._earlier.get(run_id, 0.0)  # the limit of the run includes it
        if self.most is not None:
            while self.spent - before + self._reserved + limit > self.most + _ROUNDING:
                if not self._reserved:
                    left = f"${self.left:.4f} of the budget is left"
                    told = f"the run may cost ${limit:g}, and {left}: raise --budget, and repeat the command"
                    raise BudgetSpent(told, 0.0)
                await self._changed.wait()
        self._earlier.pop(run_id, None)
        self.spent -= before
        self._reserved += limit

    async def _end(self, run_id: str, admission: RunAdmission, limit: float) -> None:
        """Replace the reservation of a run by its cost."""
        result = admission.result
        if result is None:
            recorded = await recorded_run(self._journal, run_id)
            result = None if recorded is None else recorded.result
        self._reserved -= limit
        if self._reserved < _ROUNDING:
            self._reserved = 0.0
        if result is not None:
            self._results[run_id] = result
            self.charge(limit or None if result.cost is None else result.cost)
        self._changed.set()
        self._changed = anyio.Event()
