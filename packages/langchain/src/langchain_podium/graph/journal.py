"""A journal in a graph's state, which the graph's checkpointer stores."""

from collections.abc import Awaitable, Callable, Iterable, Sequence

import anyio.lowlevel

from podium.errors import JournalError, RunExists, RunHeld, RunUnknown
from podium.journal import Entry, Journal, Log, Record, RunRow
from podium.journal.journal import Wanted, add, head_of
from podium.secrets import scrub
from podium.types import Event, RunStarted, StepEnded, StepStarted
from podium.types.codec import decode, encode

Keep = Callable[[Sequence[str]], Awaitable[None]]
"""Stores the lines of a journal durably."""


class StateJournal(Journal):
    """Stores one run and its nested runs, from one node of a graph to the next.

    The node writes the return value of `lines` to the state of the graph. The next node makes a new
    `StateJournal` of these lines. The time of a record is the time of its event, in seconds since the run
    began.

    Args:
        lines: the lines of another `StateJournal`; empty for a new run.
        keep: stores the lines before each action begins, and after its end; `None` stores nothing.

    Raises:
        JournalBroken: a line is invalid.
    """

    def __init__(self, lines: Iterable[str] = (), keep: Keep | None = None) -> None:
        self._keep = keep
        self._has_acted = False
        """Whether an action has begun or ended since the lines were stored."""
        self._events: dict[str, list[Event]] = {}
        self._open: set[str] = set()
        for line in lines:
            event = decode(line)
            self._events.setdefault(event.run_id, []).append(event)

    @property
    def is_empty(self) -> bool:
        """Whether no run was begun."""
        return not self._events

    def lines(self) -> list[str]:
        """Return all records, each event as JSON without secrets.

        Raises:
            JournalError: JSON cannot represent an event.
        """
        try:
            return [scrub(encode(event)) for events in self._events.values() for event in events]
        except (TypeError, ValueError) as error:
            raise JournalError(f"the run cannot be kept in the graph's state: {error}") from error

    async def begin(self, started: RunStarted, *, minted: bool) -> Log:
        """Record a new run, and lock it."""
        del minted
        if started.run_id in self._events:
            raise RunExists(f"run {started.run_id} already exists: use another id")
        self._events[started.run_id] = [started]
        return self._log(started.run_id, ())

    async def claim(self, run_id: str, *, force: bool = False) -> Log:
        """Lock a recorded run that is not locked."""
        del force
        return self._log(run_id, await self.read(run_id))

    async def read(self, run_id: str) -> Sequence[Entry]:
        """Return all entries of a run, in order."""
        return [
            Entry(run_id=run_id, number=number, at=event.at, event=event, hash="")
            for number, event in enumerate(self._find(run_id))
        ]

    async def records(self, run_id: str) -> Sequence[Record]:
        """Return all records of a run in the format of `lines`, in order."""
        made: list[Record] = []
        for number, event in enumerate(self._find(run_id)):
            text = scrub(encode(event))
            head = add(head_of(made), run_id, event.at, text)
            made.append(Record(run_id=run_id, number=number, at=event.at, text=text, hash=head.hash))
        return made

    async def _rows(self, wanted: Wanted, limit: int | None) -> Sequence[RunRow]:
        return [row for row in map(self._row, reversed(self._events)) if wanted.fits(row)][:limit]

    async def delete(self, run_id: str) -> None:
        """Delete a run and its nested runs."""
        self._find(run_id)
        for row in await self.runs(limit=None, parent=run_id):
            await self.delete(row.run_id)
        if run_id in self._open:
            raise RunHeld(f"run {run_id} is running: wait for it to end or stop")
        del self._events[run_id]

    def _find(self, run_id: str) -> list[Event]:
        if run_id not in self._events:
            raise RunUnknown(f"there is no run {run_id} in the graph's state")
        return self._events[run_id]

    def _log(self, run_id: str, entries: Sequence[Entry]) -> Log:
        if run_id in self._open:
            raise RunHeld(f"run {run_id} is running: wait for it to end or stop")
        return _StateLog(run_id, entries, self)

    def _add(self, event: Event) -> None:
        self._find(event.run_id).append(event)
        if isinstance(event, StepStarted):
            self._has_acted = self._has_acted or bool(event.action)
        elif isinstance(event, StepEnded):
            self._has_acted = self._has_acted or event.outcome.action is not None

    async def keep(self) -> None:
        """Store the lines."""
        if self._keep is not None:
            self._has_acted = False
            await self._keep(self.lines())

    async def _flush(self) -> None:
        if self._has_acted:
            await self.keep()

    def _row(self, run_id: str) -> RunRow:
        events = self._events[run_id]
        text = scrub(encode(events[0]))
        first = Record(run_id=run_id, number=0, at=events[0].at, text=text, hash="")
        row = RunRow.begun(first, events[0]).after(events[-1], events[-1].at)
        return row if run_id in self._open else row.released()


class _StateLog(Log):
    """The log of a run that no other process can take over."""

    def __init__(self, run_id: str, entries: Sequence[Entry], journal: StateJournal) -> None:
        self.run_id = run_id
        self.entries = entries
        self._journal = journal
        journal._open.add(run_id)  # noqa: SLF001 - a part of the journal

    def append(self, event: Event) -> None:
        """Record an event immediately."""
        if self._takes(event):
            self._journal._add(event)  # noqa: SLF001 - as above

    async def flush(self) -> None:
        """Store the actions. The graph's checkpointer stores the journal when the node has ended."""
        await anyio.lowlevel.checkpoint()
        await self._journal._flush()  # noqa: SLF001 - as above

    async def aclose(self) -> None:
        """Unlock the run."""
        self._journal._open.discard(self.run_id)  # noqa: SLF001 - as above
