"""Reports tokens, costs, latency, failures and loops of model calls in exports and journals."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
