"""The runs a database holds: taking one up, reading and listing them, forgetting one."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import ColumnElement, Connection, Double, Select, delete, literal_column, select, update

from podium.errors import RunDead, RunHeld, RunUnknown
from podium.journal.entry import Entry, Record, RunRow
from podium.journal.sql.fenced_store import Store
from podium.journal.sql.lease import is_gone
from podium.journal.sql.run_log import State
from podium.journal.sql.tables import EVENTS, HOLDERS, RUNS


@dataclass(frozen=True, slots=True)
class Claimed:
    """A run that was taken up."""

    entries: tuple[Entry, ...]
    state: State
    """As it was."""
    recoveries: int
    is_dead: bool = False
    """Whether it was not, since it was taken up too often."""


class Runs:
    """The runs of one database.

    Args:
        store: who is to hold them.
        max_recoveries: how many times one is taken up after its process died.
    """

    def __init__(self, store: Store, max_recoveries: int) -> None:
        self._store = store
        self._database = store.database
        self._max_recoveries = max_recoveries

    async def claim(self, run_id: str, fence: str, *, force: bool) -> Claimed:
        """Take a run that no one who lives holds; raises as `Journal.claim`."""

        def take(connection: Connection) -> Claimed:
            row = self._row(connection, run_id, lock=True)
            if row.fence == fence:  # from an earlier try, whose acknowledgement was lost
                return self._claimed(connection, row, row.recoveries)
            if _is_held(row):
                raise RunHeld(f"run {run_id} is carried out by {row.holder}: wait for it to end or stop")
            recoveries = row.recoveries + (row.holder is not None)
            died_too_often = row.holder is not None and recoveries > self._max_recoveries
            if (died_too_often or row.state == "dead") and not force:
                self._update(connection, run_id, state="dead", holder=None, recoveries=recoveries)
                return replace(self._claimed(connection, row, recoveries), is_dead=True)
            claimed = self._claimed(connection, row, recoveries)
            self._store.beat(connection)
            facts = {"holder": self._store.holder, "fence": fence, "recoveries": recoveries}
            self._update(connection, run_id, **facts)
            return claimed

        claimed = await self._database.transact(take)
        if claimed.is_dead:
            raise RunDead(
                f"run {run_id} was taken up {claimed.recoveries - 1} times after its process had died: "
                "find out why before you force it"
            )
        return claimed

    async def records(self, run_id: str) -> tuple[Record, ...]:
        """Return all that is recorded of a run; raises as `Journal.records`."""

        def read(connection: Connection) -> tuple[Record, ...]:
            self._row(connection, run_id)
            return self._records(connection, run_id)

        return await self._database.transact(read, reads=True)

    async def rows(
        self, *, limit: int | None, nested: bool, prefix: str, parent: str | None
    ) -> tuple[RunRow, ...]:
        """Return the latest runs; as `Journal.runs`."""
        query = self._rows().order_by(RUNS.c.began.desc(), RUNS.c.run_id).limit(limit)
        if parent is not None:
            query = query.where(RUNS.c.parent == parent)
        elif not nested:
            query = query.where(RUNS.c.parent.is_(None))
        if prefix:
            query = query.where(RUNS.c.run_id.startswith(prefix, autoescape=True))

        def read(connection: Connection) -> tuple[RunRow, ...]:
            return tuple(map(_run_row, connection.execute(query)))

        return await self._database.transact(read, reads=True)

    async def delete(self, run_id: str) -> None:
        """Forget a run and what is nested in it; raises as `Journal.delete`."""

        def forget(connection: Connection) -> None:
            row = self._row(connection, run_id, lock=True)
            doomed, rows = [run_id], [row]
            while rows:
                held = next((row for row in rows if _is_held(row)), None)
                if held is not None:
                    raise RunHeld(f"run {held.run_id} is carried out by {held.holder}: wait for it to end")
                nested = RUNS.c.parent.in_([row.run_id for row in rows])
                rows = [r for r in self._found(connection, nested, lock=True) if r.run_id not in doomed]
                doomed += [row.run_id for row in rows]
            connection.execute(delete(EVENTS).where(EVENTS.c.run_id.in_(doomed)))
            connection.execute(delete(RUNS).where(RUNS.c.run_id.in_(doomed)))

        await self._database.transact(forget)

    def _row(self, connection: Connection, run_id: str, *, lock: bool = False) -> Any:
        rows = self._found(connection, RUNS.c.run_id == run_id, lock=lock)
        if not rows:
            raise RunUnknown(f"there is no run {run_id} in the journal")
        return rows[0]

    def _found(self, connection: Connection, which: ColumnElement[bool], *, lock: bool) -> Sequence[Any]:
        """Return rows, and whether their holders' leases last; no one else takes them if they are locked.

        The lock is had by a statement before: one that waits for it sees other tables as they
        were when it began to wait.
        """
        if lock:
            connection.execute(select(RUNS.c.run_id).where(which).with_for_update())
        found: Sequence[Any] = (connection.execute(self._rows().where(which))).all()
        return found

    def _rows(self) -> Select[Any]:
        lives = (HOLDERS.c.until > literal_column(self._database.now, Double)).label("lives")
        return select(RUNS, lives).outerjoin(HOLDERS, HOLDERS.c.holder == RUNS.c.holder)

    def _claimed(self, connection: Connection, row: Any, recoveries: int) -> Claimed:
        entries = tuple(record.entry() for record in self._records(connection, row.run_id))
        return Claimed(entries, State(row.state, row.ended, row.cost), recoveries)

    @staticmethod
    def _records(connection: Connection, run_id: str) -> tuple[Record, ...]:
        query = select(EVENTS).where(EVENTS.c.run_id == run_id).order_by(EVENTS.c.number)
        return tuple(Record(**row._mapping) for row in connection.execute(query))  # noqa: SLF001

    @staticmethod
    def _update(connection: Connection, run_id: str, **facts: object) -> None:
        connection.execute(update(RUNS).where(RUNS.c.run_id == run_id).values(**facts))


def _is_held(row: Any) -> bool:
    return bool(row.holder is not None and row.lives and not is_gone(row.holder))


def _run_row(row: Any) -> RunRow:
    facts: Sequence[str] = ("run_id", "parent", "question", "began", "ended", "cost", "holder", "recoveries")
    state = "stopped" if row.state == "running" and not _is_held(row) else row.state
    return RunRow(state=state, **{name: getattr(row, name) for name in facts})
