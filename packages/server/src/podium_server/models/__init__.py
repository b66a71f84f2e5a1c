"""The models of the server: conductors and workers of a `podium.toml`, by name."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
