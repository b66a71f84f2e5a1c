"""The settings of retries, fallbacks and hedges: which failed calls are made again, when, and by whom.

`step_runner` makes the calls, `fallback` picks the next worker.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from random import Random
from types import MappingProxyType
from typing import Literal

from podium.errors import (
    AgentFailed,
    AgentNeedsAuth,
    AgentNeedsInput,
    AgentRejected,
    AnswerCut,
    AnswerNotUtf8,
    AnswerRefused,
    AnswerToolCalls,
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
from podium.workers.call_history import CallHistory
from podium.workers.pool import Pool

OnFailure = Literal["note", "skip", "replan", "fail"]
"""What happens when a step has failed.

- `note`: a step that lacks an output runs with a note of what is missing, if at least one step on its
  access list has an output; else it is skipped.
- `skip`: a step that lacks an output is skipped.
- `replan`: as `skip`, and another plan is made, up to `Limits.replans` times; after that as `note`.
- `fail`: the other steps are cancelled.
"""

_REFUSED = (WorkerRefused, AnswerRefused, AnswerCut, AnswerToolCalls, AnswerNotUtf8)
_REFUSED_BY_AGENT = (AgentRejected, AgentNeedsInput, AgentNeedsAuth)
_REFUSALS = frozenset(kind.code for kind in (*_REFUSED, *_REFUSED_BY_AGENT))
_FAILURES = (WorkerUnavailable, WorkerTimeout, WorkerBroken, WorkerFailed, ToolFailed, AgentFailed)
_CODES = _REFUSALS.union(kind.code for kind in _FAILURES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hedge:
    """When a slow call gets a second one beside it; the first good answer wins.

    A call that has written anything is not hedged. While two calls run, their text is held
    back until one of them has won, and is then sent in one piece. The other call is
    cancelled, and billed as a call whose end nobody saw.
    """

    percentile: float = 95.0
    """A call is slow if it takes longer than this share of its worker's latest calls, in percent."""
    seconds: float = 15.0
    """A call is slow after so many seconds, while its worker has fewer than `samples` good calls."""
    samples: int = 20
    """Latest good calls of a worker that the percentile needs."""

    def __post_init__(self) -> None:
        if not 0 < self.percentile < 100:
            raise ConfigError(f"Hedge.percentile is {self.percentile!r}: it must be above 0 and below 100")
        _check_positive("Hedge.seconds", self.seconds)
        if self.samples < 1:
            raise ConfigError(f"Hedge.samples is {self.samples!r}: it must be 1 or more")

    def patience(self, history: CallHistory) -> float:
        """Return the seconds after which a call of a worker is slow, given its latest calls."""
        known = history.seconds(self.percentile / 100, least=self.samples)
        return self.seconds if known is None else known


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """Which failed calls of a step, or of a planner, are retried, when, and by which worker.

    A step has one budget of calls, shared by its worker and the fallbacks: the worker is
    called again while more calls are left than there are fallbacks, and then each fallback in
    turn. Not retried are calls that would not fit the run's limits, calls that the policy
    forbids, and exceptions of a worker's own code. A conductor that works as a worker retries
    the steps of its own plans; its run as a whole is a call that ends in `worker_failed`, so
    retries do not multiply unless that code is put into `retry_on`.

    Calls of planners are retried by `attempts`, `retry_on`, `first_wait` and `max_wait`. Those whose
    model is a worker of the pool share its circuit breaker. The other fields are about steps only.
    """

    attempts: int = 3
    """Calls of one step, including fallbacks and hedges, or calls of a planner for one text; 1 retries
    nothing."""
    retry_on: frozenset[str] = frozenset({WorkerUnavailable.code, WorkerBroken.code, WorkerTimeout.code})
    """Error codes after which the same worker may be called again, or a fallback."""
    fallback_on: frozenset[str] = _REFUSALS
    """Error codes after which only a fallback may be called."""
    first_wait: float = 0.5
    """Longest wait before the second call of a worker, in seconds; it doubles with each failure. The
    wait is drawn evenly from 0 to that, and is the same for the same run, step and attempt."""
    max_wait: float = 30.0
    """Longest wait before a call, in seconds. A worker that asks for more (`Retry-After`), or whose
    circuit breaker stays open for longer, is not waited for."""
    fallbacks: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """By name of a worker: the names of its fallbacks, in the order they are called."""
    fallback_labels: frozenset[str] = frozenset()
    """Workers that share one of these labels are fallbacks of each other, in the pool's order, after
    those in `fallbacks`."""
    break_after: int | None = 5
    """Failures in a row (with a code in `retry_on`, in any run over the pool) that open a worker's
    circuit breaker: it gets no calls for a while. `None` never does."""
    break_seconds: float = 15.0
    """How long a circuit breaker stays open, in seconds; then one call tries whether the worker is back."""
    hedge: Hedge | None = None
    """`None` hedges no call."""

    def __post_init__(self) -> None:
        _check_whole("Retry.attempts", self.attempts)
        if self.break_after is not None:
            _check_whole("Retry.break_after", self.break_after)
        for name in ("first_wait", "max_wait", "break_seconds"):
            _check_positive(f"Retry.{name}", getattr(self, name))
        for name in ("retry_on", "fallback_on", "fallback_labels"):
            object.__setattr__(self, name, _frozen(f"Retry.{name}", getattr(self, name)))
        unknown = sorted((self.retry_on | self.fallback_on) - _CODES)
        if unknown:
            told = ", ".join(sorted(_CODES))
            raise ConfigError(
                f"Retry: {unknown[0]!r} is not the code of an error that can be retried: {told}"
            )
        if both := sorted(self.retry_on & self.fallback_on):
            raise ConfigError(f"Retry: {both[0]!r} is in both `retry_on` and `fallback_on`: choose one")
        object.__setattr__(self, "fallbacks", _frozen_lists(self.fallbacks))

    def check(self, pool: Pool) -> None:
        """Check the names and labels against a pool.

        Raises:
            ConfigError: a worker is not in the pool or is its own fallback,
                or fewer than two workers have a label.
        """
        for name, others in self.fallbacks.items():
            for each in (name, *others):
                if each not in pool.names:
                    told = ", ".join(pool.names)
                    raise ConfigError(f"Retry.fallbacks: {each!r} is no worker of the pool: {told}")
            if name in others:
                raise ConfigError(f"Retry.fallbacks: {name!r} cannot be its own fallback")
        for label in sorted(self.fallback_labels):
            if sum(label in card.labels for card in pool.cards) < 2:
                raise ConfigError(
                    f"Retry.fallback_labels: fewer than two workers of the pool carry the label {label!r}"
                )

    def fallbacks_of(self, number: int, pool: Pool) -> list[int]:
        """Return the numbers of a worker's fallbacks, in the order they are called."""
        listed = [pool.names.index(name) for name in self.fallbacks.get(pool.names[number], ())]
        shared = self.fallback_labels & pool.cards[number].labels
        alike = [other for other, card in enumerate(pool.cards) if card.labels & shared and other != number]
        return list(dict.fromkeys(listed + alike))

    def wait_after(self, error: PodiumError, failures: int, seed: str, left: float) -> tuple[float, str]:
        """Return the wait before the same worker or planner is called again.

        Args:
            error: the error of its latest call.
            failures: how many of its calls have failed.
            seed: seeds the random wait.
            left: seconds until no call may begin any more.

        Returns:
            The wait in seconds, infinite if there is no other call; and why there is none, if the
            error does not say it.
        """
        if not isinstance(error, WorkerError) or error.code not in self.retry_on:
            return inf, ""
        asked = error.retry_after or 0.0
        if asked > self.max_wait:
            return inf, f"it asks for {_told(asked)}, more than Retry.max_wait ({_told(self.max_wait)})"
        most = min(self.max_wait, self.first_wait * 2 ** min(failures - 1, 32))
        drawn = Random(seed).uniform(0, most)  # noqa: S311 - spreads calls in time
        wait = min(asked + drawn, self.max_wait)
        if wait >= left:
            return inf, "Limits.seconds or Limits.step_seconds ends before it could be called again"
        return wait, ""


def _told(seconds: float) -> str:
    return f"{seconds:.1f}".removesuffix(".0") + " s"


def _check_whole(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ConfigError(f"{name} is {value!r}: it must be a whole number, 1 or more")


def _check_positive(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < inf:
        raise ConfigError(f"{name} is {value!r}: it must be a number of seconds above 0")


def _frozen(name: str, values: object) -> frozenset[str]:
    if isinstance(values, str) or not isinstance(values, frozenset | set | tuple | list):
        raise ConfigError(f"{name} is {values!r:.80}: give a set of texts")
    return frozenset(values)


def _frozen_lists(fallbacks: Mapping[str, Sequence[str]]) -> Mapping[str, Sequence[str]]:
    for name, others in fallbacks.items():
        if isinstance(others, str) or not others:
            raise ConfigError(f"Retry.fallbacks: {name!r} has {others!r:.80}: give a list of names")
    return MappingProxyType({name: tuple(others) for name, others in fallbacks.items()})
