"""Ways to answer the same questions with the same pool, which are compared: arms."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
