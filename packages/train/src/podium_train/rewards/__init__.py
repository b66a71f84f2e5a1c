"""The reward service: cached, limited and resumable, in process or over HTTP."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
