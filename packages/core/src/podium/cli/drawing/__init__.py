"""What rich draws, apart from a live run: consoles, Markdown, plans.

The names load on first use: output for programs and pipes does not need rich.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
