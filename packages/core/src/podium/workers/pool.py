"""The numbered workers of a run, with their limits, histories and circuit breakers."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any, NamedTuple, Self

import anyio

from podium.aio.loops import LoopLocal, ResourceGroup
from podium.budget.limits import Limits, Spend
from podium.errors import ConfigError, PodiumError, WorkerUnavailable
from podium.policy.rules import AnswerLabels
from podium.secrets import scrub
from podium.types.forecast import Amounts
from podium.types.plan import check_unlike
from podium.types.schemas import Form
from podium.usage import Usage
from podium.workers.person import PersonWorker
from podium.workers.worker import Card, Worker

KEPT = 256
"""Maximum number of calls that are kept for one worker."""


class CallRecord(NamedTuple):
    """The duration, usage and cost of one call."""

    seconds: float
    ok: bool
    """Whether the call returned an answer."""
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = None
    """In USD; `None` if it is unknown."""


class CallHistory:
    """The recent calls of one worker, in all runs of its pool."""

    def __init__(self) -> None:
        self._calls: deque[CallRecord] = deque(maxlen=KEPT)

    @property
    def calls(self) -> tuple[CallRecord, ...]:
        """The calls, oldest first."""
        return tuple(self._calls)

    def add(self, took: CallRecord) -> None:
        """Add a call; if there are too many, drop the oldest call."""
        self._calls.append(took)

    def output_tokens(self, quantile: float) -> int | None:
        """Return a quantile of the lengths of answers, in tokens; `None` if there are no answers."""
        lengths = sorted([call.output_tokens for call in self._calls if call.ok])
        return lengths[min(int(quantile * len(lengths)), len(lengths) - 1)] if lengths else None


class CircuitBreaker:
    """Counts consecutive failures, and decides whether the worker may be called."""

    __slots__ = ("_last", "_probed", "failures", "is_down")

    def __init__(self) -> None:
        self.failures = 0
        """Number of consecutive failures up to the latest call."""
        self.is_down = False
        """Whether no connection could be made for the latest call; see `WorkerUnavailable.is_down`."""
        self._last = -inf
        self._probed: anyio.Event | None = None

    def rest(self, now: float, after: int | None, seconds: float) -> float:
        """Return the seconds until the worker may be called; infinite during a test call."""
        if after is None or self.failures < after:
            return 0.0
        if self._probed is not None:
            return inf
        return max(0.0, self._last + seconds - now)

    def called(self, after: int | None) -> bool:
        """Record the start of a call; return whether it is the test call."""
        if after is None or self.failures < after or self._probed is not None:
            return False
        self._probed = anyio.Event()
        return True

    async def tried(self) -> None:
        """Wait for the end of the test call, if there is one."""
        if self._probed is not None:
            await self._probed.wait()

    def ended(self, now: float, *, well: bool | None, tried: bool, error: PodiumError | None = None) -> None:
        """Record the end of a call."""
        is_local = isinstance(error, WorkerUnavailable) and error.is_local
        if well is not None and not is_local:
            self.is_down = isinstance(error, WorkerUnavailable) and error.is_down
            self.failures = 0 if well else self.failures + 1
            self._last = now
        if tried and self._probed is not None:
            self._probed.set()
            self._probed = None


@dataclass(slots=True)
class Overlong:
    """The answers of a run that exceeded their token limit, which some servers ignore."""

    _most: dict[str, int] = field(default_factory=dict)

    def note(self, card: Card | None, reserved: Spend, usage: Usage) -> None:
        """Record an answer if it was longer than its reservation."""
        written = usage.total_output_tokens
        if card is not None and 0 < reserved.output_tokens < written:
            self._most[card.name] = max(self._most.get(card.name, 0), written)

    def worst_case(self, card: Card | None, worst: Spend) -> Spend:
        """Return the reservation for another call, whose answer may be as long as the longest so far."""
        written, cost = 0 if card is None else self._most.get(card.name, 0), worst.cost
        if card is None or not 0 < worst.output_tokens < written:
            return worst
        if cost is not None:
            cost = max(cost, card.most(worst.input_tokens, written) or 0.0)
        return replace(worst, output_tokens=written, cost=cost)


def unpriced(cards: Iterable[Card | None]) -> tuple[str, ...]:
    """Return the names of the cards without a price and a maximum, in alphabetical order."""
    return tuple(sorted({card.name for card in cards if card is not None and card.most(0, 0) is None}))


def check_prices(limits: Limits, cards: Iterable[Card | None]) -> None:
    """Check that all prices are known if the run has a cost limit."""
    if limits.cost is None or limits.unpriced is not None:
        return
    if unknown := unpriced(cards):
        raise ConfigError(
            f"the cost is limited to ${limits.cost:g} (Limits.cost), and the price of "
            f"{', '.join(map(repr, unknown))} is unknown: set its `price` (0 if it costs nothing), "
            "`most_cost` for a coding agent, or set Limits.unpriced, the assumed cost of such a call in USD"
        )


class WorkerState:
    """The concurrency limit, the circuit breaker and the call history of one worker."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.history = CallHistory()
        self._breakers = LoopLocal(CircuitBreaker)
        self._slots = LoopLocal(self._new_slot)

    @property
    def breaker(self) -> CircuitBreaker:
        """The circuit breaker for all runs of this event loop."""
        return self._breakers.get()

    @property
    def slot(self) -> anyio.Semaphore | None:
        """The semaphore that limits the concurrent calls of this event loop; `None` means no limit."""
        return self._slots.get()

    def _new_slot(self) -> anyio.Semaphore | None:
        concurrency = self.worker.card.concurrency
        return None if concurrency is None else anyio.Semaphore(concurrency, fast_acquire=True)


class Pool(ResourceGroup):
    """Workers, numbered from 0 in the given order.

    Entering the pool enters its workers; it may be entered any number of times.

    Args:
        workers: the workers.
        shares: another pool. Workers of both pools have one concurrency limit, circuit breaker and call
            history for both, and both know the same answers. `None` shares nothing.
        answers: the labels of the latest answers, of pools that follow each other.

    Raises:
        ConfigError: there is no worker, or two workers have the same name.
    """

    def __init__(
        self, workers: Sequence[Worker], *, shares: Self | None = None, answers: AnswerLabels | None = None
    ) -> None:
        if isinstance(workers, Worker):
            raise ConfigError(f"a pool needs a list of workers: write [{type(workers).__name__}(...)]")
        if not workers:
            raise ConfigError("a pool needs at least one worker: pass workers=[...]")
        for worker in workers:
            _check_worker(worker)
        self.workers = tuple(workers)
        self.cards: tuple[Card, ...] = tuple(worker.card for worker in workers)
        self.names = tuple(card.name for card in self.cards)
        twice = {name for name in self.names if self.names.count(name) > 1}
        if twice:
            told = ", ".join(repr(name) for name in sorted(twice))
            how = "name one of them otherwise, as in as_worker(x, name=...) or Card(name=...)"
            raise ConfigError(f"two workers have the name {told}: {how}")
        check_unlike(self.names, "names of two workers")
        check_unlike(sorted({label for card in self.cards for label in card.labels}), "labels of workers")
        shared = () if shares is None else shares.states
        known = {id(state.worker): state for state in shared}
        own = tuple(known.get(id(worker)) or WorkerState(worker) for worker in workers)
        self.states: tuple[WorkerState, ...] = (*own, *(state for state in shared if state not in own))
        """The states of these workers, and after them those of the other workers of the shared pool."""
        self.answers: AnswerLabels = (answers or AnswerLabels()) if shares is None else shares.answers
        """The labels of the latest answers, in memory."""
        self.past_rounds: deque[tuple[str, Amounts]] = deque(maxlen=KEPT)
        """What rounds of workflows spent, each with the key of its plan."""
        self.is_recalled = False
        """Whether the histories have the calls in the journal's latest runs."""

    def __len__(self) -> int:
        return len(self.workers)

    def __iter__(self) -> Iterator[Worker]:
        return iter(self.workers)

    def __getitem__(self, number: int) -> Worker:
        return self.workers[number]

    @property
    def forms(self) -> tuple[Form | None, ...]:
        """The forms of the outputs of the workers; `None` for any text."""
        return tuple(card.form for card in self.cards)

    @property
    def waits_for(self) -> str | None:
        """The name of a person for whose answers runs wait in their journal; `None` without one."""
        persons = (worker for worker in self.workers if isinstance(worker, PersonWorker))
        return next((person.card.name for person in persons if person.ask is None), None)

    def past(self, plan_key: str) -> list[Amounts]:
        """Return what the latest rounds with a plan spent."""
        return [amounts for key, amounts in self.past_rounds if key == plan_key]

    def state_of(self, card: Card) -> WorkerState | None:
        """Return the state of the worker with this card, here or in the shared pool; `None` without one."""
        return next((state for state in self.states if state.worker.card is card), None)

    def card_of(self, name: str, number: int) -> Card:
        """Return the card of the worker with this name; if there is none, the card of worker `number`."""
        return self.cards[self.names.index(name) if name in self.names else number]

    def _parts(self) -> Sequence[AbstractAsyncContextManager[Any]]:
        return self.workers


def _check_worker(worker: object) -> None:
    if not isinstance(worker, Worker):
        hint = ": wrap it in a FunctionWorker" if callable(worker) else ""
        raise ConfigError(f"{scrub(repr(worker)):.80} is not a worker{hint}")
    if not isinstance(getattr(worker, "card", None), Card):
        raise ConfigError(f"{type(worker).__name__} has no card: set `card = Card(name=...)`")
