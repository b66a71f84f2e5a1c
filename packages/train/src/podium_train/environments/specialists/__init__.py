"""The synthetic world of specialists: questions of six kinds, and workers that are good at some of them."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
