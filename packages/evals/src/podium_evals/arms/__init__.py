"""Arms: ways to answer questions with a pool of models. An evaluation compares arms on the same questions."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
