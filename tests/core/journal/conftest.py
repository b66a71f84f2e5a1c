"""Fixtures for tests of journals."""

from pathlib import Path

import pytest
from servers.postgres import postgres_server, postgres_url

__all__ = ["place", "postgres_server", "postgres_url"]


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.long)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'journal.db'}"
    url: str = request.getfixturevalue("postgres_url")
    return url
