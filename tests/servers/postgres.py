"""PostgreSQL for tests: one server for all tests, and an empty database for each test.

A `conftest.py` imports the fixtures from here.
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
    """Return the URL of an empty database, in the form that users write."""
    return postgres_server.url(postgres_server.create_database(), driver="postgresql")
