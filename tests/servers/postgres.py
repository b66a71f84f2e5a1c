"""PostgreSQL for tests: one server for all of them, an empty database for each that asks.

A `conftest.py` that wants the fixtures imports them from here.
"""

from collections.abc import Iterator

import pytest

from benchmarks.postgres_server import PostgresServer


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """Start a server on a private port."""
    with PostgresServer() as server:
        yield server


@pytest.fixture
def postgres_url(postgres_server: PostgresServer) -> str:
    """Return the URL of an empty database, as a user writes it."""
    return postgres_server.url(postgres_server.create_database(), driver="postgresql")
