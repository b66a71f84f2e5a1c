"""A tiny model of our own: tokens, warm start, a lean sampler and a lean GRPO loop."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
