"""HTTP: requests with limits, JSON responses and event streams, and the server's process."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
