"""Run a candidate in parallel to the production system, on a sample of its requests, and compare the two.

The package imports no framework: an adapter passes the production system and the candidate.
"""

import lazy_loader

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
