"""The numbered workers of a run, with their concurrency limits, call histories and circuit breakers."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Self

import anyio

from podium.aio.per_loop import LoopLocal
from podium.aio.resources import ResourceGroup
from podium.errors import ConfigError
from podium.policy.answers import AnswerLabels
from podium.secrets import scrub
from podium.types.names import check_unlike
from podium.workers.call_history import CallHistory
from podium.workers.circuit_breaker import CircuitBreaker
from podium.workers.worker import Card, Worker


class WorkerState:
    """The concurrency limit, the circuit breaker and the call history of one worker.

    Args:
        worker: the worker.
    """

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
        return None if self.worker.card.concurrency is None else self._slots.get()

    def _new_slot(self) -> anyio.Semaphore:
        concurrency = self.worker.card.concurrency
        assert concurrency is not None
        return anyio.Semaphore(concurrency, fast_acquire=True)


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
            raise ConfigError("a pool needs at least one worker")
        for worker in workers:
            _check_worker(worker)
        self.workers = tuple(workers)
        self.cards: tuple[Card, ...] = tuple(worker.card for worker in workers)
        self.names = tuple(card.name for card in self.cards)
        twice = {name for name in self.names if self.names.count(name) > 1}
        if twice:
            told = ", ".join(repr(name) for name in sorted(twice))
            raise ConfigError(f"two workers have the name {told}: names must be unique")
        check_unlike(self.names, "names of two workers")
        check_unlike(sorted({label for card in self.cards for label in card.labels}), "labels of workers")
        shared = () if shares is None else shares.states
        known = {id(state.worker): state for state in shared}
        self._own = tuple(known.get(id(worker)) or WorkerState(worker) for worker in workers)
        self.states: tuple[WorkerState, ...] = (*self._own, *(s for s in shared if s not in self._own))
        """The states of these workers, and after them those of the other workers of the shared pool."""
        self.answers: AnswerLabels = (answers or AnswerLabels()) if shares is None else shares.answers
        """The labels of the latest answers, in memory."""

    def __len__(self) -> int:
        return len(self.workers)

    def __iter__(self) -> Iterator[Worker]:
        return iter(self.workers)

    def __getitem__(self, number: int) -> Worker:
        return self.workers[number]

    def history(self, number: int) -> CallHistory:
        """Return the history of a worker's calls in all runs of this pool."""
        return self._own[number].history

    def breaker(self, number: int) -> CircuitBreaker:
        """Return the circuit breaker of a worker for all runs of this event loop."""
        return self._own[number].breaker

    def state_of(self, card: Card) -> WorkerState | None:
        """Return the state of the worker with this card, here or in the shared pool; `None` without one."""
        return next((state for state in self.states if state.worker.card is card), None)

    def card_of(self, name: str, number: int) -> Card:
        """Return the card of the worker with this name; if there is none, the card of worker `number`."""
        return self.cards[self.names.index(name) if name in self.names else number]

    def slot(self, number: int) -> anyio.Semaphore | None:
        """Return the semaphore that limits the concurrent calls of a worker in all runs of this event loop.

        `None` means no limit.
        """
        return self._own[number].slot

    def _parts(self) -> Sequence[AbstractAsyncContextManager[Any]]:
        return self.workers


def _check_worker(worker: object) -> None:
    if not isinstance(worker, Worker):
        hint = ": wrap it in a FunctionWorker" if callable(worker) else ""
        raise ConfigError(f"{scrub(repr(worker)):.80} is not a worker{hint}")
    if not isinstance(getattr(worker, "card", None), Card):
        raise ConfigError(f"{type(worker).__name__} has no card: set `card = Card(name=...)`")


async def take(*slots: anyio.Semaphore | None) -> list[anyio.Semaphore]:
    """Acquire all `slots` in order, and return them, so that the caller can release them; skip `None`."""
    held: list[anyio.Semaphore] = []
    try:
        for slot in slots:
            if slot is not None:
                await slot.acquire()
                held.append(slot)
    except BaseException:  # also after a cancellation: release the acquired slots
        for slot in held:
            slot.release()
        raise
    return held
