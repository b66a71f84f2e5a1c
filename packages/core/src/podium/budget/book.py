"""The amounts that count against the limits of one run, as whole numbers.

The ledger holds the lock of all books while it changes one.
"""

from asyncio import AbstractEventLoop
from collections.abc import Iterable

import anyio

from podium.budget.limits import Limits
from podium.budget.spend import Spend
from podium.errors import LimitExceeded

Counts = tuple[int, ...]
"""Calls, input tokens, output tokens, cost in billionths of a dollar (an integer, so sums are exact), and
the number of calls with unknown cost."""
NAMES = ("calls", "input_tokens", "output_tokens", "cost")
"""The names of the counts in `Spend` and `Limits`."""
BILLION = 1_000_000_000
ZERO: Counts = (0, 0, 0, 0, 0)


def total(amounts: Iterable[Counts]) -> Counts:
    """Return the sum of amounts."""
    return tuple(map(sum, zip(ZERO, *amounts, strict=True)))


def told_spend(counts: Counts) -> Spend:
    """Return counts as an amount; its cost is unknown if the cost of one call is unknown."""
    calls, read, written, money, unknown = counts
    return Spend(calls, read, written, None if unknown else money / BILLION)


class Book:
    """The limits of one run, and the amounts that count against them."""

    __slots__ = (
        "aside",
        "aside_steps",
        "kept",
        "kept_steps",
        "limits",
        "most",
        "reserved",
        "spent",
        "steps",
        "waiters",
    )

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        cost = None if limits.cost is None else round(limits.cost * BILLION)
        most = (limits.calls, limits.input_tokens, limits.output_tokens, cost)
        self.most = [(index, limit) for index, limit in enumerate(most) if limit is not None]
        """The limits that are set, each with its index in `Counts`."""
        self.steps = 0
        self.spent = ZERO
        self.reserved = ZERO
        self.aside = ZERO
        """What the run may not spend yet."""
        self.aside_steps = 0
        """The number of steps that the run may not start yet."""
        self.kept: dict[int | None, Spend] = {}
        """The amounts that are kept, by the index of a step."""
        self.kept_steps: set[int | None] = set()
        """The indices of the steps for which a start is kept."""
        self.waiters: list[tuple[AbstractEventLoop, anyio.Event]] = []
        """The events to set when the next call is settled, each with its event loop."""

    def wake(self) -> None:
        """Wake all tasks that wait in `freed`."""
        for loop, event in self.waiters:
            loop.call_soon_threadsafe(event.set)
        self.waiters.clear()

    def counts(self, amount: Spend, otherwise: float | None = None) -> Counts:
        """Return an amount as counts; an unknown cost counts as `otherwise`, or as `Limits.unpriced`."""
        cost = otherwise if amount.cost is None else amount.cost
        if cost is None:
            cost = (self.limits.unpriced or 0.0) * amount.calls
        money = round(cost * BILLION) if cost else 0
        return (amount.calls, amount.input_tokens, amount.output_tokens, money, amount.cost is None)

    def free(self, index: int, most: int, kept: Counts) -> int:
        """Return the part of a limit that is not spent, reserved, set aside or kept."""
        return max(most - self.spent[index] - self.reserved[index] - self.aside[index] - kept[index], 0)

    def free_steps(self, kept: int) -> int:
        """Return the number of steps that are not started, set aside or kept."""
        return max(self.limits.steps - self.steps - self.aside_steps - kept, 0)

    def check(self, worst: Spend, kept: Counts, whose: str) -> Counts:
        """Return an amount as counts; raise `LimitExceeded` unless it fits in addition to the kept amount."""
        if worst.cost is None:
            self.check_known(worst, whose)
        needed = self.counts(worst)
        for index, most in self.most:
            if (free := self.free(index, most, kept)) < needed[index] > 0:
                raise self._refused(index, needed[index], free, kept[index] + self.aside[index], whose)
        return needed

    def _refused(self, index: int, needed: int, free: int, kept: int, whose: str) -> LimitExceeded:
        name, most = NAMES[index], dict(self.most)[index]
        besides = f" (another {amount_text(name, kept)} kept for the steps that the answer needs)"
        message = (
            f"a call may need {amount_text(name, needed)}, and {whose} has {amount_text(name, free)} "
            f"left of its {amount_text(name, most)}{besides if kept else ''}: raise Limits.{name} for more"
        )
        return LimitExceeded(name, message)

    def check_known(self, amount: Spend, whose: str) -> None:
        """Raise `LimitExceeded` if the cost is unknown and limited, and `Limits.unpriced` is not set."""
        if amount.cost is None and self.limits.cost is not None and self.limits.unpriced is None:
            message = (
                f"{whose} is limited to ${self.limits.cost:g}, and the price of a call is unknown: "
                "set the `price` of the worker, or set Limits.unpriced, the assumed cost of such a "
                "call in USD"
            )
            raise LimitExceeded("unpriced", message)


def amount_text(name: str, count: int) -> str:
    """Return a count with its unit."""
    if name == "cost":
        return f"${count / BILLION:.9f}".rstrip("0").rstrip(".")
    word = name.replace("_", " ")
    return f"{count:,} {word.removesuffix('s') if count == 1 else word}"
