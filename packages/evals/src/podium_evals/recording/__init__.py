"""Makes your own recordings: asks a pool the questions of a file, or reads a journal."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
