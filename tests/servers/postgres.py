"""PostgreSQL for tests: one server for all tests, and an empty database for each test.

A `conftest.py` imports the fixtures from here.
"""

from collections.abc import Iterator

import psycopg
import pytest

from benchmarks.postgres_server import PostgresServer

_EMPTY = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid();
DROP SCHEMA public CASCADE; CREATE SCHEMA public
"""
"""Is faster than a new database, which is a copy of 7 MB. Connections of the last test may still be open."""


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """Start a server on a private port; its data need not outlive it."""
    with PostgresServer({"fsync": "off"}) as server:
        yield server


@pytest.fixture
def postgres_url(postgres_server: PostgresServer) -> str:
    """Return the URL of an empty database, in the form that users write."""
    url = postgres_server.url(driver="postgresql")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(_EMPTY)
    return url
