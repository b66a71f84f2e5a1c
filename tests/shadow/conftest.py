"""Fixtures of the command line and the journal, and places for pairs, for tests of shadows."""

from pathlib import Path
from tempfile import mkdtemp

from core.cli.conftest import config, podium, server
from servers.postgres import postgres_server, postgres_url

from podium_shadow import SqlPairs

__all__ = ["config", "podium", "postgres_server", "postgres_url", "server"]


class NewPairs(SqlPairs):
    """A place of its own, which is empty."""

    def __init__(self) -> None:
        super().__init__(Path(mkdtemp(prefix="pairs-")) / "pairs.db")
