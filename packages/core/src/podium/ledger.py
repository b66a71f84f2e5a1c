"""What a run has spent and reserved, held to its limits.

One ledger covers a whole run: its rounds, retries, fallbacks, the planner's calls and the
runs nested in it. Before a call its worst case is reserved; afterwards that is settled to
what the call really came to. It knows no worker and no price: it is given amounts.
"""

from dataclasses import dataclass, field, replace
from typing import Self

from podium.errors import LimitExceeded
from podium.limits import Limits
from podium.usage import Usage


@dataclass(frozen=True, slots=True)
class Spend:
    """What a call, or many, may spend or have spent."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = 0.0
    """In USD; `None` when it is unknown."""

    @classmethod
    def of(cls, usage: Usage, cost: float | None, *, calls: int = 1) -> Self:
        """Return what a call has spent; a hosted conductor's own tokens count as all others."""
        read = usage.input_tokens + usage.orchestration_input_tokens
        return cls(calls, read, usage.output_tokens + usage.orchestration_output_tokens, cost)


@dataclass(frozen=True, slots=True)
class Left:
    """What a run may still spend. `None` means that there is no limit."""

    steps: int | None = None
    calls: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost: float | None = None
    """In USD."""

    @property
    def rounded(self) -> "Left":
        """The same in round figures: down to one digit that is not 0."""
        return Left(
            steps=None if self.steps is None else _rounded(self.steps),
            calls=None if self.calls is None else _rounded(self.calls),
            input_tokens=None if self.input_tokens is None else _rounded(self.input_tokens),
            output_tokens=None if self.output_tokens is None else _rounded(self.output_tokens),
            cost=None if self.cost is None else _rounded(round(self.cost * _BILLION)) / _BILLION,
        )


@dataclass(slots=True, eq=False)
class Reservation:
    """What is set aside for one call until it is settled."""

    amount: Spend
    books_itself: bool = False
    """Whether the call books what it spends itself, so that settling it books nothing."""
    settled: bool = False


@dataclass(slots=True)
class Ledger:
    """What one run, with all that is nested in it, has spent."""

    limits: Limits
    deadline: float
    """When the run must have ended, on the event loop's clock, in seconds."""
    parent: "Ledger | None" = None
    """That of the run this one is nested in; what is booked here is booked there too."""
    _books: "tuple[_Book, ...]" = field(init=False, repr=False)
    """This run's own, then those of the runs it is nested in, the nearest first."""

    def __post_init__(self) -> None:
        above = () if self.parent is None else self.parent._books  # noqa: SLF001 - of its own kind
        self._books = (_Book(self.limits, nested=bool(above)), *above)

    def nested(self, limits: Limits, depth: int, deadline: float) -> "Ledger":
        """Return the ledger of a run nested `depth` deep in this one, which is held to both limits."""
        deepest = min(self.limits.depth, depth + limits.depth)
        return Ledger(replace(limits, depth=deepest), min(self.deadline, deadline), self)

    @property
    def steps(self) -> int:
        """Steps started so far."""
        return self._books[0].steps

    @property
    def spent(self) -> Spend:
        """What was spent so far; its cost is unknown as soon as that of one call is."""
        return self._books[0].spent.told()

    @property
    def reserved(self) -> Spend:
        """What is set aside for calls under way."""
        return self._books[0].reserved.told()

    @property
    def left(self) -> Left:
        """What may still be spent beyond what is reserved, here and in all this ledger is nested in."""
        free: dict[str, int] = {}
        for book in self._books:
            for (index, _), amount in zip(book.most, book.free(), strict=True):
                free[_NAMES[index]] = min(amount, free.get(_NAMES[index], amount))
        cost = free.get("cost")
        return Left(
            steps=min(max(book.limits.steps - book.steps, 0) for book in self._books),
            calls=free["calls"],
            input_tokens=free.get("input_tokens"),
            output_tokens=free.get("output_tokens"),
            cost=None if cost is None else cost / _BILLION,
        )

    def limits_any(self, *names: str) -> bool:
        """Say whether one of these fields of `Limits` is set, here or in what this ledger is nested in."""
        return any(getattr(book.limits, name) is not None for book in self._books for name in names)

    def start_step(self, *, last: bool = False) -> None:
        """Book one step.

        Args:
            last: whether it is the plan's last, for which one was kept.

        Raises:
            LimitExceeded: the run has started as many as it may.
        """
        own = self._books[0]
        for book in self._books:
            keeps = book.keeps_step and not (last and book is own)
            if book.steps + keeps >= book.limits.steps:
                besides = ", the last kept for its plan's last" if keeps else ""
                most = book.limits.steps
                message = f"{book.whose} has started its {most} steps{besides}: raise Limits.steps for more"
                raise LimitExceeded("steps", message)
        own.keeps_step = own.keeps_step and not last
        for book in self._books:
            book.steps += 1

    def reserve(self, worst: Spend | None, *, last: bool = False) -> Reservation:
        """Set aside what a call may spend at most.

        Args:
            worst: its worst case; `None` for a call that books what it spends itself.
            last: whether it is of the plan's last step, for which what was kept is set free.

        Raises:
            LimitExceeded: it does not fit; nothing was booked.
        """
        own = self._books[0]
        if worst is not None:
            for book in self._books:
                book.check(worst, _NOTHING if last and book is own else book.kept)
        if last:
            own.kept = _NOTHING
        if worst is None:
            return Reservation(Spend(), books_itself=True)
        for book in self._books:
            book.reserved.add(book.counts(worst), worst.cost)
        return Reservation(worst)

    def settle(self, reservation: Reservation, spent: Spend) -> None:
        """Put what a call came to in the place of what was set aside for it; once settled, it stays so.

        A call whose cost turned out unknown counts against the limit as what was set aside.
        """
        if reservation.settled:
            return
        reservation.settled = True
        if reservation.books_itself:
            return
        worst = reservation.amount
        counted = replace(spent, cost=worst.cost) if spent.cost is None else spent
        for book in self._books:
            book.reserved.add(book.counts(worst), worst.cost, -1)
            book.spent.add(book.counts(counted), spent.cost)

    def keep(self, amount: Spend) -> None:
        """Keep this much for the last step, in place of what was kept before.

        No other call of this run is let near it. The runs this one is nested in keep nothing
        for it. With a call, a step is kept too.
        """
        own = self._books[0]
        own.kept = own.counts(amount)
        own.keeps_step = amount.calls > 0

    def charge(self, spent: Spend) -> None:
        """Book what was spent before this ledger was made, as by a run that is resumed.

        That may be more than the limits allow; then nothing more can be reserved.

        Raises:
            LimitExceeded: its cost is unknown, is limited, and no one says what that counts as.
        """
        for book in self._books:
            book.check_known(spent)
        for book in self._books:
            book.spent.add(book.counts(spent), spent.cost)


_Counts = tuple[int, int, int, int]
"""Calls, input tokens, output tokens, and money in whole billionths of a dollar, so that it balances."""
_NAMES = ("calls", "input_tokens", "output_tokens", "cost")
"""What `Spend` and `Limits` call them."""
_BILLION = 1_000_000_000
_NOTHING: _Counts = (0, 0, 0, 0)


class _Sum:
    """Amounts added up."""

    __slots__ = ("counts", "unknown")

    def __init__(self) -> None:
        self.counts = list(_NOTHING)
        self.unknown = 0
        """Amounts of unknown cost among them."""

    def add(self, counts: _Counts, cost: float | None, sign: int = 1) -> None:
        for index, count in enumerate(counts):
            self.counts[index] += sign * count
        if cost is None:
            self.unknown += sign

    def told(self) -> Spend:
        calls, read, written, money = self.counts
        return Spend(calls, read, written, None if self.unknown else money / _BILLION)


class _Book:
    """One run's own limits, and what counts against them."""

    __slots__ = ("keeps_step", "kept", "limits", "most", "reserved", "spent", "steps", "whose")

    def __init__(self, limits: Limits, *, nested: bool) -> None:
        self.limits = limits
        cost = None if limits.cost is None else round(limits.cost * _BILLION)
        most = (limits.calls, limits.input_tokens, limits.output_tokens, cost)
        self.most = [(index, limit) for index, limit in enumerate(most) if limit is not None]
        """The limits that are set, by their place among the counts."""
        self.whose = "the nested run" if nested else "the run"
        self.steps = 0
        self.spent = _Sum()
        self.reserved = _Sum()
        self.kept = _NOTHING
        self.keeps_step = False

    def counts(self, amount: Spend) -> _Counts:
        """Return what an amount counts as here; one of unknown cost has the worth the limits give it."""
        cost = amount.cost
        if cost is None:
            cost = (self.limits.unpriced or 0.0) * amount.calls
        return (amount.calls, amount.input_tokens, amount.output_tokens, round(cost * _BILLION))

    def free(self, kept: _Counts = _NOTHING) -> list[int]:
        """Return, for each limit that is set, what is neither spent, nor reserved, nor kept."""
        spent, reserved = self.spent.counts, self.reserved.counts
        return [max(most - spent[i] - reserved[i] - kept[i], 0) for i, most in self.most]

    def check(self, worst: Spend, kept: _Counts) -> None:
        """Raise `LimitExceeded` unless it fits."""
        self.check_known(worst)
        needed = self.counts(worst)
        for (index, most), free in zip(self.most, self.free(kept), strict=True):
            if needed[index] > free:
                name = _NAMES[index]
                besides = f", besides {_amount(name, kept[index])} kept for the plan's last step"
                message = (
                    f"a call may come to {_amount(name, needed[index])}, and {self.whose} has "
                    f"{_amount(name, free)} left of its {_amount(name, most)}"
                    f"{besides if kept[index] else ''}: raise Limits.{name} for more"
                )
                raise LimitExceeded(name, message)

    def check_known(self, amount: Spend) -> None:
        """Raise `LimitExceeded` for an unknown cost that counts as nothing anyone has chosen."""
        if amount.cost is None and self.limits.cost is not None and self.limits.unpriced is None:
            message = (
                f"{self.whose} is held to ${self.limits.cost:g}, and the price of a call is unknown: "
                "put a price on the worker's card, or say with Limits.unpriced what it counts as, in USD"
            )
            raise LimitExceeded("unpriced", message)


def _rounded(count: int) -> int:
    digits = str(count)
    return int(digits[0].ljust(len(digits), "0"))


def _amount(name: str, count: int) -> str:
    if name == "cost":
        return f"${count / _BILLION:.9f}".rstrip("0").rstrip(".")
    word = name.replace("_", " ")
    return f"{count:,} {word.removesuffix('s') if count == 1 else word}"
