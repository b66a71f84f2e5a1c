"""The log of the changes of keys: who, what, when, in one chain of hashes like the records of a run."""

from collections.abc import Sequence
from dataclasses import dataclass
from time import time
from typing import Any

from podium.errors import JournalBroken
from podium.journal import Transaction
from podium.journal.journal import ROOT, link
from podium.types.codec import read_record, write_record

COMMAND = "command line"
"""Who makes a change without an API key."""
_CHAIN = "keys"
"""What the hashes of the log have in place of the id of a run."""
_LAST = "SELECT number, hash FROM podium_key_changes ORDER BY number DESC LIMIT 1"
_ADD = "INSERT INTO podium_key_changes (number, at, text, hash) VALUES (?, ?, ?, ?)"
_ALL = "SELECT number, at, text, hash FROM podium_key_changes ORDER BY number"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change of a key."""

    at: float
    """Seconds of Unix time."""
    who: str
    """The id of an admin's key, or `COMMAND` with the name of the user."""
    what: str
    """`create`, `update`, `rotate` or `revoke`."""
    key_id: str
    details: str = ""
    """The rules that it set, as JSON."""


async def add_change(transaction: Transaction, key_id: str, what: str, who: str, details: str = "") -> None:
    """Add a change that the transaction makes."""
    last: Sequence[Any] = await transaction.fetch(_LAST)
    number, before = (last[0]["number"] + 1, last[0]["hash"]) if last else (0, ROOT)
    at = time()
    text = write_record(Change(at=at, who=who, what=what, key_id=key_id, details=details), "change")
    await transaction.execute(_ADD, number, at, text, link(before, _CHAIN, number, at, text))


async def read_changes(transaction: Transaction) -> Sequence[Change]:
    """Return all changes, oldest first.

    Raises:
        JournalBroken: a change was altered or deleted.
    """
    found, before = [], ROOT
    for place, row in enumerate(await transaction.fetch(_ALL)):
        if row["number"] != place or row["hash"] != link(before, _CHAIN, place, row["at"], row["text"]):
            raise JournalBroken(f"change {place} in the log of the API keys was altered, or is missing")
        before = row["hash"]
        found.append(read_record(row["text"], Change, "change"))
    return found
