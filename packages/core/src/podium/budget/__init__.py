"""The limits of a run, and the ledger of its reserved and spent amounts."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
