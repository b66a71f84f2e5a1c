"""The state of a running run, and its live view in a terminal.

The names load on first use, because a run in a pipe does not need rich.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
