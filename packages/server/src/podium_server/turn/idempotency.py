"""Ids of runs that a client names with an `Idempotency-Key`.

The id of such a run has two hashes: one of the API key and the idempotency key, and one of the request. So a
repetition finds its run, and another request with the same key finds a run with another second hash.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256

from podium.errors import PodiumError, RunUnknown
from podium.journal import Journal
from podium.resume import result_of
from podium.types import Event, Result, RunEnded

_CHARS = 24


class KeyReused(PodiumError):
    """The idempotency key was used with another request."""

    code = "idempotency_key_reused"


@dataclass(frozen=True, slots=True)
class Recorded:
    """A recorded run that has an answer."""

    result: Result
    events: Sequence[Event]


class NamedRun:
    """The run of an idempotency key.

    Args:
        caller_id: the API key, within which idempotency keys are unique.
        key: the idempotency key.
        fingerprint: hash of the request.
    """

    def __init__(self, caller_id: str, key: str, fingerprint: str) -> None:
        self._prefix = f"idem-{_hash(caller_id, key)}-"
        self.run_id = self._prefix + _hash(fingerprint)

    @contextmanager
    def held(self, running: dict[str, list[str]]) -> Iterator[None]:
        """Hold the idempotency key in the block.

        Args:
            running: the ids of the runs of this process, by idempotency key.

        Raises:
            KeyReused: another request with this key is running.
        """
        ids = running.setdefault(self._prefix, [])
        if any(run_id != self.run_id for run_id in ids):
            raise _reused()
        ids.append(self.run_id)
        try:
            yield
        finally:
            ids.remove(self.run_id)
            if not ids:
                running.pop(self._prefix, None)

    async def check(self, journal: Journal) -> None:
        """Raise `KeyReused` if the key was used with another request."""
        rows = await journal.runs(prefix=self._prefix, limit=2)
        if any(row.run_id != self.run_id for row in rows):
            raise _reused()

    async def recorded(self, journal: Journal) -> Recorded | None:
        """Return the recorded run; `None` if it has no answer, so that it must be run or resumed."""
        try:
            events = [entry.event for entry in await journal.read(self.run_id)]
        except RunUnknown:
            return None
        if not any(isinstance(event, RunEnded) for event in events[-1:]):
            return None
        result = result_of(events)
        return Recorded(result, events) if result.status in ("ok", "partial") else None


def _reused() -> KeyReused:
    return KeyReused("this Idempotency-Key was used with another request: use a new key")


def _hash(*parts: str) -> str:
    return sha256("\0".join(parts).encode()).hexdigest()[:_CHARS]
