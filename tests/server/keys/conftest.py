"""A store of keys; in PostgreSQL too, for the tests that ask for it by `both`."""

from pathlib import Path

import pytest

from podium.journal import SqlJournal
from podium_server.keys import KeyStore

both = pytest.mark.parametrize(
    "journal", ["sqlite", pytest.param("postgres", marks=pytest.mark.long)], indirect=True
)


@pytest.fixture
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> SqlJournal:
    """Return a journal in an empty database."""
    if getattr(request, "param", "sqlite") == "sqlite":
        return SqlJournal(tmp_path / "runs.db")
    return SqlJournal(request.getfixturevalue("postgres_url"))


@pytest.fixture
def store(journal: SqlJournal) -> KeyStore:
    """Return the store of keys in the database of the journal."""
    return KeyStore(journal)
