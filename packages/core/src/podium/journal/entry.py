"""The records that a journal returns: recorded events, and rows of a list of runs."""

from dataclasses import dataclass

from podium.errors import ConfigError, JournalBroken, JournalError
from podium.types.events import Event, RunStarted

QUESTION_CHARS = 200
"""Characters of a question that a list of runs shows."""
ID_CHARS = 200
"""Maximum characters of a run's id."""
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
        from podium.journal.codec import decode  # noqa: PLC0415  (imports pydantic)

        event = decode(self.text)
        return Entry(run_id=self.run_id, number=self.number, at=self.at, event=event, hash=self.hash)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """One run in a list of runs."""

    run_id: str
    parent: str | None
    """The run in which this run is nested."""
    question: str
    """The first characters of the last message of the query."""
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


def question_of(record: str) -> str:
    """Return the first characters of a run's question on one line, for a list of runs.

    Args:
        record: the text of the run's first record, from which secrets are removed.
    """
    from podium.journal.codec import decode  # noqa: PLC0415  (imports pydantic)

    try:
        started = decode(record)
    except JournalBroken:  # reading the run raises it
        return ""
    return shortened(started.query[-1].text if isinstance(started, RunStarted) and started.query else "")


def shortened(question: str) -> str:
    """Return the first characters of a question on one line."""
    return " ".join(question[: 4 * QUESTION_CHARS].split())[:QUESTION_CHARS]


def check_id(run_id: str) -> None:
    """Check an id from a caller.

    Raises:
        ConfigError: the id is empty, too long, or not printable.
    """
    if not 0 < len(run_id) <= ID_CHARS or not run_id.isprintable():
        raise ConfigError(f"run id {run_id!r:.80}: give 1 to {ID_CHARS} printable characters")


def unwritable(run_id: str, event: Event, error: Exception) -> JournalError:
    """Return the error for an event that cannot be encoded."""
    made = JournalError(f"run {run_id}: its {event.type} cannot be written: {type(error).__name__}: {error}")
    made.__cause__ = error
    return made
