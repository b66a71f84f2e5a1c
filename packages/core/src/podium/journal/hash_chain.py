"""The chain of hashes over a run's records.

The hash of a record covers the hash before it and the whole record. So a record that was changed, removed,
inserted or moved is found, and the last hash covers the whole run. Somebody who can rewrite a run from some
record to its end can make a chain that holds: note the last hash elsewhere to find that too.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256

from podium.journal.entry import Record

ROOT = "0" * 64
"""Takes the place of the hash before the first record."""


@dataclass(frozen=True, slots=True)
class Break:
    """The first record of a run that is not as it was written."""

    run_id: str
    number: int
    """The number of the record, from 0."""
    reason: str


def link(before: str, number: int, at: float, text: str) -> str:
    """Return the hash of a record.

    Args:
        before: the hash of the record before it, or `ROOT`.
        number: of the record in its run, from 0.
        at: when it was recorded, in seconds of Unix time.
        text: the event in JSON.
    """
    return sha256(f"{before}\n{number}\n{at!r}\n{text}".encode()).hexdigest()


def verify(records: Sequence[Record]) -> Break | None:
    """Return the first broken place of one run's chain; `None` if it holds."""
    before = ROOT
    for number, record in enumerate(records):
        if record.number != number:
            return Break(record.run_id, number, f"record {number} is missing: {record.number} stands there")
        if record.run_id != records[0].run_id:
            return Break(records[0].run_id, number, f"it is of run {record.run_id}")
        if record.hash != link(before, number, record.at, record.text):
            return Break(record.run_id, number, "it was changed, or one before it was")
        before = record.hash
    return None
