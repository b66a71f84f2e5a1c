"""What the tests of commands share with those of the core's command line."""

from core.cli.conftest import config, podium, server, spawn

__all__ = ["config", "podium", "server", "spawn"]
