"""Settles the requests of replicas that died, and deletes prompts and answers after their time."""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import anyio

from podium.errors import JournalError, RunHeld, RunUnknown
from podium.journal import Journal, Transaction
from podium_server.keys.account import BILLION
from podium_server.keys.batch import Bill
from podium_server.keys.key_store import KeyStore
from podium_server.keys.ledger import Ledger
from podium_server.keys.recorded import recorded_result
from podium_server.keys.turns import Turn, expired_turns, marks

LOGGER = logging.getLogger("podium")
_DELETED_AT_ONCE = 100


class Housekeeping:
    """The background work of a replica.

    Args:
        store: the database of the keys.
        ledger: settles requests.
        journal: records the runs; `None` if runs are not recorded.
    """

    def __init__(self, store: KeyStore, ledger: Ledger, journal: Journal | None) -> None:
        self._store = store
        self._ledger = ledger
        self._journal = journal

    async def run(self, period: float) -> None:
        """Do the work now, and then every `period` seconds; log failures of the database."""
        while True:
            for work in (self.settle_expired, self.forget_expired):
                await _logged(work)
            await anyio.sleep(period)

    async def settle_expired(self) -> int:
        """Settle the requests of replicas whose lease has ended, and return their number.

        A request is charged what the journal has recorded of its run, or otherwise its whole reservation. If
        other requests have continued the run, their charges are left out; one that still runs is awaited.
        """
        async with self._store.opened() as database:
            turns = await database.transaction(
                lambda transaction: expired_turns(transaction, database.now), reads=True
            )
        keys = {key.key_id: key for key in await self._store.keys()} if turns else {}
        expired = {turn.turn_id for turn in turns}
        settled: set[str] = set()
        for turn in turns:
            if turn.key_id not in keys or turn.run_id in settled:
                continue
            others = await self._others(turn)
            if any(other["holder"] is not None and other["turn_id"] not in expired for other in others):
                continue
            settled.add(turn.run_id)
            charged = sum(other["cost"] for other in others if other["holder"] is None)
            cost = await self._recorded_cost(turn, charged)
            self._ledger.settle(Bill(turn.turn_id, keys[turn.key_id], cost, 0, 0, 0))
        return len(settled)

    async def _others(self, turn: Turn) -> Sequence[Mapping[str, Any]]:
        """Return the rows of the other requests for the run of a request."""
        query = "SELECT turn_id, cost, holder FROM podium_turns WHERE run_id = ? AND turn_id <> ?"
        rows: Sequence[Mapping[str, Any]] = await self._store.transaction(
            lambda each: each.fetch(query, turn.run_id, turn.turn_id), reads=True
        )
        return rows

    async def _recorded_cost(self, turn: Turn, charged: int) -> int | None:
        """Return the charge of a request; `None` for its reservation.

        Args:
            turn: the request.
            charged: what other requests were charged for its run, in billionths of a dollar.
        """
        is_recorded = turn.forget_at is None or turn.forget_at > turn.began
        if self._journal is None or not is_recorded:
            return None
        try:
            result = await recorded_result(self._journal, turn.run_id)
        except JournalError as error:
            LOGGER.warning("run %s is charged its reservation: %s", turn.run_id, error)
            return None
        if result is None:
            return 0
        if result.cost is None:
            return None
        cost = max(round(result.cost * BILLION) - charged, 0)
        return min(cost, turn.cost) if turn.cost else cost

    async def forget_expired(self) -> int:
        """Delete the runs whose time has ended, and return their number."""
        async with self._store.opened() as database:
            query = (
                "SELECT turn_id, run_id FROM podium_turns WHERE forget_at IS NOT NULL AND "  # noqa: S608 - no value from outside
                f"forget_at < {database.now} AND holder IS NULL ORDER BY forget_at LIMIT {_DELETED_AT_ONCE}"
            )
            rows = await database.transaction(lambda transaction: transaction.fetch(query), reads=True)
            deleted = [row["turn_id"] for row in rows if await self._delete(row["run_id"])]

            async def forget(transaction: Transaction) -> None:
                statement = f"DELETE FROM podium_turns WHERE turn_id IN {marks(len(deleted))}"  # noqa: S608 - placeholders
                await transaction.execute(statement, *deleted)

            if deleted:
                await database.transaction(forget)
        return len(deleted)

    async def _delete(self, run_id: str) -> bool:
        """Delete a run, and return whether it no longer exists."""
        if self._journal is None:
            return True
        try:
            await self._journal.delete(run_id)
        except RunUnknown:
            return True
        except RunHeld:
            return False
        return True


async def _logged(work: Callable[[], Awaitable[int]]) -> None:
    try:
        await work()
    except JournalError as error:
        LOGGER.warning("the housekeeping of API keys failed: %s", error)
