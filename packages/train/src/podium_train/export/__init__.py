"""Exports of trained conductors, and the planner that serves them with the prompt of their training."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
