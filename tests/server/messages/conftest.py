"""The server of the tests of chat completions."""

from server.chat.conftest import serve, served, upstream

__all__ = ["serve", "served", "upstream"]
