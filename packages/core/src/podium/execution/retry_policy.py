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
    ConfigError,
    WorkerBroken,
    WorkerError,
    WorkerFailed,
    WorkerRefused,
    WorkerTimeout,
    WorkerUnavailable,
)
from podium.workers.call_history import CallHistory
from podium.workers.pool import Pool

OnFailure = Literal["skip", "note", "replan", "fail"]
"""What happens to the steps that depend on a failed one: they are skipped; they run with a note of
what is missing; another round is planned; or the run ends."""

_CODES = frozenset(
    kind.code for kind in (WorkerUnavailable, WorkerRefused, WorkerTimeout, WorkerBroken, WorkerFailed)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hedge:
    """When a slow call is given a second one beside it; the first good answer wins.

    A call that has written anything is not hedged. While two run, what they write is held
    back until one of them has won, and is then sent in one piece. The other is cancelled,
    and billed as a call whose end nobody saw.
    """

    percentile: float = 95.0
    """A call that takes longer than this share of its worker's latest ones, in percent, is slow."""
    seconds: float = 15.0
    """What is slow while a worker has been called less than `samples` times, in seconds."""
    samples: int = 20
    """Latest good calls of a worker from which the percentile is told."""

    def __post_init__(self) -> None:
        if not 0 < self.percentile < 100:
            raise ConfigError(f"Hedge.percentile is {self.percentile!r}: it must be above 0 and below 100")
        _check_positive("Hedge.seconds", self.seconds)
        if self.samples < 1:
            raise ConfigError(f"Hedge.samples is {self.samples!r}: it must be 1 or more")

    def patience(self, history: CallHistory) -> float:
        """Return the seconds after which a call of a worker is slow, given its latest ones."""
        known = history.seconds(self.percentile / 100, least=self.samples)
        return self.seconds if known is None else known


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """Which failed calls of a step are made again.

    A step has one budget of calls, which its worker and those that stand in for it share:
    the worker is asked again while more calls are left than there are stand-ins, and then
    each of them in turn. What would not fit the run's limits, what the policy forbids and
    what a worker's own code raised is not tried again. A conductor that works as a worker
    retries the steps of its own plans; its run as a whole is a call that `worker_failed`
    ends, so nothing multiplies unless that code is put into `again`.
    """

    attempts: int = 3
    """Calls of one step, those of stand-ins and hedges among them; 1 means that nothing is retried."""
    again: frozenset[str] = frozenset({WorkerUnavailable.code, WorkerBroken.code, WorkerTimeout.code})
    """Codes of errors after which the same worker may be asked again, or a stand-in."""
    elsewhere: frozenset[str] = frozenset({WorkerRefused.code})
    """Codes of errors after which only a stand-in may be asked."""
    base: float = 0.5
    """Longest wait before a worker is asked for the second time, in seconds; it doubles with each
    failure. The wait is drawn evenly from 0 to that, the same for the same run, step and attempt."""
    longest: float = 30.0
    """Longest wait before a call, in seconds. A worker that asks for more (`Retry-After`), or cools
    down for longer, is not waited for."""
    stand_ins: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """By name of a worker: names of those that stand in for it, in the order they are asked."""
    alike: frozenset[str] = frozenset()
    """Labels whose workers stand in for one another, in the pool's order, after those in `stand_ins`."""
    cool_after: int | None = 5
    """Failures in a row (of a code in `again`, in any run over the pool) after which a worker is
    left out for a while; `None` leaves out none."""
    cool_seconds: float = 15.0
    """How long it is left out, in seconds; then one call tries whether it is back."""
    hedge: Hedge | None = None
    """`None` hedges no call."""

    def __post_init__(self) -> None:
        _check_whole("Retry.attempts", self.attempts)
        if self.cool_after is not None:
            _check_whole("Retry.cool_after", self.cool_after)
        for name in ("base", "longest", "cool_seconds"):
            _check_positive(f"Retry.{name}", getattr(self, name))
        for name in ("again", "elsewhere", "alike"):
            object.__setattr__(self, name, _frozen(f"Retry.{name}", getattr(self, name)))
        unknown = sorted((self.again | self.elsewhere) - _CODES)
        if unknown:
            told = ", ".join(sorted(_CODES))
            raise ConfigError(f"Retry: {unknown[0]!r} is no code of a call that may be made again: {told}")
        if both := sorted(self.again & self.elsewhere):
            raise ConfigError(f"Retry: {both[0]!r} is in both `again` and `elsewhere`: choose one")
        object.__setattr__(self, "stand_ins", _frozen_lists(self.stand_ins))

    def check(self, pool: Pool) -> None:
        """Check the names and labels against a pool.

        Raises:
            ConfigError: a worker is not in the pool or stands in for itself, or a label is on no two.
        """
        for name, others in self.stand_ins.items():
            for each in (name, *others):
                if each not in pool.names:
                    told = ", ".join(pool.names)
                    raise ConfigError(f"Retry.stand_ins: {each!r} is no worker of the pool: {told}")
            if name in others:
                raise ConfigError(f"Retry.stand_ins: {name!r} cannot stand in for itself")
        for label in sorted(self.alike):
            if sum(label in card.labels for card in pool.cards) < 2:
                raise ConfigError(
                    f"Retry.alike: fewer than two workers of the pool carry the label {label!r}"
                )

    def stand_ins_for(self, number: int, pool: Pool) -> list[int]:
        """Return the numbers of the workers that stand in for one, in the order they are asked."""
        listed = [pool.names.index(name) for name in self.stand_ins.get(pool.names[number], ())]
        shared = self.alike & pool.cards[number].labels
        alike = [other for other, card in enumerate(pool.cards) if card.labels & shared and other != number]
        return list(dict.fromkeys(listed + alike))

    def wait_after(self, error: WorkerError, failures: int, seed: str) -> float:
        """Return the seconds to wait before the same worker is asked again; infinite if it is not.

        Args:
            error: what its latest call ended in.
            failures: how many of its calls for the step have failed.
            seed: what the wait is drawn from.
        """
        asked = error.retry_after or 0.0
        if error.code not in self.again or asked > self.longest:
            return inf
        most = min(self.longest, self.base * 2 ** min(failures - 1, 32))
        drawn = Random(seed).uniform(0, most)  # noqa: S311 - spreads calls in time
        return min(asked + drawn, self.longest)


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


def _frozen_lists(stand_ins: Mapping[str, Sequence[str]]) -> Mapping[str, Sequence[str]]:
    for name, others in stand_ins.items():
        if isinstance(others, str) or not others:
            raise ConfigError(f"Retry.stand_ins: {name!r} has {others!r:.80}: give a list of names")
    return MappingProxyType({name: tuple(others) for name, others in stand_ins.items()})
