"""The prompts that are sent to models: texts, and the code that fills them in."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
