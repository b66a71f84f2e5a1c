"""Rebuilds a run's state from its recorded events: what is paid for, what is owed."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
