"""Examples of plans, on which a conductor is trained before it learns from rewards."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
