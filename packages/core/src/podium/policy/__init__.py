"""Rules for plans: allowed workers, their access to data, the number of steps, and approvals."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
