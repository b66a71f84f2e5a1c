"""Picks the next worker of a step after a failed call: the same worker again, or a fallback.

Workers with an open circuit breaker, and workers that the policy does not allow, are skipped.
"""

from dataclasses import dataclass, field
from math import inf, isinf

import anyio

from podium.errors import PodiumError, WorkerError, WorkerUnavailable
from podium.execution.attempt import Attempt
from podium.execution.context import RunContext


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
    step: int
    own: int
    """The number of the step's worker in the pool."""
    labels: frozenset[str]
    """The labels of all data that the step sees."""
    _order: list[int] = field(default_factory=list)
    """Numbers of the workers that may be called; the next worker is first."""
    _has_fallbacks: bool = False

    def __post_init__(self) -> None:
        self._order.append(self.own)

    @property
    def next(self) -> int:
        """The number of the worker that is called next."""
        return self._order[0]

    def rest(self, number: int) -> float:
        """Return the seconds until a worker may be called; infinite while another step makes a test call."""
        context = self.context
        breaker = context.settings.pool.breaker(number)
        return breaker.rest(
            context.clock(), context.settings.retry.break_after, context.settings.retry.break_seconds
        )

    async def choose(self, deadline: float) -> int:
        """Wait until a circuit breaker allows a call, and return its worker."""
        clock, until = self.context.clock, inf
        while rest := self.rest(self.next):
            rested = [number for number in self._listed() if not self.rest(number)]
            if rested:
                self._order.remove(rested[0])
                self._order.insert(0, rested[0])
                break
            soonest = min(self._order, key=self.rest)
            rest = self.rest(soonest)
            until = min(until, clock() + self.context.settings.retry.max_wait)
            if isinf(rest):
                with anyio.CancelScope(deadline=min(until, deadline)) as scope:
                    await self.context.settings.pool.breaker(soonest).tried()
                if scope.cancelled_caught:
                    raise self._left_out(soonest, "another call tests whether it works again")
            elif self._is_down(soonest) or clock() + rest > min(until, deadline):
                raise self._left_out(soonest, f"gets no calls for another {rest:.3g} s (Retry.break_seconds)")
            else:
                await anyio.sleep(rest)
        return self.next

    def after(self, attempt: Attempt, made: list[Attempt], deadline: float) -> float:
        """Return the seconds to wait after a failed call before the next call."""
        error, retry, number = attempt.error, self.context.settings.retry, attempt.worker
        left = retry.attempts - len(made)
        assert error is not None
        if (
            not isinstance(error, WorkerError)
            or error.code not in retry.retry_on | retry.fallback_on
            or left < 1
        ):
            raise RetriesExhausted(error)
        if self.context.settings.acts(self.own) and attempt.action_end != "not_done":
            raise RetriesExhausted(
                error, "the call may have reached the worker, and actions are not repeated"
            )
        others = [other for other in self._listed() if other != number]
        ready = [other for other in others if not self.rest(other)]
        wait, because = self._wait(attempt, error, made, deadline)
        resting = self.rest(number)
        if resting and self._is_down(number):
            wait, because = inf, f"it gets no calls for another {resting:.3g} s (Retry.break_seconds)"
        if not isinf(wait) and left > len(ready) and not (ready and resting):
            self._order = [number, *others]
            return max(wait, resting)
        if not others:
            raise RetriesExhausted(error, because)
        back = [number] if error.code in retry.retry_on else []
        self._order = [*ready, *(other for other in others if other not in ready), *back]
        return 0.0

    def _wait(
        self, attempt: Attempt, error: WorkerError, made: list[Attempt], deadline: float
    ) -> tuple[float, str]:
        """Return the wait before a retry with the same worker, and the reason if the wait is infinite."""
        context = self.context
        failures = sum(call.worker == attempt.worker for call in made)
        seed = f"{context.request.run_id}/{self.round}/{self.step}/{attempt.number}"
        return context.settings.retry.wait_after(error, failures, seed, deadline - context.clock())

    def _listed(self) -> list[int]:
        """Return the workers that may be called, including fallbacks."""
        if not self._has_fallbacks:
            self._has_fallbacks = True
            context = self.context
            self._order += [
                number
                for number in context.settings.retry.fallbacks_of(self.own, context.settings.pool)
                if context.policy.admits(context.settings.pool.cards[number], self.labels)
            ]
        return self._order

    def _is_down(self, number: int) -> bool:
        """Return whether no connection to a worker could be made, so that a short wait does not help."""
        return self.context.settings.pool.breaker(number).is_down

    def _left_out(self, number: int, how: str) -> WorkerUnavailable:
        breaker = self.context.settings.pool.breaker(number)
        name = self.context.settings.pool.names[number]
        why = " (no connection to its server)" if breaker.is_down else ""
        return WorkerUnavailable(f"worker {name!r} failed {breaker.failures} times in a row{why} and {how}")
