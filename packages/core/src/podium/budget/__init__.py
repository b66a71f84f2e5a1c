"""What a run may spend (limits), and what it has reserved and spent (ledger)."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
