"""Fixtures of the command line."""

from core.cli.conftest import config, podium, server, spawn

__all__ = ["config", "podium", "server", "spawn"]
