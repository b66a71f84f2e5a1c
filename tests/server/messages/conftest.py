"""The server of the tests of chat completions."""

from server.chat.conftest import refusing, serve, served, upstream

__all__ = ["refusing", "serve", "served", "upstream"]
