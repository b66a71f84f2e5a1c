"""`POST /mcp`: the models as tools of an MCP server."""
