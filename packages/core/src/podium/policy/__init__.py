"""What plans may do: who may work, on what data, in how many steps, and who must approve."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
