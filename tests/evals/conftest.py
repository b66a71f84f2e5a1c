"""What the tests of commands share with those of the core's command line."""

from core.cli.conftest import config, podium, server, spawn
from servers.postgres import postgres_server, postgres_url

__all__ = ["config", "podium", "postgres_server", "postgres_url", "server", "spawn"]
