"""One turn: a request of any API becomes a run, and the events of the run become pieces of the answer."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
