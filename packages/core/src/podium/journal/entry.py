"""What a journal gives out: recorded events, and runs as a list shows them."""

from dataclasses import dataclass

from podium.errors import ConfigError, JournalError
from podium.secrets import scrub
from podium.types.events import Event, RunStarted
from podium.types.messages import storable

QUESTION_CHARS = 200
"""How much of a question a list of runs shows."""
ID_CHARS = 200
"""Longest id of a run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One recorded event."""

    run_id: str
    number: int
    """Its place in the run, from 0, without gaps."""
    at: float
    """When it was recorded, in seconds of Unix time."""
    event: Event
    hash: str
    """SHA-256, in hex, over the hash of the entry before and all of this one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One recorded event as it is kept, which the chain of hashes is over; fields as in `Entry`."""

    run_id: str
    number: int
    at: float
    text: str
    """The event in JSON."""
    hash: str

    def entry(self) -> Entry:
        """Read it.

        Raises:
            JournalBroken: it is no event, or one of another version.
        """
        from podium.journal.codec import decode  # noqa: PLC0415  (brings in pydantic)

        event = decode(self.text)
        return Entry(run_id=self.run_id, number=self.number, at=self.at, event=event, hash=self.hash)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """One run, as a list of runs shows it."""

    run_id: str
    parent: str | None
    """The run this one is nested in."""
    question: str
    """The beginning of the last message of its query."""
    state: str
    """`running`, `stopped` (it can be resumed), `dead`, or the status of its result."""
    began: float
    """In seconds of Unix time, as below."""
    ended: float | None
    """When it last ended or stopped; `None` while it is carried out, or broke off."""
    cost: float | None
    """USD its result came to; `None` when that is unknown, or there is none."""
    holder: str | None
    """Who carries it out, or last did; `None` when it was given up in order."""
    recoveries: int
    """How many times it was taken up after its process had died."""


def question_of(started: RunStarted) -> str:
    """Return the beginning of a run's question on one line, as a list of runs shows it, without secrets."""
    text = started.query[-1].text if started.query else ""
    return storable(" ".join(scrub(text[: 4 * QUESTION_CHARS]).split())[:QUESTION_CHARS])


def check_id(run_id: str) -> None:
    """Check that a run can have this id.

    Raises:
        ConfigError: it is empty, too long, or not printable.
    """
    if not 0 < len(run_id) <= ID_CHARS or not run_id.isprintable():
        raise ConfigError(f"run id {run_id!r:.80}: give 1 to {ID_CHARS} printable characters")


def unwritable(run_id: str, event: Event, error: Exception) -> JournalError:
    """Return what is raised for an event that cannot be written."""
    made = JournalError(f"run {run_id}: its {event.type} cannot be written: {error}")
    made.__cause__ = error
    return made
