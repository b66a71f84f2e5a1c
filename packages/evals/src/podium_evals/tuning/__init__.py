"""Finds out which ways to answer pay for a pool, and writes the best one into `podium.toml`."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
