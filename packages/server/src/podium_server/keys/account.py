"""Decides whether a request of a key is admitted, from the amounts in the database."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

from podium_server.keys.key import KeyRules
from podium_server.keys.refusals import BudgetReserved, BudgetSpent, RateLimited, TooManyAtOnce

BILLION = 1_000_000_000
"""Costs are counted in billionths of a dollar."""
BUSY_SECONDS = 2.0
"""When to try again while other requests of the key run, in seconds."""


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
    usual: int = 0
    """What a request costs on average; 0 if it is unknown."""

    def admit(self, most: int | None, tokens: int, least: int, *, is_new: bool = False) -> int:
        """Admit a request, and return its reservation in billionths of a dollar: what such a run costs.

        Args:
            most: the maximum cost of the run by the limits of the model and the key; `None` if it has none.
            tokens: the expected tokens, at least those of the request.
            least: what the first call of the run costs at least.
            is_new: whether the run needs this call.

        Raises:
            KeyRefused: a limit of the key is reached.
        """
        at_once = self.rules.concurrency
        if at_once is not None and self.running >= at_once:
            told = (
                f"the key runs {at_once} requests at the same time, its maximum: try again when one has ended"
            )
            raise TooManyAtOnce(told, BUSY_SECONDS)
        for bucket, units, name in ((self.requests, 1, "requests"), (self.tokens, tokens, "tokens")):
            if bucket is not None and (wait := bucket.wait(units)) > 0:
                told = f"the key may use {bucket.size} {name} per minute: try again in {wait:.1f} s"
                raise RateLimited(told, wait)
        cost = max(self.usual, least, 1) if self.rules.has_budget else 0
        cost = cost if most is None else min(cost, most)
        if self.periods and self.tightest.left < cost:
            self._check(self.tightest, least if is_new and least <= cost else 0)  # else its own limit is low
        reservation = self._take(cost)
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
    def tightest(self) -> Period:
        """The budget of which the least is left."""
        return min(self.periods, key=lambda period: period.left)

    def raise_by(self, cost: int) -> int:
        """Return what a running request may reserve besides, at most `cost`.

        Raises:
            KeyRefused: the budget is spent, or its rest is reserved for other requests.
        """
        if self.periods and not self.tightest.left:
            self._check(self.tightest, 0)
        return self._take(cost)

    def _take(self, cost: int) -> int:
        reserved = min([cost, *(period.left for period in self.periods)])
        for period in self.periods:
            period.reserved += reserved
        return reserved

    def _check(self, period: Period, least: int) -> None:
        """Raise `KeyRefused` if too little is left, or if running requests may leave more."""
        if period.spent >= period.most:
            raise BudgetSpent(f"{period.told} is spent: {period.next}", period.end - self.now)
        if period.reserved:
            told = f"{period.told} is reserved for running requests of the key: try again when one has ended"
            raise BudgetReserved(told, BUSY_SECONDS)
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
