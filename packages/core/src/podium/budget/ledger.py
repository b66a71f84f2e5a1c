"""What a run has spent and reserved, held to its limits.

One ledger covers a whole run: its rounds, retries, fallbacks, the planner's calls and the
runs nested in it. Before a call its worst case is reserved; afterwards that is settled to
what the call really came to. It knows no worker and no price: it is given amounts.

A worker's code may begin a nested run in another thread, so each method holds the lock of all books.
"""

from asyncio import AbstractEventLoop, get_running_loop
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from operator import add, sub
from threading import Lock

import anyio

from podium.budget.limits import Limits
from podium.budget.spend import NOTHING, Remaining, Spend
from podium.errors import LimitExceeded


@dataclass(slots=True, eq=False)
class Reservation:
    """What is set aside for one call until it is settled."""

    amount: Spend
    books_itself: bool = False
    """Whether the call books what it spends itself, so that settling it books nothing."""
    settled: bool = False
    released: bool = False
    """Whether nothing is set aside any more, though the call goes on."""
    counts: "Sequence[_Counts]" = ()
    """What it counts as in each of the ledger's books."""


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
    _limited: frozenset[str] = field(init=False, repr=False)
    """Names of what is limited in any of them."""
    _lock: Lock = field(init=False, repr=False)
    """One for all books."""
    _before: "_Counts" = field(init=False, repr=False, default=(0, 0, 0, 0, 0))
    """What was spent before this ledger was made."""

    def __post_init__(self) -> None:
        above = () if self.parent is None else self.parent._books  # noqa: SLF001 - of its own kind
        self._lock = Lock() if self.parent is None else self.parent._lock  # noqa: SLF001 - as above
        self._books = (_Book(self.limits, nested=bool(above)), *above)
        self._limited = frozenset(_NAMES[index] for book in self._books for index, _ in book.most)

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
        return _told(self._books[0].spent)

    @property
    def added(self) -> Spend:
        """What of `spent` was spent since this ledger was made: it is booked in the runs around, too."""
        return _told(tuple(map(sub, self._books[0].spent, self._before)))

    @property
    def reserved(self) -> Spend:
        """What is set aside for calls under way."""
        return _told(self._books[0].reserved)

    @property
    def left(self) -> Remaining:
        """What may still be spent beyond what is reserved, here and in all this ledger is nested in."""
        free: list[int | None] = [None] * len(_NAMES)
        for book in self._books:
            for index, most in book.most:
                amount, least = book.free(index, most), free[index]
                free[index] = amount if least is None else min(amount, least)
        calls, read, written, cost = free
        steps = min([max(book.limits.steps - book.steps, 0) for book in self._books])
        return Remaining(steps, calls, read, written, None if cost is None else cost / _BILLION)

    def limits_any(self, *names: str) -> bool:
        """Say whether one of these fields of `Limits` is set, here or in what this ledger is nested in.

        Args:
            names: of what calls spend: `calls`, `input_tokens`, `output_tokens`, `cost`.
        """
        return not self._limited.isdisjoint(names)

    def start_step(self, *, last: bool = False) -> None:
        """Book one step.

        Args:
            last: whether it is the plan's last, for which one was kept.

        Raises:
            LimitExceeded: the run has started as many as it may.
        """
        books, own = self._books, self._books[0]
        with self._lock:
            for book in books:
                keeps = book.keeps_step and not (last and book is own)
                if book.steps + keeps >= book.limits.steps:
                    besides, most = ", the last kept for its plan's last" if keeps else "", book.limits.steps
                    told = f"{book.whose} has started its {most} steps{besides}"
                    raise LimitExceeded("steps", f"{told}: raise Limits.steps for more")
            if last:
                own.keeps_step = False
            for book in books:
                book.steps += 1

    def reserve(self, worst: Spend | None, *, last: bool = False) -> Reservation:
        """Set aside what a call may spend at most.

        Args:
            worst: its worst case; `None` for a call that books what it spends itself.
            last: whether it is of the plan's last step, for which what was kept is set free.

        Raises:
            LimitExceeded: it does not fit; nothing was booked.
        """
        books, own = self._books, self._books[0]
        with self._lock:
            if worst is None:
                reservation = Reservation(NOTHING, books_itself=True)
            else:
                checked = [book.check(worst, _ZERO if last and book is own else book.kept) for book in books]
                reservation = Reservation(worst, counts=checked)
                for book, counts in zip(books, checked, strict=True):
                    book.reserved = tuple(map(add, book.reserved, counts))
            if last:
                own.kept = _ZERO
        return reservation

    def release(self, reservation: Reservation) -> None:
        """Set free what is set aside for a call that goes on: a run nested in it reserves its own calls."""
        with self._lock:
            if reservation.settled or reservation.released or reservation.books_itself:
                return
            reservation.released = True
            self._free(reservation)

    def _free(self, reservation: Reservation) -> None:
        self._books[-1].wake()
        for book, reserved in zip(self._books, reservation.counts, strict=True):
            book.reserved = tuple(map(sub, book.reserved, reserved))

    def settle(self, reservation: Reservation, spent: Spend) -> None:
        """Put what a call came to in the place of what was set aside for it; once settled, it stays so.

        A call whose cost turned out unknown counts against the limit as what was set aside.
        """
        with self._lock:
            if reservation.settled:
                return
            reservation.settled = True
            if reservation.books_itself:
                return
            if not reservation.released:
                self._free(reservation)
            worst = reservation.amount.cost
            for book in self._books:
                book.spent = tuple(map(add, book.spent, book.counts(spent, worst)))

    async def freed(self) -> bool:
        """Wait until a call under way anywhere in the run is settled, which may leave room for another.

        Returns:
            `False`, at once, where no call is under way.
        """
        outermost = self._books[-1]  # every call of the run is booked there too
        waiter = get_running_loop(), anyio.Event()
        with self._lock:
            if outermost.reserved == _ZERO:
                return False
            outermost.waiters.append(waiter)
        try:
            await waiter[1].wait()
        finally:
            with self._lock:
                if waiter in outermost.waiters:
                    outermost.waiters.remove(waiter)
        return True

    def keep(self, amount: Spend) -> None:
        """Keep this much for the last step, in place of what was kept before.

        No other call of this run is let near it. The runs this one is nested in keep nothing
        for it. With a call, a step is kept too.
        """
        own = self._books[0]
        own.kept = own.counts(amount)
        own.keeps_step = amount.calls > 0

    def charge(self, spent: Spend, *, steps: int = 0) -> None:
        """Book what was spent before this ledger was made, as by a run that is resumed.

        That may be more than the limits allow; then nothing more can be reserved. A run around this
        one has booked it already, or did not spend it: it is booked here only.

        Args:
            spent: what was spent.
            steps: how many steps were started.

        Raises:
            LimitExceeded: its cost is unknown, is limited, and no one says what that counts as.
        """
        own = self._books[0]
        own.check_known(spent)
        with self._lock:
            counts = own.counts(spent)
            own.spent = tuple(map(add, own.spent, counts))
            own.steps += steps
            self._before = tuple(map(add, self._before, counts))


_Counts = tuple[int, ...]
"""Calls, input tokens, output tokens, money in whole billionths of a dollar, so that it balances, and of
how many calls that is not known."""
_NAMES = ("calls", "input_tokens", "output_tokens", "cost")
"""What `Spend` and `Limits` call them."""
_BILLION = 1_000_000_000
_ZERO: _Counts = (0, 0, 0, 0, 0)


def _told(counts: _Counts) -> Spend:
    calls, read, written, money, unknown = counts
    return Spend(calls, read, written, None if unknown else money / _BILLION)


class _Book:
    """One run's own limits, and what counts against them."""

    __slots__ = ("keeps_step", "kept", "limits", "most", "reserved", "spent", "steps", "waiters", "whose")

    def __init__(self, limits: Limits, *, nested: bool) -> None:
        self.limits = limits
        cost = None if limits.cost is None else round(limits.cost * _BILLION)
        most = (limits.calls, limits.input_tokens, limits.output_tokens, cost)
        self.most = [(index, limit) for index, limit in enumerate(most) if limit is not None]
        """The limits that are set, by their place among the counts."""
        self.whose = "the nested run" if nested else "the run"
        self.steps = 0
        self.spent = _ZERO
        self.reserved = _ZERO
        self.kept = _ZERO
        self.keeps_step = False
        self.waiters: list[tuple[AbstractEventLoop, anyio.Event]] = []
        """What to set when the next call is settled, and the event loop that waits for it."""

    def wake(self) -> None:
        """Let all go on that wait for a call to be settled."""
        for loop, event in self.waiters:
            loop.call_soon_threadsafe(event.set)
        self.waiters.clear()

    def counts(self, amount: Spend, otherwise: float | None = None) -> _Counts:
        """Return what an amount counts as here; of unknown cost, as `otherwise`, else as the limits say."""
        cost = otherwise if amount.cost is None else amount.cost
        if cost is None:
            cost = (self.limits.unpriced or 0.0) * amount.calls
        money = round(cost * _BILLION) if cost else 0
        return (amount.calls, amount.input_tokens, amount.output_tokens, money, amount.cost is None)

    def free(self, index: int, most: int, kept: _Counts = _ZERO) -> int:
        """Return what is neither spent, nor reserved, nor kept of a limit."""
        return max(most - self.spent[index] - self.reserved[index] - kept[index], 0)

    def check(self, worst: Spend, kept: _Counts) -> _Counts:
        """Return what it counts as; raise `LimitExceeded` unless it fits besides what is kept."""
        if worst.cost is None:
            self.check_known(worst)
        needed, spent, reserved = self.counts(worst), self.spent, self.reserved
        for index, most in self.most:
            free = most - spent[index] - reserved[index] - kept[index]
            if free < needed[index] > 0:
                raise self._refused(index, needed[index], max(free, 0), kept[index])
        return needed

    def _refused(self, index: int, needed: int, free: int, kept: int) -> LimitExceeded:
        name, most = _NAMES[index], dict(self.most)[index]
        besides = f", besides {_amount(name, kept)} kept for the plan's last step" if kept else ""
        message = (
            f"a call may come to {_amount(name, needed)}, and {self.whose} has {_amount(name, free)} "
            f"left of its {_amount(name, most)}{besides}: raise Limits.{name} for more"
        )
        return LimitExceeded(name, message)

    def check_known(self, amount: Spend) -> None:
        """Raise `LimitExceeded` for an unknown cost that counts as nothing anyone has chosen."""
        if amount.cost is None and self.limits.cost is not None and self.limits.unpriced is None:
            message = (
                f"{self.whose} is held to ${self.limits.cost:g}, and the price of a call is unknown: "
                "put a price on the worker's card, or say with Limits.unpriced what it counts as, in USD"
            )
            raise LimitExceeded("unpriced", message)


def _amount(name: str, count: int) -> str:
    if name == "cost":
        return f"${count / _BILLION:.9f}".rstrip("0").rstrip(".")
    word = name.replace("_", " ")
    return f"{count:,} {word.removesuffix('s') if count == 1 else word}"
