"""Recorded answers of models: their questions and samples, and functions to read and write recordings."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
