"""A server whose models are scripted, and replies of a team."""

from server.chat.conftest import serve, served, upstream

__all__ = ["serve", "served", "upstream"]
