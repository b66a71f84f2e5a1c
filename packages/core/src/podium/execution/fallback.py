"""Picks the next worker of a step after a failed call: the same worker again, or a fallback.

Workers with an open circuit breaker, and workers that the policy does not allow, are skipped.
"""

from dataclasses import dataclass
from math import inf, isinf

import anyio

from podium.errors import PodiumError, WorkerError, WorkerUnavailable
from podium.execution.attempt import Attempt
from podium.execution.context import RunContext
from podium.execution.graph import StepState


class RetriesExhausted(Exception):
    """A failed call is not retried."""

    def __init__(self, error: PodiumError, because: str = "") -> None:
        super().__init__(str(error))
        self.error = error
        self.because = because


@dataclass(slots=True)
class FallbackOrder:
    """The workers that a step may call, in order."""

    context: RunContext
    round: int
    state: StepState
    _has_fallbacks: bool = False

    def rest(self, number: int) -> float:
        """Return the seconds until a worker may be called; infinite while another step makes a test call."""
        retry, breaker = self.context.settings.retry, self.context.settings.pool.states[number].breaker
        return breaker.rest(self.context.clock(), retry.break_after, retry.break_seconds)

    async def choose(self, deadline: float) -> int:
        """Wait until a circuit breaker allows a call, and return its worker."""
        clock, pool, until = self.context.clock, self.context.settings.pool, inf
        while rest := self.rest(self.state.order[0]):
            rested = [number for number in self._listed() if not self.rest(number)]
            if rested:
                self.state.order.remove(rested[0])
                self.state.order.insert(0, rested[0])
                break
            soonest = min(self.state.order, key=self.rest)
            rest, breaker = self.rest(soonest), pool.states[soonest].breaker
            failed = f"worker {pool.names[soonest]!r} failed {breaker.failures} times in a row"
            failed += " (no connection to its server)" if breaker.is_down else ""
            until = min(until, clock() + self.context.settings.retry.max_wait)
            if isinf(rest):
                with anyio.CancelScope(deadline=min(until, deadline)) as scope:
                    await breaker.tried()
                if scope.cancelled_caught:
                    raise WorkerUnavailable(f"{failed} and another call tests whether it works again")
            elif breaker.is_down or clock() + rest > min(until, deadline):
                told = f"gets no calls for another {rest:.3g} s (Retry.break_seconds)"
                raise WorkerUnavailable(f"{failed} and {told}")
            else:
                await anyio.sleep(rest)
        return self.state.order[0]

    def after(self, attempt: Attempt, deadline: float) -> float:
        """Return the seconds to wait after a failed call before the next call."""
        context, error, number = self.context, attempt.error, attempt.worker
        retry, left = context.settings.retry, context.settings.retry.attempts - len(self.state.calls)
        assert error is not None
        codes = retry.retry_on | retry.fallback_on
        if not isinstance(error, WorkerError) or error.code not in codes or left < 1:
            raise RetriesExhausted(error)
        if context.settings.acts(self.state.step.worker) and attempt.action_end != "not_done":
            raise RetriesExhausted(
                error, "the call may have reached the worker, and actions are not repeated"
            )
        others = [other for other in self._listed() if other != number]
        ready = [other for other in others if not self.rest(other)]
        failures = sum(call.worker == number for call in self.state.calls)
        seed = f"{context.request.run_id}/{self.round}/{self.state.index}/{attempt.number}"
        wait, because = retry.wait_after(error, failures, seed, deadline - context.clock())
        resting = self.rest(number)
        if resting and context.settings.pool.states[number].breaker.is_down:
            wait, because = inf, f"it gets no calls for another {resting:.3g} s (Retry.break_seconds)"
        if not isinf(wait) and left > len(ready) and not (ready and resting):
            self.state.order = [number, *others]
            return max(wait, resting)
        if not others:
            raise RetriesExhausted(error, because)
        back = [number] if error.code in retry.retry_on else []
        self.state.order = [*ready, *(other for other in others if other not in ready), *back]
        return 0.0

    def _listed(self) -> list[int]:
        """Return the workers that may be called, including fallbacks."""
        if not self._has_fallbacks:
            self._has_fallbacks = True
            settings, policy = self.context.settings, self.context.policy
            for number in settings.retry.fallbacks_of(self.state.step.worker, settings.pool):
                if policy.admits(settings.pool.cards[number], self.state.labels):
                    self.state.order.append(number)
        return self.state.order
