"""Fixtures for tests of the queue."""

from server.runs.conftest import http, serve, served, upstream

__all__ = ["http", "serve", "served", "upstream"]
