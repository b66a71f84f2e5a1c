"""A store of keys in SQLite and in PostgreSQL."""

from pathlib import Path

import pytest

from podium.journal import SqlJournal
from podium_server.keys import KeyStore


@pytest.fixture(params=["sqlite", "postgres"])
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> SqlJournal:
    """Return a journal in an empty database."""
    if request.param == "sqlite":
        return SqlJournal(tmp_path / "runs.db")
    return SqlJournal(request.getfixturevalue("postgres_url"))


@pytest.fixture
def store(journal: SqlJournal) -> KeyStore:
    """Return the store of keys in the database of the journal."""
    return KeyStore(journal)
