"""Decides whether a request of a key is admitted, from the amounts in the database."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

from podium_server.keys.key import KeyRules
from podium_server.keys.refusals import BudgetReserved, BudgetSpent, RateLimited, TooManyAtOnce

BILLION = 1_000_000_000
"""Costs are counted in billionths of a dollar."""
_BUSY_SECONDS = 2.0
"""When to try again while other requests of the key run, in seconds."""
_RUN_SHARE = 10
"""Without a limit of a run's cost, a run may cost this part of what the budget allows, or its usual maximum
if that is more. The rest is for other requests at the same time."""


@dataclass(slots=True)
class Bucket:
    """A rate limit: a bucket of `size` units that is filled evenly within a minute.

    A request of more units than the bucket holds is admitted when the bucket is full.
    """

    size: int
    left: float
    """May be below 0 after a request used more units than expected."""

    @classmethod
    def filled(cls, size: int | None, left: float | None, seconds: float) -> "Bucket | None":
        """Return a bucket some seconds after it had `left` units; `None` if there is no limit.

        A negative time, after the clock was set back, adds nothing.
        """
        if size is None:
            return None
        before = float(size) if left is None else left
        return cls(size, min(float(size), before + max(seconds, 0.0) * size / 60.0))

    def wait(self, units: float) -> float:
        """Return the seconds until the bucket has these units; 0 if it has them."""
        return max(min(units, self.size) - self.left, 0.0) * 60.0 / self.size

    @property
    def reset(self) -> float:
        """The seconds until the bucket is full."""
        return self.wait(self.size)


@dataclass(slots=True)
class Period:
    """A budget of a day or a month, in billionths of a dollar."""

    name: Literal["day", "month"]
    most: int
    spent: int
    reserved: int
    end: float
    """When the next period begins, in seconds of Unix time."""

    @property
    def left(self) -> int:
        """The amount that is neither spent nor reserved."""
        return max(self.most - self.spent - self.reserved, 0)

    @property
    def told(self) -> str:
        """The budget in words."""
        return f"the budget of this {self.name}, ${self.most / BILLION:g},"

    @property
    def next(self) -> str:
        """When the budget is renewed, in words."""
        end = datetime.fromtimestamp(self.end, UTC).strftime("%Y-%m-%d %H:%M UTC")
        return f"the next {self.name} begins at {end}"


@dataclass(slots=True)
class Account:
    """The amounts of one key, within a transaction."""

    rules: KeyRules
    now: float
    """Time of the database, in seconds of Unix time."""
    running: int
    requests: Bucket | None
    tokens: Bucket | None
    periods: tuple[Period, ...]

    def admit(self, cost: int | None, tokens: int, usual: int = 0, least: int = 0) -> int:
        """Admit a request, and return its reservation in billionths of a dollar.

        Args:
            cost: the maximum cost of the run by the limits of the model and the key; `None` if it has none.
            tokens: the expected tokens, at least those of the request.
            usual: the usual maximum of the cost of such a run, for a run without a maximum.
            least: what the first call of the run costs at least.

        Raises:
            KeyRefused: a limit of the key is reached.
        """
        most = self.rules.concurrency
        if most is not None and self.running >= most:
            told = f"the key runs {most} requests at the same time, its maximum: try again when one has ended"
            raise TooManyAtOnce(told, _BUSY_SECONDS)
        for bucket, units, name in ((self.requests, 1, "requests"), (self.tokens, tokens, "tokens")):
            if bucket is not None and (wait := bucket.wait(units)) > 0:
                told = f"the key may use {bucket.size} {name} per minute: try again in {wait:.1f} s"
                raise RateLimited(told, wait)
        reservation = self._reserve(cost, usual, least)
        if self.requests is not None:
            self.requests.left -= 1
        if self.tokens is not None:
            self.tokens.left -= tokens
        self.running += 1
        return reservation

    def settle(self, day: str, reserved: int, cost: int, tokens: int) -> None:
        """Replace the reservation of a request that was admitted on `day` by its cost.

        Args:
            day: the day, in UTC.
            reserved: the reservation.
            cost: the cost.
            tokens: the tokens beyond those that were counted at the admission.
        """
        self.running -= 1
        if self.tokens is not None:
            self.tokens.left -= tokens
        today = day_of(self.now)
        for period in self.periods:
            if day == today or (period.name == "month" and day[:7] == today[:7]):
                period.reserved -= reserved
                period.spent += cost

    @property
    def used_up(self) -> Period | None:
        """A budget of which nothing is left; `None` if there is none."""
        return next((period for period in self.periods if not period.left), None)

    def _reserve(self, cost: int | None, usual: int, least: int) -> int:
        """Reserve the maximum cost, or all that is left of the budget."""
        if not self.periods:
            return cost or 0
        if cost is None:
            cost = max(min(period.most for period in self.periods) // _RUN_SHARE, usual, 1)
        tightest = min(self.periods, key=lambda period: period.left)
        if tightest.left < cost:
            self._check(tightest, least if least <= cost else 0)  # else its own limit is too low
        reserved = min(cost, tightest.left)
        for period in self.periods:
            period.reserved += reserved
        return reserved

    def _check(self, period: Period, least: int) -> None:
        """Raise `KeyRefused` if too little is left, or if running requests may leave more."""
        if period.spent >= period.most:
            raise BudgetSpent(f"{period.told} is spent: {period.next}", period.end - self.now)
        if period.reserved:
            told = f"{period.told} is reserved for running requests of the key: try again when one has ended"
            raise BudgetReserved(told, _BUSY_SECONDS)
        if period.left < least:
            told = f"${period.left / BILLION:g} is left of {period.told} and the first call of the run"
            told = f"{told} needs ${least / BILLION:g}: {period.next}"
            raise BudgetSpent(told, period.end - self.now)


def cost_of_run(rules: KeyRules, model_cost: float | None) -> int | None:
    """Return the maximum cost of a run by the limits of its model and key; `None` if neither has a limit."""
    known = [cost for cost in (rules.run_cost, model_cost) if cost is not None]
    return max(round(min(known) * BILLION), 1) if known else None


def day_of(at: float) -> str:
    """Return the day of a time, in UTC."""
    return datetime.fromtimestamp(at, UTC).date().isoformat()


def ends_of(day: str) -> tuple[float, float]:
    """Return the ends of a day and of its month, in seconds of Unix time."""
    start = datetime.fromisoformat(day).replace(tzinfo=UTC)
    tomorrow = start + timedelta(days=1)
    next_month = (start.replace(day=1) + timedelta(days=32)).replace(day=1)
    return tomorrow.timestamp(), next_month.timestamp()
