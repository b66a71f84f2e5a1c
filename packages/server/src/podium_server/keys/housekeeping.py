"""Settles the requests of replicas that died, and deletes prompts and answers after their time."""

import logging
from contextlib import suppress
from dataclasses import replace

from podium.errors import JournalBroken, RunHeld, RunUnknown
from podium.journal import Journal, Transaction
from podium.journal.sql.database import marks
from podium_server.background_tasks import repeat
from podium_server.keys.bills import Bill, bill_of
from podium_server.keys.key import Key
from podium_server.keys.key_store import KeyStore
from podium_server.keys.ledger import Ledger
from podium_server.keys.recorded import recorded_run
from podium_server.keys.turns import Amounts, Turn, ended_turns

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
        told = "the housekeeping of API keys failed"
        await repeat(self.settle_expired, self.forget_expired, period=period, told=told)

    async def settle_expired(self) -> int:
        """Settle the requests of replicas whose lease has ended, and return their number.

        A request is charged what the journal has recorded of its run and no other request has paid. If the
        run was not recorded, it is charged its reservation. While the journal cannot be read, or a process
        executes the run, it keeps its reservation.
        """
        async with self._store.opened() as database:
            turns = await database.transaction(lambda each: ended_turns(each, self._ledger.lease))
        keys = {key.key_id: key for key in await self._store.keys()} if turns else {}
        settled = 0
        for turn in turns:
            if turn.key_id not in keys:
                continue
            with suppress(RunHeld):
                self._ledger.settle(await self._bill(turn, keys[turn.key_id]))
                settled += 1
        return settled

    async def _bill(self, turn: Turn, key: Key) -> Bill:
        """Return the bill of a request.

        Raises:
            RunHeld: a process executes the run.
            JournalError: the journal cannot be read.
        """
        unknown = Bill(turn_id=turn.turn_id, key=key, run=Amounts(), is_priced=False)
        is_recorded = turn.forget_at is None or turn.forget_at > turn.began
        if self._journal is None or not is_recorded:
            return unknown
        try:
            run = await recorded_run(self._journal, turn.run_id)
        except JournalBroken as error:
            LOGGER.warning("run %s is charged its reservation: %s", turn.run_id, error)
            return unknown
        if run is None:
            return replace(unknown, is_priced=True)
        return bill_of(turn.turn_id, key, run.result, run.limits, excess=run.excess)

    async def forget_expired(self) -> int:
        """Delete the runs whose time has ended, and return their number."""
        deleted = count = await self._forget_some()
        while count == _DELETED_AT_ONCE:
            deleted += (count := await self._forget_some())
        return deleted

    async def _forget_some(self) -> int:
        """Delete some of these runs, and return their number."""
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
