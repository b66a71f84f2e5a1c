from .audit import (
    anchors_of as anchors_of,
    export as export,
    verify_lines as verify_lines,
    verify_runs as verify_runs,
)
from .cache import Cache as Cache, MemoryCache as MemoryCache, SqlCache as SqlCache
from .journal import Entry as Entry, Journal as Journal, Log as Log, Record as Record, RunRow as RunRow
from .memory import MemoryJournal as MemoryJournal
from .sql.database import Transaction as Transaction
from .sql.journal import SqlJournal as SqlJournal
from .sql.tables import Location as Location, Schema as Schema, SqlTables as SqlTables
