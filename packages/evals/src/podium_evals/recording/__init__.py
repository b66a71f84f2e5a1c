"""Makes recordings of your own: from questions and a pool, or from a journal."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
