"""Routers: predict from a question how well each worker will answer, and choose the worker."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
