"""Who is asked for a step, and when: its worker again, or one that stands in for it.

It applies `retry` to what has happened so far, leaves out workers that cool down and those
the policy would not let see the step, and calls nobody.
"""

from dataclasses import dataclass, field
from math import inf, isinf

import anyio

from podium.errors import PodiumError, WorkerError, WorkerUnavailable
from podium.execution.attempt import Attempt
from podium.execution.run_context import RunContext


class RetriesExhausted(Exception):
    """No call is made after one that failed.

    Args:
        error: what that call ended in.
        because: why nobody is asked again, where the error does not say; else empty.
    """

    def __init__(self, error: PodiumError, because: str = "") -> None:
        super().__init__(str(error))
        self.error = error
        self.because = because


@dataclass(slots=True)
class FallbackOrder:
    """The turns of one step."""

    context: RunContext
    round: int
    step: int
    own: int
    """The step's own worker, as its number in the pool, as below."""
    labels: frozenset[str]
    """Those of all that is shown."""
    _order: list[int] = field(default_factory=list)
    """Who may be asked, the next first."""
    _with_stand_ins: bool = False

    def __post_init__(self) -> None:
        self._order.append(self.own)

    @property
    def next(self) -> int:
        """Who is asked next."""
        return self._order[0]

    def rest(self, number: int) -> float:
        """Return the seconds for which a worker is left out; infinite while another call tries it."""
        context = self.context
        breaker = context.settings.pool.breaker(number)
        return breaker.rest(
            context.clock(), context.settings.retry.cool_after, context.settings.retry.cool_seconds
        )

    async def choose(self, deadline: float) -> int:
        """Return who is called now, once that is not left out.

        Args:
            deadline: when the step must have ended, on the event loop's clock.

        Raises:
            WorkerUnavailable: all who could be asked are left out for too long.
        """
        clock, until = self.context.clock, inf
        while rest := self.rest(self.next):
            rested = [number for number in self._listed() if not self.rest(number)]
            if rested:
                self._order.remove(rested[0])
                self._order.insert(0, rested[0])
                break
            soonest = min(self._order, key=self.rest)
            rest = self.rest(soonest)
            until = min(until, clock() + self.context.settings.retry.longest)
            if isinf(rest):
                with anyio.CancelScope(deadline=min(until, deadline)) as scope:
                    await self.context.settings.pool.breaker(soonest).tried()
                if scope.cancelled_caught:
                    raise self._left_out(soonest, "is being tried by another call")
            elif clock() + rest > min(until, deadline):
                raise self._left_out(soonest, f"is left out for another {rest:.3g} s (Retry.cool_seconds)")
            else:
                await anyio.sleep(rest)
        return self.next

    def after(self, attempt: Attempt, made: list[Attempt], deadline: float) -> float:
        """Return the seconds to wait before the next call, after one that failed.

        Args:
            attempt: the latest.
            made: all calls of the step so far.
            deadline: when the step must have ended, on the event loop's clock.

        Raises:
            GivenUp: there is no next one.
        """
        error, retry, number = attempt.error, self.context.settings.retry, attempt.worker
        left = retry.attempts - len(made)
        assert error is not None
        if not isinstance(error, WorkerError) or error.code not in retry.again | retry.elsewhere or left < 1:
            raise RetriesExhausted(error)
        others = [other for other in self._listed() if other != number]
        ready = [other for other in others if not self.rest(other)]
        wait, because = self._wait(attempt, error, made, deadline)
        resting = self.rest(number)
        if not isinf(wait) and left > len(ready) and not (ready and resting):
            self._order = [number, *others]
            return max(wait, resting)
        if not others:
            raise RetriesExhausted(error, because)
        back = [number] if error.code in retry.again else []
        self._order = [*ready, *(other for other in others if other not in ready), *back]
        return 0.0

    def beside(self, number: int) -> int:
        """Return who is given a second call beside a slow one of a worker: a stand-in, or it again."""
        others = (other for other in self._listed() if other != number and not self.rest(other))
        return next(others, number)

    def _wait(
        self, attempt: Attempt, error: WorkerError, made: list[Attempt], deadline: float
    ) -> tuple[float, str]:
        """Return how long the same worker is waited for, and why it is not, if that is infinite."""
        context, retry = self.context, self.context.settings.retry
        failures = sum(call.worker == attempt.worker for call in made)
        seed = f"{context.request.run_id}/{self.round}/{self.step}/{attempt.number}"
        wait = retry.wait_after(error, failures, seed)
        if isinf(wait) and error.code in retry.again:
            return (
                inf,
                f"it asks for {error.retry_after:.3g} s, more than Retry.longest ({retry.longest:g} s)",
            )
        if context.clock() + wait >= deadline:
            return inf, "" if isinf(wait) else "the step's time ends before it could be asked again"
        return wait, ""

    def _listed(self) -> list[int]:
        """Return who may be asked, the stand-ins among them, which are looked for once."""
        if not self._with_stand_ins:
            self._with_stand_ins = True
            context = self.context
            self._order += [
                number
                for number in context.settings.retry.stand_ins_for(self.own, context.settings.pool)
                if context.policy.admits(context.settings.pool.cards[number], self.labels)
            ]
        return self._order

    def _left_out(self, number: int, how: str) -> WorkerUnavailable:
        breaker = self.context.settings.pool.breaker(number)
        name = self.context.settings.pool.names[number]
        return WorkerUnavailable(f"worker {name!r} failed {breaker.failures} times in a row and {how}")
