"""Fixtures for tests of journals."""

from servers.postgres import postgres_server, postgres_url

__all__ = ["postgres_server", "postgres_url"]
