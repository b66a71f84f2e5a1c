"""Compares arms on recordings, and writes the result with its provenance as a table or JSON."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
