"""Supervised training and GRPO with TRL, whose trainers are used as they are."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
