"""The state of a run that is under way, and its picture in a terminal.

The names load on first use: the picture needs rich, which a run in a pipe does not.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
