"""A conductor as an MCP server."""
