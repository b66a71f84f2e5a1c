"""Drawings with rich, except live runs: consoles, Markdown, plans, forecasts.

The names load on first use, because output for programs and pipes does not need rich.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
