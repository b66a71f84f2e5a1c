"""Fixtures of the command line."""

from core.cli.conftest import podium, spawn
from servers.postgres import postgres_server, postgres_url

__all__ = ["podium", "postgres_server", "postgres_url", "spawn"]
