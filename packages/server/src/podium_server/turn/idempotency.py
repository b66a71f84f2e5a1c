"""Ids of runs that a client names with an `Idempotency-Key`.

The id of such a run has two hashes: one of the API key and the idempotency key, and one of the request. So a
repetition finds its run, and another request with the same key finds a run with another second hash.
"""

from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from hashlib import sha256

import anyio

from podium.errors import RunUnknown
from podium.journal import Journal, RunRow, SqlJournal
from podium.run_state import fold
from podium.types import Event, Result, RunEnded
from podium_server.errors import ServerError

_CHARS = 24


class KeyReused(ServerError):
    """The idempotency key was used with another request."""

    code = "idempotency_key_reused"


@dataclass(frozen=True, slots=True)
class Recorded:
    """A recorded run that has an answer."""

    result: Result
    events: Sequence[Event]


@dataclass(slots=True)
class SameRequests:
    """The running requests of an idempotency key, in this process."""

    run_id: str
    lock: anyio.Lock = field(default_factory=anyio.Lock)
    """Held by the request that runs; the others wait for it."""
    count: int = 0


class NamedRun:
    """The run of an idempotency key.

    Args:
        caller_id: the API key, within which idempotency keys are unique.
        key: the idempotency key.
        fingerprint: hash of the request.
    """

    def __init__(self, caller_id: str, key: str, fingerprint: str) -> None:
        self.prefix = f"idem-{_hash(caller_id, key)}-"
        """The beginning of the ids of all runs with this key."""
        self.run_id = self.prefix + _hash(fingerprint)

    @asynccontextmanager
    async def held(self, running: dict[str, SameRequests]) -> AsyncGenerator[None, None]:
        """Hold the idempotency key in the block. Repetitions in this process wait for each other.

        Args:
            running: the running requests of this process, by idempotency key.

        Raises:
            KeyReused: another request with this key is running.
        """
        same = running.setdefault(self.prefix, SameRequests(self.run_id))
        if same.run_id != self.run_id:
            raise _reused()
        same.count += 1
        try:
            async with same.lock:
                yield
        finally:
            same.count -= 1
            if not same.count:
                del running[self.prefix]

    async def row(self, journal: Journal) -> RunRow | None:
        """Return the run; `None` if it never began.

        Raises:
            KeyReused: the key was used with another request.
        """
        rows = await journal.runs(prefix=self.prefix, limit=2)
        self.is_known([row.run_id for row in rows])
        return rows[0] if rows else None

    def is_known(self, run_ids: Collection[str]) -> bool:
        """Return whether the run is one of the runs with this key.

        Raises:
            KeyReused: another run has this key.
        """
        if any(run_id != self.run_id for run_id in run_ids):
            raise _reused()
        return bool(run_ids)

    async def recorded(self, journal: SqlJournal, seconds: float) -> Recorded | None:
        """Return the recorded run; `None` if it has no answer, so that it must be run or resumed.

        Args:
            journal: the journal.
            seconds: how long to wait while another process executes the run.

        Raises:
            KeyReused: the key was used with another request.
        """
        async with journal.following(self.run_id) as follower:
            with anyio.move_on_after(seconds):
                while (row := await self.row(journal)) is not None and row.state == "running":
                    await follower.wait()
        try:
            events = [entry.event for entry in await journal.read(self.run_id)]
        except RunUnknown:
            return None
        if not any(isinstance(event, RunEnded) for event in events[-1:]):
            return None
        result = fold(events).result()
        return Recorded(result, events) if result.status in ("ok", "partial") else None


def _reused() -> KeyReused:
    return KeyReused("this Idempotency-Key was used with another request: use a new key")


def _hash(*parts: str) -> str:
    return sha256("\0".join(parts).encode()).hexdigest()[:_CHARS]
