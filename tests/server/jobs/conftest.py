"""Fixtures for tests of the queue."""

from server.runs.conftest import http, keyed, new_key, serve, served, upstream, url

__all__ = ["http", "keyed", "new_key", "serve", "served", "upstream", "url"]
