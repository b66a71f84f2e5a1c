"""A store of keys, beside a journal."""

import pytest

from podium.journal import SqlJournal
from podium_server.keys import KeyStore


@pytest.fixture
def journal(url: str) -> SqlJournal:
    """Return a journal in an empty database."""
    return SqlJournal(url)


@pytest.fixture
def store(journal: SqlJournal) -> KeyStore:
    """Return the store of keys in the database of the journal."""
    return KeyStore(journal)
