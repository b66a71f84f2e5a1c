"""The shared ledger of all keys: admits and settles requests in batches, on any number of replicas.

While one transaction is committed, further requests wait for the next. When the lease of a replica has ended,
or its process, another replica settles its reservations.
"""

import logging
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

import anyio
from anyio.abc import TaskGroup

from podium.errors import JournalError, PodiumError
from podium.journal.sql.lease import Lease
from podium_server.keys.batch import Answer, Batch, Bid, Grant
from podium_server.keys.bills import Bill
from podium_server.keys.key_store import KeyStore

LOGGER = logging.getLogger("podium")
_MOST = 200
"""Maximum requests of one batch."""
_CLOSE_SECONDS = 5.0
_RETRY_SECONDS = 1.0
_GATHER_SECONDS = 0.05
"""How long a bill waits for the next admission, which is then written by the same transaction."""


@dataclass(slots=True, eq=False)
class _Waiting:
    """A request that waits for its admission."""

    bid: Bid
    done: anyio.Event = field(default_factory=anyio.Event)
    answer: Answer | PodiumError | None = None


class Ledger:
    """Admits and settles requests of keys. `async with ledger:` starts its task.

    Args:
        store: the database.
    """

    def __init__(self, store: KeyStore) -> None:
        self._store = store
        self.lease: Lease
        """The lease of this process, which holds the reservations."""
        self._opened = AsyncExitStack()
        self._bids: list[_Waiting] = []
        self._bills: list[Bill] = []
        self._woken = anyio.Event()
        self._has_bids = anyio.Event()
        self._is_idle = anyio.Event()
        self._tasks: TaskGroup | None = None

    async def admit(self, bid: Bid) -> Grant:
        """Admit a request, or raise the reservation of an admitted request.

        Raises:
            KeyRefused: a limit of the key is reached, or the key is revoked.
            JournalError: the database cannot be used.
        """
        waiting = _Waiting(bid)
        self._bids.append(waiting)
        self._woken.set()
        self._has_bids.set()
        try:
            await waiting.done.wait()
        except BaseException:  # a cancelled request that may be admitted: free its reservation
            if bid.raised is None:
                self.settle(bid.unused())
            raise
        if isinstance(waiting.answer, Grant):
            return waiting.answer
        assert waiting.answer is not None
        raise waiting.answer

    def settle(self, bill: Bill) -> None:
        """Settle a request, with the next batch. If the process dies before, its lease ends."""
        self._bills.append(bill)
        self._woken.set()

    def start(self, work: Callable[..., Coroutine[Any, Any, None]], *arguments: object) -> None:
        """Start a task that ends with the ledger."""
        assert self._tasks is not None
        self._tasks.start_soon(work, *arguments)

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._store)
            self.lease = await stack.enter_async_context(self._store.journal.leased())
            self._tasks = anyio.create_task_group()
            await self._tasks.__aenter__()
            self._opened = stack.pop_all()
        self._tasks.start_soon(self._commit_batches)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._tasks is not None
        try:
            with anyio.move_on_after(_CLOSE_SECONDS):
                while self._bids or self._bills or not self._is_idle.is_set():
                    self._woken.set()
                    await anyio.sleep(0.01)
            self._tasks.cancel_scope.cancel()
            await self._tasks.__aexit__(None, None, None)  # an error of the block is not a group
        finally:
            await self._opened.__aexit__(kind, error, traceback)

    async def _commit_batches(self) -> None:
        while True:
            self._is_idle.set()
            await self._woken.wait()
            self._is_idle = anyio.Event()
            with anyio.move_on_after(_GATHER_SECONDS):
                await self._has_bids.wait()
            bids, self._bids = self._bids[:_MOST], self._bids[_MOST:]
            bills, self._bills = self._bills[:_MOST], self._bills[_MOST:]
            if not self._bids:
                self._has_bids = anyio.Event()
            if not (self._bids or self._bills):
                self._woken = anyio.Event()
            if not await self._commit(bids, bills):
                self._bills[:0] = bills
                await anyio.sleep(_RETRY_SECONDS)
                self._woken.set()

    async def _commit(self, waiting: list[_Waiting], bills: list[Bill]) -> bool:
        """Commit a batch, and return whether the database was usable."""
        if not (waiting or bills):
            return True
        bids = [each.bid for each in waiting]
        answers: dict[str, Answer] = {}
        failure: PodiumError | None = None
        try:
            async with self._store.opened() as database:
                await self.lease.keep(patience=database.patience)  # without it, others settle reservations
                batch = Batch(bids, bills, self.lease.holder, database.now, database.for_update)
                answers = await database.transaction(batch.commit)
        except JournalError as error:
            failure = error
            LOGGER.warning("the ledger of API keys cannot be written: %s", error)
            unused = [bid.unused() for bid in bids if bid.raised is None]
            self._bills += unused  # the transaction may have been committed
        for each in waiting:
            each.answer = failure or answers[each.bid.turn_id]
            each.done.set()
        return failure is None
