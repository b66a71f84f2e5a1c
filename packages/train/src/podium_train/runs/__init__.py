"""The folder of a run of training: what the run was started with, and which changes it refuses."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
