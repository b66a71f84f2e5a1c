"""Fixtures for tests of the server: scripted models, and servers of a team with and without keys."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from core.cli.conftest import podium
from server.scene import Serve, config, keys_in, team
from servers.chat_server import ChatServer
from servers.podium_server import Served, serving
from servers.postgres import postgres_server, postgres_url

__all__ = ["podium", "postgres_server", "postgres_url"]


@pytest.fixture(scope="module")
def scripted() -> Iterator[ChatServer]:
    """Serve the models behind the workers of all tests of a module."""
    with ChatServer(team).in_thread() as server:
        yield server


@pytest.fixture
def upstream(scripted: ChatServer) -> ChatServer:
    """Return the models; they reply as a team, unless a test sets `reply`."""
    scripted.reply = team
    scripted.calls.clear()
    return scripted


@pytest.fixture
def serve(upstream: ChatServer, tmp_path: Path) -> Iterator[Serve]:
    """Return a function that serves the config with tables of a test, to callers with keys if it says so."""
    with ExitStack() as stack:

        def start(*, planner: str = "", keys: bool = False, url: str = "", **tables: str) -> Served:
            text = config(upstream.url, url, **tables).replace("[planner]", f"[planner]\n{planner}")
            access = keys_in(url or tmp_path / "runs.db") if keys else None
            return stack.enter_context(serving(text, tmp_path, access))

        yield start


@pytest.fixture(scope="module")
def _open(scripted: ChatServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(config(scripted.url), tmp_path_factory.mktemp("open")) as running:
        yield running


@pytest.fixture
def served(upstream: ChatServer, _open: Served) -> Served:
    """Return a server of the config without tables of its own, the same for all tests of a module."""
    return _open


@pytest.fixture(scope="module")
def _closed(scripted: ChatServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("closed")
    text = config(scripted.url, server="drain_seconds = 5.0")
    with serving(text, folder, keys_in(folder / "runs.db")) as running:
        yield running


@pytest.fixture
def keyed(upstream: ChatServer, _closed: Served) -> Served:
    """Return a server for callers with keys, the same for all tests of a module."""
    return _closed


@pytest.fixture
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the URL of an empty database: a file, or PostgreSQL if a test asks for it."""
    if getattr(request, "param", "sqlite") == "sqlite":
        return f"sqlite:///{tmp_path}/runs.db"
    found: str = request.getfixturevalue("postgres_url")
    return found


@pytest.fixture
def folder(url: str, tmp_path: Path, upstream: ChatServer) -> Path:
    """A folder with the config of a team."""
    database = "" if url.startswith("sqlite") else url
    (tmp_path / "podium.toml").write_text(config(upstream.url, database, server="drain_seconds = 3.0"))
    return tmp_path
