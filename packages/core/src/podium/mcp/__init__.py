"""MCP: tools and resources of servers as workers, and a conductor as a server."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
