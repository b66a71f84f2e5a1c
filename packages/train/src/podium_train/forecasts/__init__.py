"""Forecasts of cost and duration, before a part of a training starts and again after its first updates."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
