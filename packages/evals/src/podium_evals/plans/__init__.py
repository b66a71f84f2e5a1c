"""Recorded plans: a planner is asked once, its plans are kept in a file, and an arm scores them later."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
