"""Runs a candidate beside what is in production, on a sample of its requests, and compares the two.

It knows no framework: an adapter says what runs in production and what the candidate is.
"""

import lazy_loader

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
