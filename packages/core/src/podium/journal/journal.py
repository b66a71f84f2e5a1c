"""The interface between runs and journals: logs, their records, and the chain of hashes over them."""

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from time import time

from podium.aio.loops import ResourceGroup
from podium.errors import ConfigError, JournalBroken, JournalError, RunHeld, RunUnknown
from podium.types.events import PIECES, Event, RunEnded, RunStarted, RunStopped

_QUESTION_CHARS = 200
"""Characters of a question that a list of runs shows."""
_ID_CHARS = 200
"""Maximum characters of a run's id."""
_PAGE = 100
"""Rows of a page, and maximum number of runs that one transaction deletes, without nested runs."""
DAMAGED = "damaged"
"""The state of a run whose row or record cannot be read."""
LAST_CHARACTER = "\U0010ffff"
"""No id has this character, and it is after all others in the order by bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One recorded event."""

    run_id: str
    number: int
    """Its position in the run, from 0, without gaps."""
    at: float
    """When it was recorded, in seconds of Unix time."""
    event: Event
    hash: str
    """SHA-256 in hex, over the hash of the previous entry and the whole of this entry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One recorded event in its stored form, which the hash covers. Fields as in `Entry`."""

    run_id: str
    number: int
    at: float
    text: str
    """The event in JSON."""
    hash: str

    def entry(self) -> Entry:
        """Decode the event.

        Raises:
            JournalBroken: the text is not an event, or has another schema version.
        """
        from podium.types.codec import decode  # noqa: PLC0415  (imports pydantic)

        event = decode(self.text)
        return Entry(run_id=self.run_id, number=self.number, at=self.at, event=event, hash=self.hash)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """One run in a list of runs."""

    run_id: str
    parent: str | None
    """The run in which this run is nested."""
    question: str
    """The first characters of the saved plan with its arguments, and of the last message of the query."""
    state: str
    """`running`, `stopped` (can be resumed), `dead`, `damaged` (a value is invalid; the other fields are then
    empty), or the status of the result."""
    began: float
    """In seconds of Unix time, like `ended`."""
    ended: float | None
    """When the run last ended or stopped; `None` while the run is executed, or if its process died."""
    cost: float | None
    """The cost of the result, in USD; `None` if it is unknown, or if there is no result."""
    holder: str | None
    """The process that holds the run, or held it when it died; `None` if the run was released."""
    recoveries: int
    """Number of claims after its process died."""

    @classmethod
    def begun(cls, first: Record, started: Event) -> "RunRow":
        """Return the row of a run that has begun, from its first record and its event."""
        parent = started.parent if isinstance(started, RunStarted) else None
        return cls(
            run_id=first.run_id,
            parent=None if parent is None else parent[0],
            question=question_of(first.text),
            state="running",
            began=first.at,
            ended=None,
            cost=None,
            holder=None,
            recoveries=0,
        )

    def after(self, event: Event, at: float) -> "RunRow":
        """Return the row after another event, which was recorded at `at`."""
        match event:
            case RunEnded(result=result, cost=cost):
                return replace(self, state=result.status, ended=at, cost=cost, holder=None)
            case RunStopped():
                return replace(self, state="stopped", ended=at, cost=None, holder=None)
        return self if self.state == "running" else replace(self, state="running", ended=None, cost=None)

    def released(self) -> "RunRow":
        """Return the row of the run when no process holds it."""
        return replace(self, state="stopped" if self.state == "running" else self.state, holder=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which runs to list; see `Journal.runs` and `Journal.pages`."""

    nested: bool = False
    prefix: str = ""
    parent: str | None = None
    since: float | None = None
    until: float | None = None
    ids: Collection[str] | None = None
    after: RunRow | None = None
    """Only runs after this run in the list."""

    def fits(self, row: RunRow) -> bool:
        """Return whether a run is to be listed."""
        is_inside = self.nested if self.parent is None else row.parent == self.parent
        return (
            (is_inside or (row.parent is None and self.parent is None))
            and row.run_id.startswith(self.prefix)
            and (self.since is None or row.began >= self.since)
            and (self.until is None or row.began <= self.until)
            and (self.ids is None or row.run_id in self.ids)
            and (self.after is None or (row.began, row.run_id) < (self.after.began, self.after.run_id))
        )


def question_of(record: str) -> str:
    """Return the first characters of a run's question on one line, from the text of its first record."""
    from podium.types.codec import decode  # noqa: PLC0415  (imports pydantic)

    try:
        started = decode(record)
    except JournalBroken:  # reading the run raises it
        return ""
    return shortened(started.question if isinstance(started, RunStarted) else "")


def shortened(question: str) -> str:
    """Return the first characters of a question on one line."""
    return " ".join(question[: 4 * _QUESTION_CHARS].split())[:_QUESTION_CHARS]


def check_id(run_id: str) -> None:
    """Check an id from a caller."""
    if not 0 < len(run_id) <= _ID_CHARS or not run_id.isprintable():
        raise ConfigError(f"run id {run_id!r:.80}: give 1 to {_ID_CHARS} printable characters")


def unknown(run_id: str) -> RunUnknown:
    """Return the error for a run that is not in the journal."""
    return RunUnknown(f"run {run_id} is not in the journal")


def unwritable(run_id: str, event: Event, error: Exception) -> JournalError:
    """Return the error for an event that cannot be encoded."""
    made = JournalError(f"run {run_id}: its {event.type} cannot be written: {type(error).__name__}: {error}")
    made.__cause__ = error
    return made


ROOT = "0" * 64
"""The hash before the first record."""


@dataclass(frozen=True, slots=True)
class Head:
    """The number of records of a run, and the hash of the last record."""

    records: int
    """1 or more."""
    hash: str
    """The hash of the last record, which covers all records."""


@dataclass(frozen=True, slots=True)
class Break:
    """A place where a run was changed after it was recorded."""

    run_id: str
    number: int | None
    """The number of the record, from 0; `None` if the break concerns the row or the whole run."""
    reason: str

    def __str__(self) -> str:
        place = "" if self.number is None else f", record {self.number}"
        return f"run {self.run_id}{place}: {self.reason}"


def link(before: str, run_id: str, number: int, at: float, text: str) -> str:
    """Return the hash of a record, from the hash of the record before (or `ROOT`) and its own values."""
    return sha256(f"{before}\n{run_id}\n{number}\n{at!r}\n{text}".encode()).hexdigest()


def add(head: Head | None, run_id: str, at: float, text: str) -> Head:
    """Return the head of a run after another record; `head` is `None` for a run without records."""
    before, number = (ROOT, 0) if head is None else (head.hash, head.records)
    return Head(number + 1, link(before, run_id, number, at, text))


def head_of(records: Sequence[Record | Entry]) -> Head | None:
    """Return the head of a run's records; `None` if there are none."""
    return Head(len(records), records[-1].hash) if records else None


def verify(records: Sequence[Record]) -> Break | None:
    """Return the first break in a run's chain; `None` if the chain is valid."""
    before = ROOT
    for number, record in enumerate(records):
        run_id = records[0].run_id
        if record.number != number:
            return Break(run_id, number, f"the record is missing: record {record.number} is in its place")
        if record.run_id != run_id:
            return Break(run_id, number, f"the record belongs to run {record.run_id}")
        if record.hash != link(before, run_id, number, record.at, record.text):
            return Break(run_id, number, "the record was changed, or it is not from this run and this place")
        before = record.hash
    return None


class Log(ABC):
    """The log of one run, to which the holder of the run can write. An open log keeps its journal open."""

    run_id: str
    entries: Sequence[Entry] = ()
    """The entries that were recorded before the log was opened; empty for a new run."""
    recovery: int = 0
    """Number of claims after a process of the run died, including this claim."""
    on_lost: Callable[[], None] | None = None
    """Called once, in the event loop, when the run can no longer be recorded, because another process claimed
    it or the journal failed."""

    @abstractmethod
    def append(self, event: Event) -> None:
        """Queue an event for recording and return at once; `flush` raises the errors.

        Some events are ignored: pieces of text (`PlanDelta`, `StepDelta`, `AnswerDelta`), events of other
        runs, and `RunStarted`, which is already recorded. `RunEnded` and `RunStopped` release the run.
        """

    def _takes(self, event: Event) -> bool:
        return event.run_id == self.run_id and not isinstance(event, (*PIECES, RunStarted))

    @property
    def head(self) -> Head | None:
        """The head of the run after a flush; `None` if the journal failed, or has no hashes."""
        return None

    @abstractmethod
    async def flush(self) -> None:
        """Wait until every appended event is durable.

        Raises:
            JournalError: an event could not be recorded.
            RunLost: another process claimed the run.
        """

    @abstractmethod
    async def aclose(self) -> None:
        """Flush and release the run, so that others may claim it. Closing again does nothing.

        Raises:
            JournalError: see `flush`.
        """


class Journal(ResourceGroup, ABC):
    """Records runs.

    In a block `async with journal:`, its connections stay open. The methods also work outside of such a
    block.
    """

    @abstractmethod
    async def begin(self, started: RunStarted, *, minted: bool) -> Log:
        """Record a new run and hold it.

        Args:
            started: its first event.
            minted: whether the id was generated for this run, so that no other run can have this id. The
                event of such a run is durable after the first `flush`; the event of any other run is durable
                when `begin` returns.

        Raises:
            RunExists: a run with this id exists.
            JournalError: the run cannot be recorded.
        """

    @abstractmethod
    async def claim(self, run_id: str, *, force: bool = False) -> Log:
        """Claim an earlier run that no live process holds, and return its log.

        A holder counts as dead when its lease has expired, or when its process is known to have ended. A
        claim writes no record: if you close the log without appending an event, the run is unchanged.

        Args:
            run_id: the run.
            force: claim the run even after too many recoveries.

        Raises:
            RunUnknown: the run does not exist.
            RunHeld: a live process holds the run.
            RunDead: the run was claimed too often after its process died.
            JournalBroken: a record cannot be read.
        """

    @abstractmethod
    async def records(self, run_id: str) -> Sequence[Record]:
        """Return all records of a run in their stored form, in order.

        Raises:
            RunUnknown: the run does not exist.
        """

    async def read(self, run_id: str) -> Sequence[Entry]:
        """Return all recorded events of a run, in order.

        Raises:
            RunUnknown: the run does not exist.
            JournalBroken: a record cannot be read.
        """
        return tuple(record.entry() for record in await self.records(run_id))

    async def nested(self, run_id: str) -> list[list[Event]]:
        """Return the events of all runs nested in a run, at any depth.

        Raises:
            JournalBroken: a record cannot be read.
        """
        found: list[list[Event]] = []
        for row in await self.runs(parent=run_id, nested=True, limit=None):
            found.append([entry.event for entry in await self.read(row.run_id)])
            found += await self.nested(row.run_id)
        return found

    async def runs(
        self,
        *,
        limit: int | None = 50,
        nested: bool = False,
        prefix: str = "",
        parent: str | None = None,
        since: float | None = None,
        ids: Collection[str] | None = None,
    ) -> Sequence[RunRow]:
        """Return the latest runs, newest first.

        Args:
            limit: maximum number of runs; `None` for all runs.
            nested: whether to return nested runs too.
            prefix: return only runs whose id begins with this text.
            parent: return only runs nested directly in this run.
            since: return only runs that began at this time or later, in seconds of Unix time; `None` for
                all runs.
            ids: return only runs with these ids; `None` for all runs.
        """
        wanted = Wanted(nested=nested, prefix=prefix, parent=parent, since=since, ids=ids)
        return await self._rows(wanted, limit)

    @abstractmethod
    async def _rows(self, wanted: Wanted, limit: int | None) -> Sequence[RunRow]:
        """Return the latest of some runs, newest first."""

    async def pages(
        self, *, nested: bool = False, since: float | None = None, until: float | None = None
    ) -> AsyncGenerator[Sequence[RunRow], None]:
        """Yield all runs in pages, newest first. Runs that begin after the first page are left out.

        Args:
            nested: whether to yield nested runs too.
            since: yield only runs that began at this time or later, in seconds of Unix time; `None` for all.
            until: yield only runs that began at this time or earlier.
        """
        wanted = Wanted(nested=nested, since=since, until=until)
        async with self:
            while page := await self._rows(wanted, _PAGE):
                yield page
                wanted = replace(wanted, after=page[-1])

    async def answer_labels(self, keys: Collection[str]) -> Mapping[str, frozenset[str]]:
        """Return the labels of recorded answers: of all answers with an equal key together.

        Args:
            keys: see `RunEnded.answer_key`.
        """
        del keys
        return {}

    async def strays(self) -> Sequence[str]:
        """Return the ids that have records but no row, because somebody deleted the row."""
        return ()

    @abstractmethod
    async def delete(self, run_id: str) -> None:
        """Delete a run and all runs nested in it.

        Raises:
            RunUnknown: the run does not exist.
            RunHeld: a live process holds one of these runs.
        """

    async def prune(self, older_than: float) -> int:
        """Delete old runs that no process holds.

        Args:
            older_than: minimum time since the end of a run, or since its start if it has not ended, in
                seconds.

        Returns:
            The number of deleted runs, without nested runs.
        """
        return sum([await self._delete_free(run_ids) async for run_ids in self._old(older_than)])

    async def count_old(self, older_than: float) -> int:
        """Return the number of runs that `prune` would delete now."""
        return sum([len(run_ids) async for run_ids in self._old(older_than)])

    async def _old(self, older_than: float) -> AsyncGenerator[Sequence[str], None]:
        """Yield the ids of the old runs that no process executes, some at a time."""
        before, kept = time() - older_than, ("running", DAMAGED)
        async for page in self.pages(until=before):
            yield [row.run_id for row in page if row.state not in kept and (row.ended or row.began) < before]

    async def _delete_free(self, run_ids: Sequence[str]) -> int:
        """Delete those of the runs that no process holds, and return their number."""
        deleted = 0
        for run_id in run_ids:
            with suppress(RunUnknown, RunHeld):  # just deleted or claimed
                await self.delete(run_id)
                deleted += 1
        return deleted
