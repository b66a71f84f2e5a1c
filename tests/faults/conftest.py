"""The journals of the fault suite: an SQLite file, or a database on a PostgreSQL server for the suite."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from faults.lives import Nursery, nursing

from benchmarks.postgres_server import PostgresServer


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    with PostgresServer() as server:
        yield server


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    with nursing() as started:
        yield started


@pytest.fixture
def sqlite_place(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'journal.db'}"


@pytest.fixture
def postgres_place(postgres: PostgresServer) -> str:
    return postgres.url(postgres.create_database(), driver="postgresql")


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest) -> str:
    made: str = request.getfixturevalue(f"{request.param}_place")
    return made
