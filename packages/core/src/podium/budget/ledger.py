"""Counts what a run has spent and reserved, and enforces its limits.

One ledger covers a whole run: its rounds, retries, fallbacks, planner calls and nested
runs. Before a call, the most that the call can spend (its worst case) is reserved. After the call, the actual
amount replaces the reservation.

A worker's code may start a nested run in another thread, so each method holds the lock of all books.
"""

from asyncio import AbstractEventLoop, get_running_loop
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import add, sub
from threading import Lock

import anyio

from podium.budget.limits import Limits
from podium.budget.spend import NOTHING, Remaining, Spend
from podium.errors import LimitExceeded


@dataclass(slots=True, eq=False)
class Reservation:
    """The amount that is reserved for one call until the call is settled."""

    amount: Spend
    books_itself: bool = False
    """Whether the call counts its own spending in the ledger; settling the call then counts nothing."""
    settled: bool = False
    released: bool = False
    """Whether the reservation was freed before the call has ended."""
    counts: "Sequence[_Counts]" = ()
    """The amount as counted in each of the ledger's books."""


@dataclass(slots=True)
class Ledger:
    """What a run and its nested runs have spent and reserved."""

    limits: Limits
    deadline: float
    """Time by which the run must end, on the event loop's clock, in seconds."""
    parent: "Ledger | None" = None
    """The ledger of the outer run; amounts of this ledger count there as well."""
    _books: "tuple[_Book, ...]" = field(init=False, repr=False)
    """The book of this run, then the books of the outer runs, from the nearest."""
    _limited: frozenset[str] = field(init=False, repr=False)
    """Names of the limits that are set in any of the books."""
    _lock: Lock = field(init=False, repr=False)
    """One lock for all books."""
    _before: "_Counts" = field(init=False, repr=False, default=(0, 0, 0, 0, 0))
    """What the run spent before it was resumed with this ledger."""

    def __post_init__(self) -> None:
        above = () if self.parent is None else self.parent._books  # noqa: SLF001 - another object of this class
        self._lock = Lock() if self.parent is None else self.parent._lock  # noqa: SLF001 - as above
        self._books = (_Book(self.limits, nested=bool(above)), *above)
        self._limited = frozenset(_NAMES[index] for book in self._books for index, _ in book.most)

    def nested(self, limits: Limits, depth: int, deadline: float) -> "Ledger":
        """Return the ledger of a nested run; the limits of this run and of the nested run apply."""
        deepest = min(self.limits.depth, depth + limits.depth)
        return Ledger(replace(limits, depth=deepest), min(self.deadline, deadline), self)

    @property
    def steps(self) -> int:
        """Steps started so far."""
        return self._books[0].steps

    @property
    def spent(self) -> Spend:
        """What was spent so far; the cost is unknown if the cost of one call is unknown."""
        return _told(self._books[0].spent)

    @property
    def added(self) -> Spend:
        """The part of `spent` since this ledger was created, which the outer runs count as well."""
        return _told(tuple(map(sub, self._books[0].spent, self._before)))

    @property
    def reserved(self) -> Spend:
        """What is reserved for running calls."""
        return _told(self._books[0].reserved)

    @property
    def left(self) -> Remaining:
        """What may still be spent, without the reserved amounts, by the limits of this and the outer runs."""
        free: list[int | None] = [None] * len(_NAMES)
        steps = self._books[0].limits.steps
        for book in self._books:
            is_outer = book is not self._books[0]  # an outer run does not let this run use what it keeps
            kept = book.kept_besides(None) if is_outer and book.kept else _ZERO
            for index, most in book.most:
                amount, least = book.free(index, most, kept), free[index]
                free[index] = amount if least is None else min(amount, least)
            steps = min(steps, book.limits.steps - book.steps - len(book.kept_steps) * is_outer)
        calls, read, written, cost = free
        steps = max(steps, 0)
        return Remaining(steps, calls, read, written, None if cost is None else cost / _BILLION)

    def limits_any(self, *names: str) -> bool:
        """Return whether one of these fields of `Limits` is set, for this run or an outer run.

        Args:
            names: any of `calls`, `input_tokens`, `output_tokens` and `cost`.
        """
        return not self._limited.isdisjoint(names)

    def start_step(self, index: int | None = None) -> None:
        """Count one started step.

        Args:
            index: index of the step in its plan; it may use what is kept for this index.

        Raises:
            LimitExceeded: the run has started the maximum number of steps.
        """
        books, own = self._books, self._books[0]
        with self._lock:
            for book in books:
                kept = len(book.kept_steps - {index} if book is own else book.kept_steps)
                if book.steps + kept >= book.limits.steps:
                    besides = f", {kept} of them kept for the steps that the answer needs" if kept else ""
                    told = f"{book.whose} may start {book.limits.steps} steps{besides}"
                    raise LimitExceeded("steps", f"{told}: raise Limits.steps for more")
            own.kept_steps.discard(index)
            for book in books:
                book.steps += 1

    def reserve(self, worst: Spend | None, index: int | None = None) -> Reservation:
        """Reserve the maximum that a call may spend.

        Args:
            worst: the call's worst case; `None` for a call that counts its own spending.
            index: index of the call's step in its plan; it may use the amount that is kept for this index.

        Raises:
            LimitExceeded: the amount does not fit the limits; nothing is reserved.
        """
        books, own = self._books, self._books[0]
        with self._lock:
            if worst is None:
                reservation = Reservation(NOTHING, books_itself=True)
            else:
                checked = [
                    book.check(worst, book.kept_besides(index if book is own else None)) for book in books
                ]
                reservation = Reservation(worst, counts=checked)
                for book, counts in zip(books, checked, strict=True):
                    book.reserved = tuple(map(add, book.reserved, counts))
            own.kept.pop(index, None)
        return reservation

    def release(self, reservation: Reservation) -> None:
        """Free the reservation of a running call, whose nested run reserves its own calls."""
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
        """Replace a call's reservation by its actual amount. A second call of `settle` has no effect.

        If the actual cost is unknown, the reserved cost counts.
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
        """Wait until any running call is settled, which may free enough for another call.

        Returns:
            Whether the method waited: `False` at once if no call is running.
        """
        outermost = self._books[-1]  # counts every call of the run
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

    def keep(self, amounts: Mapping[int, Spend], steps: Iterable[int] = ()) -> None:
        """Keep amounts for steps of the plan; they replace what was kept before.

        Only the first call of the step may use its amount. The outer runs do not keep it.

        Args:
            amounts: an amount for each index of a step in the plan.
            steps: indices of the steps that must still be started; one start is kept for each.
        """
        own = self._books[0]
        with self._lock:
            own.kept = {index: own.counts(amount) for index, amount in amounts.items()}
            own.kept_steps = set(steps)

    def charge(self, spent: Spend, *, steps: int = 0) -> None:
        """Count what a resumed run spent earlier.

        The amount may exceed the limits; then nothing more can be reserved. The amount counts only in this
        run: the outer runs have counted it already, or did not spend it.

        Args:
            spent: the amount that was spent.
            steps: the number of steps that were started.

        Raises:
            LimitExceeded: the cost is unknown and limited, and `Limits.unpriced` is not set.
        """
        own = self._books[0]
        own.check_known(spent)
        with self._lock:
            counts = own.counts(spent)
            own.spent = tuple(map(add, own.spent, counts))
            own.steps += steps
            self._before = tuple(map(add, self._before, counts))


_Counts = tuple[int, ...]
"""Calls, input tokens, output tokens, cost in billionths of a dollar (an integer, so sums are exact), and
the number of calls with unknown cost."""
_NAMES = ("calls", "input_tokens", "output_tokens", "cost")
"""The names of the counts in `Spend` and `Limits`."""
_BILLION = 1_000_000_000
_ZERO: _Counts = (0, 0, 0, 0, 0)


def _told(counts: _Counts) -> Spend:
    calls, read, written, money, unknown = counts
    return Spend(calls, read, written, None if unknown else money / _BILLION)


class _Book:
    """The limits of one run, and the amounts that count against them."""

    __slots__ = ("kept", "kept_steps", "limits", "most", "reserved", "spent", "steps", "waiters", "whose")

    def __init__(self, limits: Limits, *, nested: bool) -> None:
        self.limits = limits
        cost = None if limits.cost is None else round(limits.cost * _BILLION)
        most = (limits.calls, limits.input_tokens, limits.output_tokens, cost)
        self.most = [(index, limit) for index, limit in enumerate(most) if limit is not None]
        """The limits that are set, each with its index in `_Counts`."""
        self.whose = "the nested run" if nested else "the run"
        self.steps = 0
        self.spent = _ZERO
        self.reserved = _ZERO
        self.kept: dict[int | None, _Counts] = {}
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

    def counts(self, amount: Spend, otherwise: float | None = None) -> _Counts:
        """Return an amount as counts; an unknown cost counts as `otherwise`, or as `Limits.unpriced`."""
        cost = otherwise if amount.cost is None else amount.cost
        if cost is None:
            cost = (self.limits.unpriced or 0.0) * amount.calls
        money = round(cost * _BILLION) if cost else 0
        return (amount.calls, amount.input_tokens, amount.output_tokens, money, amount.cost is None)

    def free(self, index: int, most: int, kept: _Counts) -> int:
        """Return the part of a limit that is not spent, reserved or kept."""
        return max(most - self.spent[index] - self.reserved[index] - kept[index], 0)

    def kept_besides(self, index: int | None) -> _Counts:
        """Return the sum of what is kept for other steps than this one."""
        total = _ZERO
        for step, amount in self.kept.items():
            if step != index:
                total = tuple(map(add, total, amount))
        return total

    def check(self, worst: Spend, kept: _Counts) -> _Counts:
        """Return an amount as counts; raise `LimitExceeded` unless it fits in addition to the kept amount."""
        if worst.cost is None:
            self.check_known(worst)
        needed = self.counts(worst)
        for index, most in self.most:
            if self.free(index, most, kept) < needed[index] > 0:
                raise self._refused(index, needed[index], self.free(index, most, kept), kept[index])
        return needed

    def _refused(self, index: int, needed: int, free: int, kept: int) -> LimitExceeded:
        name, most = _NAMES[index], dict(self.most)[index]
        besides = f" (another {_amount(name, kept)} kept for the steps that the answer needs)" if kept else ""
        message = (
            f"a call may need {_amount(name, needed)}, and {self.whose} has {_amount(name, free)} "
            f"left of its {_amount(name, most)}{besides}: raise Limits.{name} for more"
        )
        return LimitExceeded(name, message)

    def check_known(self, amount: Spend) -> None:
        """Raise `LimitExceeded` if the cost is unknown and limited, and `Limits.unpriced` is not set."""
        if amount.cost is None and self.limits.cost is not None and self.limits.unpriced is None:
            message = (
                f"{self.whose} is limited to ${self.limits.cost:g}, and the price of a call is unknown: "
                "set the `price` of the worker, or set Limits.unpriced, the assumed cost of such a "
                "call in USD"
            )
            raise LimitExceeded("unpriced", message)


def _amount(name: str, count: int) -> str:
    if name == "cost":
        return f"${count / _BILLION:.9f}".rstrip("0").rstrip(".")
    word = name.replace("_", " ")
    return f"{count:,} {word.removesuffix('s') if count == 1 else word}"
