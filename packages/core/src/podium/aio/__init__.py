"""Event loops, shared resources, shielding and the bridge from sync code, independent of Podium."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
