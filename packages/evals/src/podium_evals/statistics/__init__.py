"""Splits of questions, and intervals of means, of differences and of sums."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
