"""The journal: the durable, ordered record of what runs did."""

from podium.journal.answers import SqlCache
from podium.journal.entry import Entry, Record, RunRow
from podium.journal.journal import Journal, Log
from podium.journal.memory import MemoryJournal
from podium.journal.sql import SqlJournal

__all__ = ["Entry", "Journal", "Log", "MemoryJournal", "Record", "RunRow", "SqlCache", "SqlJournal"]
