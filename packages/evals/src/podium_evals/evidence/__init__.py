"""Measures all arms on the public recordings, and writes the page of results with tables and pictures."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
