"""A server with keys, for clients of A2A."""

from server.mcp.conftest import keyed, new_key, upstream

__all__ = ["keyed", "new_key", "upstream"]
