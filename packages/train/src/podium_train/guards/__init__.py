"""Measures of each training step, rules that stop a run that fails, and the best checkpoint."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
