"""Implements `ExternalScheduler`, with which a host starts the steps of a round."""

from collections.abc import Mapping

from podium.errors import ConfigError
from podium.execution.external_scheduler import NO_OUTCOMES, ExternalScheduler
from podium.execution.run_context import RunContext
from podium.execution.scheduler import RoundScheduler
from podium.types.outcome import Outcome
from podium.types.plan import Plan


class ExternalRound(ExternalScheduler):
    """A round whose steps a host starts."""

    def __init__(self, context: RunContext, number: int, plan: Plan, scheduler: RoundScheduler) -> None:
        self.run_id = context.request.run_id
        self.round = number
        self.plan = plan
        self.workers = context.settings.pool.names
        self._scheduler = scheduler

    async def run(self, index: int, known: Mapping[int, Outcome] = NO_OUTCOMES) -> Outcome:
        """Run a step and return its outcome."""
        for other, outcome in known.items():
            self.take(other, outcome)
        if not 0 <= index < len(self.plan.steps):
            raise ConfigError(f"the plan has no step {index}; its steps are 0 to {len(self.plan.steps) - 1}")
        return await self._scheduler.run_one(index)

    def take(self, index: int, outcome: Outcome) -> None:
        """Reuse the stored outcome of a step."""
        self._scheduler.take(index, outcome)

    def charge(self, index: int, outcome: Outcome) -> None:
        """Count the spending of a stored attempt of a step."""
        self._scheduler.charge(index, outcome)
