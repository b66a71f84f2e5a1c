"""Fixtures of the command line and the journal, for tests of shadows."""

from core.cli.conftest import config, podium, server
from servers.postgres import postgres_server, postgres_url

__all__ = ["config", "podium", "postgres_server", "postgres_url", "server"]
