"""The limits of a reward service."""

from dataclasses import dataclass, replace

import anyio

from podium.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardLimits:
    """How fast a reward service executes plans, and how much it spends.

    Raises:
        ConfigError: a limit is not above 0, or there is a budget without `plan_cost`.
    """

    concurrency: int = 256
    """Maximum number of plans in execution."""
    requests_per_minute: float | None = None
    """Maximum number of worker calls that start in a minute, evenly spaced; `None` for no limit."""
    tokens_per_minute: float | None = None
    """Maximum number of tokens of workers per minute; `None` for no limit. The tokens of a plan are known
    after its execution, so the first plans are not delayed, and later ones pay for them."""
    budget: float | None = None
    """Maximum spending, in the environment's unit, of all runs with the same database; `None` for no
    limit."""
    plan_cost: float | None = None
    """The most that one plan can cost. This much is reserved before a plan starts, so that the budget holds
    although plans run concurrently. Needed with `budget`."""

    def __post_init__(self) -> None:
        for name in ("concurrency", "requests_per_minute", "tokens_per_minute", "budget", "plan_cost"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ConfigError(f"{name} is {value!r}: it must be above 0")
        if self.budget is not None and self.plan_cost is None:
            raise ConfigError("budget needs plan_cost, the most that one plan can cost: add it")

    def shared_by(self, processes: int) -> "RewardLimits":
        """Return the limits of each of some processes; the budget is in the database that they share."""

        def part(rate: float | None) -> float | None:
            return None if rate is None else rate / processes

        return replace(
            self,
            concurrency=max(1, self.concurrency // processes),
            requests_per_minute=part(self.requests_per_minute),
            tokens_per_minute=part(self.tokens_per_minute),
        )


class Meter:
    """Spaces out amounts, so that no more than a rate per minute is admitted.

    It is the generic cell rate algorithm (ITU-T I.371) without a burst.
    """

    def __init__(self, per_minute: float | None) -> None:
        self._seconds = None if per_minute is None else 60 / per_minute
        self._free_at = 0.0

    async def admit(self, amount: float) -> None:
        """Wait until `amount` may start."""
        if self._seconds is None:
            return
        start = max(anyio.current_time(), self._free_at)
        self._free_at = start + amount * self._seconds
        await anyio.sleep_until(start)

    def correct(self, more: float) -> None:
        """Count more than was admitted, or less."""
        if self._seconds is not None:
            self._free_at += more * self._seconds
