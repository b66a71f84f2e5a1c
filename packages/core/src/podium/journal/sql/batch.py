"""Builds a batch: the encoded events of many runs, without secrets, that one transaction commits."""

import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace

from podium.journal.codec import encode
from podium.journal.entry import unwritable
from podium.journal.hash_chain import add
from podium.journal.sql.run_log import RunState, SqlLog
from podium.secrets import scrub
from podium.types.events import Event, RunEnded, RunStarted, RunStopped

Queued = tuple[SqlLog, float, Event | None]
"""A log, the time of the append in seconds of Unix time, and the event.

`None` in place of an event releases the run.
"""
RecordRow = tuple[str, int, float, str, str]
"""A record: run id, number, time, text and hash."""


@dataclass(slots=True)
class Batch:
    """The rows that one transaction commits."""

    counts: dict[SqlLog, int] = field(default_factory=dict)
    """Number of queue items of each log in the batch."""
    new: list[SqlLog] = field(default_factory=list)
    """The logs whose run begins with this batch."""
    records: dict[SqlLog, list[RecordRow]] = field(default_factory=dict)
    """The records of each log, in order."""
    states: dict[SqlLog, RunState] = field(default_factory=dict)
    """The state of each changed run after the batch."""
    answers: dict[SqlLog, list[tuple[str, str, str]]] = field(default_factory=dict)
    """Key, run id and labels of the answers of each log."""
    released: set[SqlLog] = field(default_factory=set)
    """Logs of an earlier batch that failed or was not acknowledged; their runs are released."""
    is_retry: bool = False
    """Whether an earlier attempt may have committed the batch already."""

    def only(self, logs: Collection[SqlLog]) -> "Batch":
        """Return the part of the batch for some logs, to be retried."""
        return Batch(
            counts={log: count for log, count in self.counts.items() if log in logs},
            new=[log for log in self.new if log in logs],
            records={log: rows for log, rows in self.records.items() if log in logs},
            states={log: state for log, state in self.states.items() if log in logs},
            answers={log: rows for log, rows in self.answers.items() if log in logs},
            is_retry=True,
        )


def make_batch(queue: Iterable[Queued]) -> Batch:
    """Encode each event, remove secrets, and hash each record with the previous record."""
    batch = Batch()
    encoded: list[tuple[SqlLog, float, str]] = []
    for log, at, event in queue:
        if log.failure is not None:
            continue
        batch.counts[log] = batch.counts.get(log, 0) + 1
        if event is None:
            _release(batch, log)
            continue
        try:
            encoded.append((log, at, encode(event)))
        except Exception as error:  # noqa: BLE001 - reported to its run; other runs continue
            _release(batch, log)
            log.fail(unwritable(log.run_id, event, error))
            continue
        _update_state(batch, log, at, event)
    texts = [text for *_, text in encoded]
    joined = "\n".join(texts)
    if scrub(joined) != joined:  # rare, and one pass over the whole batch is cheaper than one for each text
        texts = [scrub(text) for text in texts]
    for (log, at, _), text in zip(encoded, texts, strict=True):
        last = log.last = add(log.last, log.run_id, at, text)
        batch.records.setdefault(log, []).append((log.run_id, last.records - 1, at, text, last.hash))
    return batch


def _update_state(batch: Batch, log: SqlLog, at: float, event: Event) -> None:
    """Update the state of a run after an event."""
    match event:
        case RunStarted():
            batch.new.append(log)
            return
        case RunEnded(result=result, cost=cost, answer_key=key):
            log.state = RunState(result.status, at, cost, is_held=False)
            if key:
                row = (key, log.run_id, json.dumps(sorted(result.labels)))
                batch.answers.setdefault(log, []).append(row)
        case RunStopped():
            log.state = RunState("stopped", at, is_held=False)
        case _ if log.state.name != "running":
            log.state = RunState()
        case _:
            return
    batch.states[log] = log.state


def _release(batch: Batch, log: SqlLog) -> None:
    """Release a run. A claimed run without new events keeps its state."""
    name = "stopped" if log.state.name == "running" else log.state.name
    batch.states[log] = log.state = replace(log.state, name=name, is_held=False)
