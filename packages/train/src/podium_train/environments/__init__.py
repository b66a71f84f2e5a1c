"""Environments: episodes for a conductor, and the outcome of its plans."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
