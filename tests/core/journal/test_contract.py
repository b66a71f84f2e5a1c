"""Every journal keeps the contract of journals."""

from pathlib import Path

import pytest
from contracts.journal_contract import JournalContract

from podium.journal import Journal, MemoryJournal, SqlJournal


class TestMemoryJournal(JournalContract):
    @pytest.fixture
    def journal(self) -> Journal:
        return MemoryJournal()


class TestSqlite(JournalContract):
    @pytest.fixture
    def journal(self, tmp_path: Path) -> Journal:
        """Return one whose file is not there yet."""
        return SqlJournal(tmp_path / "state" / "journal.db")


class TestPostgres(JournalContract):
    @pytest.fixture
    def journal(self, postgres_url: str) -> Journal:
        return SqlJournal(postgres_url)
