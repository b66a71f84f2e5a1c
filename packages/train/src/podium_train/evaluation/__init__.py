"""Compares a conductor with other ways to plan, on the same episodes."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
