"""The values that the other folders exchange: messages, plan, outcome, result, events. Pure data."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
