"""Steps that start before their plan is whole, of a plan whose steps a host starts."""

from collections.abc import Iterable

import anyio

from podium.execution.external_scheduler import HostExit
from podium.execution.run_context import RunContext
from podium.execution.step_state import StepState


class EarlySteps:
    """Keeps which steps the run started itself, so that the host waits for them instead of starting them.

    Args:
        context: the run's.
    """

    def __init__(self, context: RunContext) -> None:
        self.is_hosted = context.request.step_starter is not None
        """Whether a host starts the steps."""
        self._workers = context.settings.pool.workers
        self._ends: dict[StepState, anyio.Event] = {}
        self._exits: dict[StepState, HostExit] = {}

    def __contains__(self, state: StepState) -> bool:
        return state in self._ends

    def admit(self, ready: list[StepState], *, is_whole: bool) -> list[StepState]:
        """Return the steps that the run starts itself.

        Args:
            ready: steps that can start.
            is_whole: whether the plan is whole, so that the host starts the rest.
        """
        if not self.is_hosted:
            return ready
        if is_whole:
            return []
        admitted = [state for state in ready if not self._workers[state.step.worker].is_interruptible]
        self._ends |= {state: anyio.Event() for state in admitted}
        return admitted

    def leave_to_host(self, states: Iterable[StepState]) -> None:
        """Leave those of the steps to the host that were admitted and have not begun."""
        for state in states:
            if state.runner is None and state.outcome is None:
                self._ends.pop(state, None)

    def exit(self, state: StepState, left: HostExit) -> None:
        """Keep what a step raised until the host runs the step."""
        self._exits[state] = left

    def ended(self, state: StepState) -> None:
        """Wake the host that waits for a step."""
        if state in self._ends:
            self._ends[state].set()

    async def wait(self, state: StepState) -> None:
        """Wait until a step has ended, if the run has started it.

        Raises:
            HostExit: what the step raised.
        """
        if state in self._ends:
            await self._ends[state].wait()
            del self._ends[state]
            if state in self._exits:
                raise self._exits.pop(state)
