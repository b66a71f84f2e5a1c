"""Executes one run, from request to result: lease, planning, approval, rounds, acceptance."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
