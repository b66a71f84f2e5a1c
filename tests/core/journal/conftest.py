"""What the tests of journals share."""

from servers.postgres import postgres_server, postgres_url

__all__ = ["postgres_server", "postgres_url"]
