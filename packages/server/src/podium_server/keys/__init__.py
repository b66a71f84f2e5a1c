"""API keys: their store, their limits, the ledger that all replicas share, and sessions of the viewer."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
