"""The steps of a round for somebody else to start: a graph of another framework, say.

Who does what, what it is shown and what it may spend stays the run's business; only when a
step starts is the host's. It knows no framework.
"""

from collections.abc import Awaitable, Callable, Mapping

from podium.errors import ConfigError
from podium.execution.run_context import OnFailure, RunContext
from podium.execution.scheduler import RoundScheduler
from podium.types.outcome import Outcome
from podium.types.plan import Plan

_NONE: Mapping[int, Outcome] = {}


class ExternalScheduler:
    """The steps of one round's plan.

    Attributes:
        run_id: the run's id.
        round: the round's number, from 1.
        plan: what is to be carried out.
        workers: the names of the pool's workers, in its order.
        on_failure: what becomes of the steps that are shown one that failed.
    """

    def __init__(self, context: RunContext, number: int, plan: Plan, execution: RoundScheduler) -> None:
        self.run_id = context.run_id
        self.round = number
        self.plan = plan
        self.workers = context.pool.names
        self.on_failure: OnFailure = context.on_failure
        self._execution = execution

    async def run(self, index: int, known: Mapping[int, Outcome] = _NONE) -> Outcome:
        """Carry a step out, and return what it came to; one that has ended is not called again.

        A step that failed does not raise. One that lacks what it was to be shown is skipped,
        or whatever `on_failure` says.

        Args:
            index: the step, from 0.
            known: outcomes of other steps that the host has kept, as `take` takes them.

        Raises:
            ConfigError: there is no such step, it is under way, or steps that it is shown have not ended.
        """
        for other, outcome in known.items():
            self.take(other, outcome)
        if not 0 <= index < len(self.plan.steps):
            raise ConfigError(f"the plan has no step {index}: its steps are 0 to {len(self.plan.steps) - 1}")
        return await self._execution.carry_out(index)

    def take(self, index: int, outcome: Outcome) -> None:
        """Take what a step came to before; what it cost counts against the run's limits.

        One that has ended here already stays as it is.
        """
        self._execution.take(index, outcome)


StepStarter = Callable[[ExternalScheduler], Awaitable[None]]
"""Starts the steps of a plan, each once those it is shown have ended, and waits for them.

What it raises is what the run raises. Steps it leaves out are stopped. It may put them all off by a
`podium.execution.scheduler.Pause`: the run ends as `waiting`, and goes on from there when it is resumed.
"""
