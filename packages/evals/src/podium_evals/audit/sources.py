"""Finds out whether an argument of the command is the file of an export or a journal."""

import sqlite3
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from podium.errors import ConfigError
from podium.journal import Journal, SqlJournal
from podium_evals.audit.files import is_journal


def source_of(named: str, wanted: str) -> Path | Journal:
    """Return the file or the journal that an argument names.

    Args:
        named: a path, or the URL of a journal.
        wanted: the format that the user gave; `auto` for any format.

    Raises:
        ConfigError: the file cannot be read, or contradicts `wanted`.
    """
    if named.startswith(("sqlite://", "postgresql://", "postgres://")):
        _check(wanted, named, is_database=True)
        journal = SqlJournal(named)
        if named.startswith("sqlite://"):
            _check_journal(Path(named.removeprefix("sqlite:///")))
        return journal
    path = Path(named)
    is_database = is_journal(path)
    _check(wanted, named, is_database=is_database)
    if not is_database:
        return path
    _check_journal(path)
    return SqlJournal(path)


def _check(wanted: str, named: str, *, is_database: bool) -> None:
    if wanted == "journal" and not is_database:
        raise ConfigError(f"{named} is not a journal: a journal is an SQLite file or the URL of a database")
    if wanted not in ("auto", "journal") and is_database:
        raise ConfigError(f"{named} is a database, not a file of the format {wanted}")


def _check_journal(path: Path) -> None:
    """Refuse an SQLite file without a journal, because opening it would create a journal's tables in it."""
    if not is_journal(path):
        raise ConfigError(f"{path} is not an SQLite file")
    try:
        with closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True)) as database:
            found = database.execute("SELECT 1 FROM sqlite_master WHERE name = 'podium_runs'").fetchone()
    except sqlite3.Error as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error
    if found is None:
        raise ConfigError(f"{path} is an SQLite file, but not a journal of Podium")
