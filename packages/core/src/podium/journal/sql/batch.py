"""What is committed in one transaction: events of many runs, written, without secrets, and linked."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from podium.journal.codec import encode
from podium.journal.entry import unwritable
from podium.journal.hash_chain import link
from podium.journal.sql.run_log import SqlLog, State
from podium.secrets import scrub
from podium.types.events import Event, RunEnded, RunStarted, RunStopped

Queued = tuple[SqlLog, float, Event | None]
"""What a log appended and when, in seconds of Unix time; `None` gives the run up."""
Row = tuple[str, int, float, str, str]
"""A record: run id, number, time, text and hash."""


@dataclass(slots=True)
class Batch:
    """What is committed in one transaction."""

    counts: dict[SqlLog, int] = field(default_factory=dict)
    """The logs it is of, and how much was queued by each."""
    begun: list[SqlLog] = field(default_factory=list)
    """Those whose run begins with it."""
    records: dict[SqlLog, list[Row]] = field(default_factory=dict)
    """Of each log, in order."""
    states: dict[SqlLog, State] = field(default_factory=dict)
    """Those whose run stands otherwise after it."""
    is_again: bool = False
    """Whether it was tried before, and may have been committed."""

    def of(self, log: SqlLog) -> "Batch":
        """Return the part of one log."""
        return Batch(
            counts={log: self.counts[log]},
            begun=[each for each in self.begun if each is log],
            records={log: self.records[log]} if log in self.records else {},
            states={each: state for each, state in self.states.items() if each is log},
            is_again=True,
        )


def sealed(queue: Iterable[Queued]) -> Batch:
    """Make a batch: write each event, take secrets out of it, and link it to the one before."""
    batch = Batch()
    written: list[tuple[SqlLog, float, str]] = []
    for log, at, event in queue:
        if log.failure is not None:
            continue
        batch.counts[log] = batch.counts.get(log, 0) + 1
        if event is None:
            _stop(batch, log)
            continue
        try:
            written.append((log, at, encode(event)))
        except (TypeError, ValueError) as error:
            _stop(batch, log)
            log.fail(unwritable(log.run_id, event, error))
            continue
        _note(batch, log, at, event)
    texts = [text for *_, text in written]
    whole = "\n".join(texts)
    if scrub(whole) != whole:
        texts = [scrub(text) for text in texts]
    for (log, at, _), text in zip(written, texts, strict=True):
        log.head = link(log.head, log.number, at, text)
        batch.records.setdefault(log, []).append((log.run_id, log.number, at, text, log.head))
        log.number += 1
    return batch


def _note(batch: Batch, log: SqlLog, at: float, event: Event) -> None:
    """Say how the run stands after an event."""
    match event:
        case RunStarted():
            batch.begun.append(log)
            return
        case RunEnded(result=result):
            log.state = State(result.status, at, result.cost, is_held=False)
        case RunStopped():
            log.state = State("stopped", at, is_held=False)
        case _ if log.state.name != "running":
            log.state = State()
        case _:
            return
    batch.states[log] = log.state


def _stop(batch: Batch, log: SqlLog) -> None:
    """Give a run up that has not ended; one that was taken up and left alone stands as before."""
    name = "stopped" if log.state.name == "running" else log.state.name
    batch.states[log] = log.state = replace(log.state, name=name, is_held=False)
