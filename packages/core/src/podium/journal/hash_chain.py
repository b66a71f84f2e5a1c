"""The chain of hashes over a run's records: what it holds together, and where it is broken.

Each record's hash is over the hash before it and all of the record, so that changing,
dropping, adding or moving one shows, and the last hash stands for the whole run. Who can
rewrite a run from a record to its end can make a chain that fits: note the last hash
elsewhere to see that too.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256

from podium.journal.entry import Record

ROOT = "0" * 64
"""What stands for the hash before the first."""


@dataclass(frozen=True, slots=True)
class Break:
    """The first place where a run's records are not what was written."""

    run_id: str
    number: int
    """Of the record, from 0."""
    reason: str


def link(before: str, number: int, at: float, text: str) -> str:
    """Return the hash of a record that follows the one whose hash is `before`."""
    return sha256(f"{before}\n{number}\n{at!r}\n{text}".encode()).hexdigest()


def verify(records: Sequence[Record]) -> Break | None:
    """Return where one run's chain is broken; `None` when it holds."""
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
