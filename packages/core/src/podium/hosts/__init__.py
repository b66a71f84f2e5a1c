"""The shared parts of adapters: errors, tools, cards, chat calls, results as metadata."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
