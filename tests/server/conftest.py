"""Fixtures for tests of the server."""

from core.cli.conftest import podium
from servers.postgres import postgres_server, postgres_url

__all__ = ["podium", "postgres_server", "postgres_url"]
