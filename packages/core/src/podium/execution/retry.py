"""The settings of retries and fallbacks.

`step` makes the calls, and `fallback` picks the next worker.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, isinf
from random import Random
from types import MappingProxyType
from typing import Literal

from podium.budget.limits import check_numbers
from podium.errors import (
    AgentFailed,
    AgentRejected,
    AnswerCut,
    AnswerEmpty,
    AnswerNotUtf8,
    AnswerRefused,
    AnswerToolCalls,
    AnswerTooLong,
    AnswerUnreadable,
    ConfigError,
    PodiumError,
    ToolFailed,
    WorkerBroken,
    WorkerError,
    WorkerFailed,
    WorkerRefused,
    WorkerTimeout,
    WorkerUnavailable,
)
from podium.workers.person import PersonWorker
from podium.workers.pool import Pool

OnFailure = Literal["note", "skip", "replan", "fail"]
"""What happens when a step fails.

- `note`: a step that depends on the failed step runs, if at least one step on its access list has an output;
  its prompt names the missing outputs. Otherwise the step is skipped.
- `skip`: a step that depends on the failed step is skipped.
- `replan`: like `skip`, and the planner then writes another plan. After `Limits.replans` such plans, a failed
  step has the same effect as with `note`.
- `fail`: the other steps are cancelled.
"""

_REFUSED = (WorkerRefused, AnswerRefused, AnswerCut, AnswerTooLong, AnswerToolCalls, AnswerNotUtf8)
_REFUSALS = frozenset(kind.code for kind in (*_REFUSED, AgentRejected))
_FAILURES = (WorkerUnavailable, WorkerTimeout, WorkerBroken, WorkerFailed, ToolFailed, AgentFailed)
UNUSABLE = frozenset({AnswerEmpty.code, AnswerUnreadable.code})
"""The codes of answers after which `Retry.next_best` is asked."""
_CODES = _REFUSALS.union(UNUSABLE, (kind.code for kind in _FAILURES))
_AGAIN = (WorkerUnavailable, WorkerBroken, WorkerTimeout)
_SPREAD = 0.1
"""The most that is added to a wait for which a worker asks, so that calls do not come back all at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """The settings for retries of failed calls of steps and planners.

    A step's worker and its fallbacks share the `attempts` of the step. The worker is retried until only one
    attempt for each fallback is left; then each fallback is called once. Calls that exceed the run's limits,
    calls that the policy forbids, and exceptions of a worker's own code are not retried. A conductor in the
    pool retries the steps of its own plans. If the run of this conductor fails, the error is `worker_failed`;
    it is retried only if you add this code to `retry_on`.

    Planner calls use only `attempts`, `retry_on`, `first_wait` and `max_wait`. If a planner's
    model is a worker of the pool, they also share its circuit breaker.
    """

    attempts: int = 3
    """Maximum calls of one step, including fallbacks, and maximum calls of a planner for one plan text; 1
    means no retries.
    """
    retry_on: frozenset[str] = UNUSABLE.union(kind.code for kind in _AGAIN)
    """Error codes after which the same worker or a fallback is called."""
    fallback_on: frozenset[str] = _REFUSALS
    """Error codes after which only a fallback is called."""
    first_wait: float = 0.5
    """Maximum wait before the first retry of a worker, in seconds.

    The maximum doubles with each failure. The wait is random, from 0 to the maximum; the same run, step and
    attempt has the same wait. If a worker asks for a wait (`Retry-After`), up to a tenth is added to it.
    """
    max_wait: float = 30.0
    """Maximum wait before a call, in seconds. If a worker asks for a longer wait (`Retry-After`), or its
    circuit breaker stays open for longer, the worker is not called again."""
    fallbacks: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """For each worker's name, the names of its fallbacks in the order in which they are called."""
    fallback_labels: frozenset[str] = frozenset()
    """Labels. Workers that share one of these labels are fallbacks of each other, in the order of the pool.

    The fallbacks in `fallbacks` come first.
    """
    next_best: Sequence[str] = ()
    """Names of workers, the best first, one of which is asked after an empty or unreadable answer.

    It is the first that the step has not called. Without such a worker, the same worker is called again.
    """
    ask_again: bool = True
    """Whether a step's worker is called again, once, before a worker of `next_best`. The last attempt of the
    step is always left for `next_best`."""
    break_after: int | None = 5
    """Number of consecutive failures (with a code in `retry_on`, in any run with the pool) that open a
    worker's circuit breaker. A worker with an open circuit breaker gets no calls. `None` disables it."""
    break_seconds: float = 15.0
    """Time for which a circuit breaker stays open, in seconds.

    After this time, one test call finds out if the worker works again.
    """

    def __post_init__(self) -> None:
        check_numbers(self, "Retry.")
        for name in ("first_wait", "max_wait", "break_seconds"):
            if isinf(getattr(self, name)):
                raise ConfigError(f"Retry.{name} is inf: it must be a number of seconds")
        for name in ("retry_on", "fallback_on", "fallback_labels"):
            object.__setattr__(self, name, _frozen(f"Retry.{name}", getattr(self, name)))
        unknown = sorted((self.retry_on | self.fallback_on) - _CODES)
        if unknown:
            told = ", ".join(sorted(_CODES))
            raise ConfigError(
                f"Retry: {unknown[0]!r} is not the code of an error that can be retried; the codes are {told}"
            )
        if both := sorted(self.retry_on & self.fallback_on):
            raise ConfigError(f"Retry: {both[0]!r} is in both `retry_on` and `fallback_on`: remove one")
        object.__setattr__(self, "fallbacks", _frozen_lists(self.fallbacks))
        object.__setattr__(self, "next_best", _names("Retry.next_best", self.next_best))

    def check(self, pool: Pool) -> None:
        """Raise `ConfigError` if the pool lacks a worker or label, or a worker is its own fallback."""
        for name, others in self.fallbacks.items():
            for each in (name, *others):
                if each not in pool.names:
                    told = ", ".join(pool.names)
                    raise ConfigError(f"Retry.fallbacks: {each!r} is not in the pool; the workers are {told}")
            if name in others:
                raise ConfigError(f"Retry.fallbacks: {name!r} cannot be its own fallback")
        for name in self.next_best:
            if name not in pool.names:
                told = ", ".join(pool.names)
                raise ConfigError(f"Retry.next_best: {name!r} is not in the pool; the workers are {told}")
            worker = pool[pool.names.index(name)]
            if worker.acts or isinstance(worker, PersonWorker):
                raise ConfigError(f"Retry.next_best: {name!r} acts or is a person: name workers that answer")
        for label in sorted(self.fallback_labels):
            if sum(label in card.labels for card in pool.cards) < 2:
                raise ConfigError(
                    f"Retry.fallback_labels: fewer than two workers of the pool have the label {label!r}"
                )

    def fallbacks_of(self, number: int, pool: Pool) -> list[int]:
        """Return the numbers of a worker's fallbacks, in the order in which they are called."""
        listed = [pool.names.index(name) for name in self.fallbacks.get(pool.names[number], ())]
        shared = self.fallback_labels & pool.cards[number].labels
        alike = [other for other, card in enumerate(pool.cards) if card.labels & shared and other != number]
        persons = [other for other, worker in enumerate(pool) if isinstance(worker, PersonWorker)]
        found = [] if number in persons else dict.fromkeys(listed + alike)
        return [other for other in found if other not in persons]

    def next_after(self, number: int, called: Sequence[int], pool: Pool) -> list[int]:
        """Return the workers that can be called after an unusable answer, in their order.

        Args:
            number: the number of the step's worker.
            called: the numbers of the workers that the step has called.
            pool: the pool.
        """
        others = [other for name in self.next_best if (other := pool.names.index(name)) not in called]
        is_first = list(called) == [number]
        again = [number] if others and self.ask_again and is_first and self.attempts > len(called) + 1 else []
        return again + others

    def wait_after(self, error: PodiumError, failures: int, seed: str, left: float) -> tuple[float, str]:
        """Return the seconds until a retry, infinite for none, and why, if the error is not the reason."""
        if not isinstance(error, WorkerError) or error.code not in self.retry_on:
            return inf, ""
        asked = error.retry_after or 0.0
        if asked > self.max_wait:
            return inf, f"it asks for {asked:.10g} s, more than Retry.max_wait ({self.max_wait:.10g} s)"
        most = min(self.max_wait, self.first_wait * 2 ** min(failures - 1, 32))
        most = min(most, _SPREAD * asked) if asked else most
        drawn = Random(seed).uniform(0, most)  # noqa: S311 - jitter, not for security
        wait = min(asked + drawn, self.max_wait)
        if wait >= left:
            return inf, "Limits.seconds or Limits.step_seconds ends before it could be called again"
        return wait, ""


def _frozen(name: str, values: object) -> frozenset[str]:
    if isinstance(values, str) or not isinstance(values, frozenset | set | tuple | list):
        raise ConfigError(f"{name} is {values!r:.80}: it must be a set of texts")
    return frozenset(values)


def _names(name: str, values: object) -> tuple[str, ...]:
    if not isinstance(values, list | tuple):
        raise ConfigError(f"{name} is {values!r:.80}: it must be a list of names")
    return tuple(values)


def _frozen_lists(fallbacks: Mapping[str, Sequence[str]]) -> Mapping[str, Sequence[str]]:
    for name, others in fallbacks.items():
        if isinstance(others, str) or not others:
            raise ConfigError(f"Retry.fallbacks: {name!r} has {others!r:.80}: it must be a list of names")
    return MappingProxyType({name: tuple(others) for name, others in fallbacks.items()})
