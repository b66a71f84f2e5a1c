"""One database, opened in one event loop, and its transactions.

A transaction is a coroutine function that awaits only its own statements. With SQLite, the whole coroutine
runs in a worker thread; with PostgreSQL, on one connection. So a cancelled caller or a blocked event loop
cannot leave an SQLite transaction open with its locks.
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Coroutine, Sequence
from dataclasses import dataclass
from errno import errorcode
from typing import Any, ClassVar, Literal, TypeVar

import anyio

from podium.aio.calls import shielded
from podium.errors import JournalError

FIRST_WAIT = 0.05
LONGEST_WAIT = 1.0
"""Maximum seconds between two attempts while the database fails."""

Synchronous = Literal["full", "normal"]
Value = str | int | float | None
SAME_RECORD = """
ON CONFLICT (run_id, number) DO UPDATE
SET hash = CASE WHEN podium_events.hash = excluded.hash THEN excluded.hash END
"""
"""Lets a record be written again. In the place of another record it writes NULL, which the column refuses."""
Row = Any
"""A row of a result; `row["name"]` is the value of a column."""

_Result = TypeVar("_Result")


class Refused(JournalError):
    """The database refuses a statement or its values, so that a retry would fail too."""


class Transaction(ABC):
    """An open transaction. Each `?` in a statement stands for the next of `values`."""

    @abstractmethod
    async def execute(self, statement: str, *values: Value) -> int:
        """Execute a statement and return the number of changed rows."""

    @abstractmethod
    async def fetch(self, statement: str, *values: Value) -> Sequence[Row]:
        """Execute a query and return its rows."""


Work = Callable[[Transaction], Coroutine[Any, Any, _Result]]
"""A coroutine function with the statements of a transaction.

The function awaits only methods of the transaction. The function may be called again after a failure. The
database may have committed the first call, because an acknowledgement can be lost.
"""


@dataclass(slots=True)
class BatchRows:
    """The rows that one batch writes."""

    new_runs: list[tuple[Value, ...]]
    """Rows of `podium_runs`, in the order of its columns."""
    fences: list[tuple[str, str]]
    """Run id and expected fence of each run that existed before the batch."""
    records: list[tuple[Value, ...]]
    """Rows of `podium_events`, in the order of its columns."""
    changes: list[tuple[Value, ...]]
    """State, end, cost, holder, run id and fence of each run whose row changes."""
    answers: list[tuple[Value, ...]]
    """Rows of `podium_answers`."""
    releases: list[tuple[Value, ...]]
    """Run id and fence of each run to release; a running run becomes stopped."""


class Database(ABC):
    """The connections to one database."""

    now: ClassVar[str]
    """SQL expression for the time of the database, in seconds of Unix time."""
    for_update: ClassVar[str]
    """SQL clause that locks the selected rows until the transaction ends."""
    bytewise: ClassVar[str]
    """SQL clause after a text, so that it is compared by its bytes, whatever the order of the database is."""
    is_postgres: ClassVar[bool]
    lock_schema: ClassVar[str]
    """SQL statement that prevents other schema changes until the transaction ends."""
    columns: ClassVar[str]
    """SQL query for the column names of a table; no rows if the table does not exist."""
    failures: ClassVar[tuple[type[Exception], ...]]
    """The exceptions of the driver and of its connections."""
    notifies: ClassVar[bool]
    """Whether `notify` is needed so that `watch` in other processes sees changes."""

    def __init__(self, name: str, patience: float) -> None:
        self.name = name
        self.patience = patience

    async def transaction(
        self,
        work: Work[_Result],
        *,
        reads: bool = False,
        alone: bool = False,
        patience: float | None = None,
    ) -> _Result:
        """Run `work` in a transaction; retry for `patience` seconds while the database fails."""
        end, wait = anyio.current_time() + (self.patience if patience is None else patience), FIRST_WAIT
        while True:
            try:
                return await shielded(self.attempt(work, reads=reads, alone=alone))
            except self.failures as error:
                failure = self.failure(error)
                left = end - anyio.current_time()
                if isinstance(failure, Refused) or left <= 0:
                    raise failure from error
            await anyio.sleep(min(wait, left))
            wait = min(2 * wait, LONGEST_WAIT)

    def failure(self, error: Exception) -> JournalError:
        """Translate an exception of the driver."""
        if isinstance(error, JournalError):
            return error
        is_refusal = isinstance(error, self.failures) and not self.is_transient(error)
        failure = (Refused if is_refusal else JournalError)(failure_text(self.name, error))
        failure.is_busy = self.is_busy(error)
        return failure

    @abstractmethod
    async def attempt(self, work: Work[_Result], *, reads: bool = False, alone: bool = False) -> _Result:
        """Run `work` in a transaction, once."""

    @abstractmethod
    async def write(self, rows: BatchRows) -> Collection[str]:
        """Write all rows durably, and return no fence; if fences are not as expected, return those.

        Writing the same rows again has no effect, but a record with the number of another record is refused.
        """

    @abstractmethod
    async def notify(self, run_ids: Collection[str]) -> None:
        """Tell other processes that runs have changed, after the commit of the changes."""

    @abstractmethod
    async def watch(self, changed: Callable[[str | None], object]) -> None:
        """Call `changed` with the id of each run that another process has changed."""

    @abstractmethod
    def is_busy(self, error: Exception) -> bool:
        """See `JournalError.is_busy`."""

    @abstractmethod
    def is_transient(self, error: Exception) -> bool:
        """Return whether a failure may be temporary: the database is down, full or locked."""

    @abstractmethod
    async def aclose(self) -> None:
        """Close all connections."""


def failure_text(name: str, error: Exception) -> str:
    """Return the error message for a failure of a database."""
    why = f"{type(error).__name__}: {error}"
    if isinstance(error, OSError) and error.errno in errorcode:
        why = os.strerror(error.errno or 0)  # the text of the error repeats the path or the address
    return f"the journal in {name} fails: {why}"


def marks(number: int) -> str:
    """Return the placeholders of a list of values."""
    return f"({', '.join('?' * number)})"


class DatabaseUrl(ABC):
    """The location of a database. Its `str()` has no password."""

    @abstractmethod
    def connect(self, patience: float, synchronous: Synchronous) -> Database:
        """Return the database, which opens connections when they are needed."""
