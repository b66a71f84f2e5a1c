"""Measures each worker's rate of right answers on a kind of questions, with few graded answers."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
