"""Counts what a run has spent and reserved, and enforces its limits."""

from asyncio import AbstractEventLoop, get_running_loop
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from operator import add, sub
from threading import Lock
from typing import Literal, NamedTuple

import anyio

from podium.budget.limits import NOTHING, Limits, Remaining, Spend
from podium.errors import LimitExceeded
from podium.usage import Usage

Charged = Literal["usage", "received", "reservation"]
"""What a call is charged for.

- `usage`: the reported usage, or nothing if the call used no tokens.
- `received`: no valid usage was reported, and the whole response was received: its text bounds the answer.
- `reservation`: no valid usage was reported, and the call may have used as much as was reserved.
"""
UNREPORTED: dict[Charged, str] = {
    "reservation": "charged at the reservation: no valid usage reported",
    "received": "charged by the received text: no valid usage reported",
}
"""The charges of calls whose usage was not reported, in words; the weakest first."""


def charged_by(usage: Usage) -> Charged:
    """Return what a call with a complete answer is charged for."""
    return "reservation" if usage.estimated else "usage"


def weakest(charged: Iterable[Charged]) -> Charged:
    """Return what several calls are charged for: the least known of them."""
    found = set(charged)
    return next((each for each in UNREPORTED if each in found), "usage")


def charge(reserved: Spend, usage: Usage, cost: float | None, charged: Charged) -> Spend:
    """Return what counts for a call: at `reservation`, the larger of the reservation and the estimate."""
    told = Spend.of(usage, reserved.cost if cost is None else cost, calls=reserved.calls)
    if charged != "reservation":
        return told
    known = [cost for cost in (told.cost, reserved.cost) if cost is not None]
    return Spend(
        told.calls,
        max(told.input_tokens, reserved.input_tokens),
        max(told.output_tokens, reserved.output_tokens),
        max(known, default=None),
    )


def beside_nested(
    usage: Usage, cost: float | None, nested: Spend, price: Callable[[Usage], float | None]
) -> tuple[Usage, float | None, Spend]:
    """Return the usage and cost of a call with nested runs, and the part that they have not counted.

    The worker may report the spending of the nested runs completely, in part, or not at all. So the amount of
    the call is the larger of the reported amount and the amount of the nested runs.
    """
    read, written = usage.total_input_tokens, usage.total_output_tokens
    if read < nested.input_tokens or written < nested.output_tokens:  # the report is incomplete
        known = Usage() if usage.estimated else usage  # an estimate is not a report
        read = max(known.total_input_tokens, nested.input_tokens)
        written = max(known.total_output_tokens, nested.output_tokens)
        usage = Usage(read, written)
    own = Usage(read - nested.input_tokens, written - nested.output_tokens)
    own_cost = price(own) if cost is None else max(cost - (nested.cost or 0.0), 0.0)
    whole = None if own_cost is None or nested.cost is None else own_cost + nested.cost
    return usage, whole, Spend.of(own, own_cost, calls=int(own != Usage() or own_cost != 0))


Counts = tuple[int, ...]
"""Calls, input tokens, output tokens, cost in billionths of a dollar (an integer, so sums are exact), and
the number of calls with unknown cost."""
NAMES = ("calls", "input_tokens", "output_tokens", "cost")
"""The names of the counts in `Spend` and `Limits`."""
BILLION = 1_000_000_000
ZERO: Counts = (0, 0, 0, 0, 0)


def told_spend(counts: Counts) -> Spend:
    """Return counts as an amount; its cost is unknown if the cost of one call is unknown."""
    calls, read, written, money, unknown = counts
    return Spend(calls, read, written, None if unknown else money / BILLION)


class Kept(NamedTuple):
    """What a run keeps for calls that it has not made yet."""

    amounts: Sequence[Spend] = ()
    steps: int = 0
    """The number of steps that are not started yet."""


NO_NEEDS = Kept()
TOGETHER = "the call, and the steps that the answer needs besides, need at least"
"""What needs the amounts of a call and of the calls after it, for errors."""


class Book:
    """The limits of one run, and the amounts that count against them."""

    __slots__ = ("keeps", "limits", "most", "reserved", "spent", "steps", "waiters")

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        cost = None if limits.cost is None else round(limits.cost * BILLION)
        most = (limits.calls, limits.input_tokens, limits.output_tokens, cost)
        self.most = [(index, limit) for index, limit in enumerate(most) if limit is not None]
        """The limits that are set, each with its index in `Counts`."""
        self.steps = 0
        self.spent = ZERO
        self.reserved = ZERO
        self.keeps: Callable[[], Kept] | None = None
        """Returns what the run keeps from its nested runs."""
        self.waiters: list[tuple[AbstractEventLoop, anyio.Event]] = []
        """The events to set when the next call is settled, each with its event loop."""

    def counts(self, amount: Spend, otherwise: float | None = None) -> Counts:
        """Return an amount as counts; an unknown cost counts as `otherwise`, or as `Limits.unpriced`."""
        cost = otherwise if amount.cost is None else amount.cost
        if cost is None:
            cost = (self.limits.unpriced or 0.0) * amount.calls
        money = round(cost * BILLION) if cost else 0
        return (amount.calls, amount.input_tokens, amount.output_tokens, money, amount.cost is None)

    def total(self, amounts: Sequence[Spend], whose: str = "") -> Counts:
        """Return the sum; raise `LimitExceeded` if the cost is unknown, and limited in `whose` run."""
        total, limits = ZERO, self.limits
        for amount in amounts:
            if whose and amount.cost is None and limits.cost is not None and limits.unpriced is None:
                message = (
                    f"{whose} is limited to ${limits.cost:g}, and the price of a call is unknown: "
                    "set the `price` of the worker, `most_cost` for a coding agent, or set Limits.unpriced, "
                    "the assumed cost of such a call in USD"
                )
                raise LimitExceeded("unpriced", message)
            counts = self.counts(amount)
            total = counts if total is ZERO else tuple(map(add, total, counts))
        return total


def amount_text(name: str, count: int) -> str:
    """Return a count with its unit."""
    if name == "cost":
        return f"${count / BILLION:.9f}".rstrip("0").rstrip(".")
    word = name.replace("_", " ")
    return f"{count:,} {word.removesuffix('s') if count == 1 else word}"


@dataclass(slots=True, eq=False)
class Reservation:
    """The amount that is reserved for one call until the call is settled."""

    amount: Spend
    books_itself: bool = False
    """Whether the call counts its own spending in the ledger; settling the call then counts nothing."""
    settled: bool = False
    released: bool = False
    """Whether the reservation was freed before the call has ended."""
    counts: Sequence[Counts] = ()
    """The amount as counted in each of the ledger's books."""


@dataclass(slots=True)
class Ledger:
    """What a run and its nested runs have spent and reserved."""

    limits: Limits
    deadline: float
    """Time by which the run must end, on the event loop's clock, in seconds."""
    parent: "Ledger | None" = None
    """The ledger of the outer run; amounts of this ledger count there as well."""
    allows: Callable[[float], Awaitable[None]] | None = None
    """See `RunOptions.allows`."""
    _books: tuple[Book, ...] = field(init=False, repr=False)
    """The book of this run, then the books of the outer runs, from the nearest."""
    _lock: Lock = field(init=False, repr=False)
    """One lock for all books."""
    _before: Counts = field(init=False, repr=False, default=ZERO)
    """What the run spent before it was resumed with this ledger."""

    def __post_init__(self) -> None:
        above = () if self.parent is None else self.parent._books  # noqa: SLF001 - another object of this class
        self._lock = Lock() if self.parent is None else self.parent._lock  # noqa: SLF001 - as above
        self._books = (Book(self.limits), *above)

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
        return told_spend(self._books[0].spent)

    @property
    def added(self) -> Spend:
        """The part of `spent` since this ledger was created, which the outer runs count as well."""
        return told_spend(tuple(map(sub, self._books[0].spent, self._before)))

    @property
    def reserved(self) -> Spend:
        """What is reserved for running calls."""
        return told_spend(self._books[0].reserved)

    @property
    def is_calling(self) -> bool:
        """Whether a call of the run, of an outer run or of a nested run has a reservation."""
        return self._books[-1].reserved != ZERO

    @property
    def left(self) -> Remaining:
        """What may still be spent, without the reserved amounts, by the limits of this and the outer runs."""
        return self.spare()

    def limits_any(self, *names: str) -> bool:
        """Return whether one of these fields of `Limits` is set, for this run or an outer run."""
        return any(NAMES[index] in names for book in self._books for index, _ in book.most)

    def spare(self, *amounts: Spend, steps: int = 0, what: str = "a call may need") -> Remaining:
        """Return what is left beside calls and starts of steps; `what` needs them, for `LimitExceeded`."""
        rest: list[int | None] = [None] * len(NAMES)
        starts = self.limits.steps
        for book, kept in self._kept():
            free = max(book.limits.steps - book.steps - kept.steps, 0)
            if free < steps:
                raise self._refused(book, what, "steps", (steps, free, book.limits.steps, kept.steps))
            starts = min(starts, free - steps)
            needed, held = book.total(amounts, self._whose(book)), book.total(kept.amounts)
            for index, most in book.most:
                free = max(most - book.spent[index] - book.reserved[index] - held[index], 0)
                if free < needed[index] > 0:
                    raise self._refused(book, what, NAMES[index], (needed[index], free, most, held[index]))
                before, free = rest[index], free - needed[index]
                rest[index] = free if before is None else min(before, free)
        calls, read, written, cost = rest
        return Remaining(starts, calls, read, written, None if cost is None else cost / BILLION)

    def keep(self, keeps: Callable[[], Kept] | None) -> None:
        """Set the function that returns what the run keeps from its nested runs; `None` keeps nothing."""
        self._books[0].keeps = keeps

    def reserve(self, worst: Spend | None, *besides: Spend, starts: int = 0, steps: int = 0) -> Reservation:
        """Reserve what a call may spend, `None` if it does so itself; `besides` and `steps` must fit, too."""
        what = TOGETHER if besides else "a call may need"
        amounts = besides if worst is None else (worst, *besides)
        with self._lock:
            self.spare(*amounts, steps=starts + steps, what=what)
            reservation = Reservation(worst or NOTHING, books_itself=worst is None)
            reservation.counts = [book.counts(reservation.amount) for book in self._books]
            for book, counts in zip(self._books, reservation.counts, strict=True):
                book.steps += starts
                book.reserved = tuple(map(add, book.reserved, counts))
        return reservation

    async def allow(self) -> None:
        """Ask whether a further call may start; see `RunOptions.allows`."""
        if self.allows is not None:
            index = NAMES.index("cost")
            await self.allows((self._books[0].spent[index] - self._before[index]) / BILLION)
        if self.parent is not None:
            await self.parent.allow()

    def release(self, reservation: Reservation) -> None:
        """Free the reservation of a running call, whose nested run reserves its own calls."""
        with self._lock:
            if reservation.settled or reservation.released or reservation.books_itself:
                return
            reservation.released = True
            self._free(reservation)

    def _free(self, reservation: Reservation) -> None:
        waiters = self._books[-1].waiters
        for loop, event in waiters:
            loop.call_soon_threadsafe(event.set)
        waiters.clear()
        for book, reserved in zip(self._books, reservation.counts, strict=True):
            book.reserved = tuple(map(sub, book.reserved, reserved))

    def settle(self, reservation: Reservation, spent: Spend) -> None:
        """Replace a call's reservation, once, by its actual amount; the reserved cost for an unknown one."""
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
        """Wait until a running call is settled, and return whether there was one."""
        outermost = self._books[-1]  # counts every call of the run
        waiter = get_running_loop(), anyio.Event()
        with self._lock:
            if outermost.reserved == ZERO:
                return False
            outermost.waiters.append(waiter)
        try:
            await waiter[1].wait()
        finally:
            with self._lock:
                if waiter in outermost.waiters:
                    outermost.waiters.remove(waiter)
        return True

    def charge(self, spent: Spend, *, steps: int = 0) -> None:
        """Count what a resumed run spent earlier, in this run only; the amount may exceed the limits."""
        own = self._books[0]
        counts = own.total([spent], self._whose(own))
        with self._lock:
            own.spent = tuple(map(add, own.spent, counts))
            own.steps += steps
            self._before = tuple(map(add, self._before, counts))

    def _kept(self) -> Iterator[tuple[Book, Kept]]:
        """Yield each book, with what the outer runs keep in it for their other steps."""
        amounts, steps = list[Spend](), 0
        for book in self._books:
            if book.keeps is not None and book is not self._books[0]:
                kept = book.keeps()
                amounts, steps = [*amounts, *kept.amounts], steps + kept.steps
            yield book, Kept(amounts, steps)

    def _refused(self, book: Book, what: str, name: str, counts: tuple[int, int, int, int]) -> LimitExceeded:
        needed, free, most, kept = (amount_text(name, count) for count in counts)
        besides = f" (another {kept} kept for the steps that the answer needs)" if counts[-1] else ""
        left = f"{self._whose(book)} has {free} left of its {most}{besides}"
        return LimitExceeded(name, f"{what} {needed}, and {left}: raise Limits.{name} for more")

    def _whose(self, book: Book) -> str:
        if book is not self._books[0]:
            return "the outer run"
        return "the run" if self.parent is None else "the nested run"
